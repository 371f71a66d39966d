package adversaries

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
)

// secondNamespace is where the second copy of each operator is.
const secondNamespace = "second"

// silence is how many renewals of a lease, every 2.6 s, two copies are watched for.
const silence = 4

// Two copies in two namespaces have a lease each. The older one works, the other one says why it does not, and neither wakes the other.
func TestOfTwoCopiesOfTheEFSOperatorTheOlderWorks(t *testing.T) {
	cluster := suite.cluster
	secondEFS(t, cluster)
	first, second := deployment(t, cluster, env.OperatorNamespace), deployment(t, cluster, secondNamespace)
	own := tenant(t, cluster, "beside-copies")
	// What counts is who was installed first, not who was started first.
	later, err := cluster.StartOperatorIn(t.Context(), secondNamespace, []string{oftener}, []string{"LOOK_AT_AWS=false"})
	env.Must(t, err)
	env.StopAtEnd(t, later)
	env.Eventually(t, "the second copy leads in its namespace", later.Started)
	earlier := operate(t, cluster, oftener)
	env.Eventually(t, "the first copy leads in its namespace", earlier.Started)
	mark := now(t)
	t.Cleanup(func() {
		for _, user := range []string{env.OperatorUser, env.OperatorUserIn(secondNamespace)} {
			t.Logf("%s has written: %s", user, tally(requests(t, mark, user, isWork)))
		}
	})
	install(t, cluster)
	sv := env.SharedVolume("beside-copies", "data")
	env.Must(t, own.Create(t.Context(), sv))
	env.Must(t, env.AwaitFor(t.Context(), patience, "Ready beside a second copy", func() error { return cluster.Ready(t.Context(), sv) }))
	env.Eventually(t, "the second copy says why it does nothing", func() error {
		return hasEvent(t.Context(), cluster, "AnotherCopyWorks", env.OperatorNamespace+"/"+env.OperatorName)
	})
	if made := requests(t, mark, env.OperatorUserIn(secondNamespace), isWork); len(made) > 1 {
		t.Errorf("the second copy has written more than its event:\n%s", env.Describe(made))
	}
	// Ready comes before the last word about the driver.
	env.Quiet(t, earlier)
	still(t, env.OperatorUser, env.OperatorUserIn(secondNamespace))

	// Without the older one, the other one has to go on.
	env.Must(t, cluster.Client.Delete(t.Context(), first))
	env.Must(t, earlier.Stop())
	next := env.SharedVolume("beside-copies", "next")
	env.Must(t, own.Create(t.Context(), next))
	env.Eventually(t, "served by the second copy", func() error { return cluster.Ready(t.Context(), next) })
	env.Must(t, cluster.Client.Delete(t.Context(), second))
	env.Must(t, later.Stop())
	last := operate(t, cluster, alone)
	env.Eventually(t, "the operator works", last.Started)
	env.Must(t, cluster.Uninstall(t.Context()))
}

// secondEFS gives the second namespace all RBAC of the EFS operator.
func secondEFS(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	env.Must(t, cluster.InstallManifestsIn(t.Context(), secondNamespace))
	// The binding of the cluster-wide role has one name, and has just moved.
	env.Must(t, cluster.InstallManifests(t.Context()))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "second-copy"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: env.OperatorName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: secondNamespace, Name: env.OperatorName}},
	}
	env.Must(t, cluster.Client.Create(t.Context(), binding))
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.Background(), binding); err != nil {
			t.Error(err)
		}
		forget(t, cluster, secondNamespace)
	})
}

// deployment is that of the EFS operator, as it is shipped, in a namespace. Its pods are fake; processes stand for them.
func deployment(t *testing.T, cluster *env.Cluster, namespace string) *appsv1.Deployment {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "config", "manager", "manager.yaml"))
	env.Must(t, err)
	filled := strings.NewReplacer("${IMAGE:aws-efs-csi-driver-operator}", "registry.example/operator:1.0.0", "${VERSION}", "1.0.0").Replace(string(text))
	object := &appsv1.Deployment{}
	env.Must(t, yaml.UnmarshalStrict([]byte(filled), object))
	object.Namespace = namespace
	env.Must(t, cluster.Client.Create(t.Context(), object))
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)); err != nil {
			t.Error(err)
		}
	})
	return object
}

// hasEvent checks that an event on the ClusterCSIDriver of EFS has a reason and a text.
func hasEvent(ctx context.Context, cluster *env.Cluster, reason, text string) error {
	events := &corev1.EventList{}
	if err := cluster.Client.List(ctx, events); err != nil {
		return err
	}
	for i := range events.Items {
		event := &events.Items[i]
		if event.InvolvedObject.Name == env.EFS("").Name && event.Reason == reason && strings.Contains(event.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("no event %s with %q", reason, text)
}

// isWork is true for a write that is not about a lease.
func isWork(r env.Request) bool { return r.IsWrite() && !r.IsLease() }

// still waits for renewals of the lease of each user, and allows no write besides.
func still(t *testing.T, users ...string) {
	t.Helper()
	mark := now(t)
	env.Must(t, env.AwaitFor(t.Context(), (silence+1)*30*time.Second, "renewals of the leases", func() error {
		for _, user := range users {
			renewals := requests(t, mark, user, func(r env.Request) bool { return r.IsLease() && r.IsWrite() })
			if len(renewals) < silence {
				return fmt.Errorf("%d renewals of %s", len(renewals), user)
			}
		}
		return nil
	}))
	for _, user := range users {
		if made := requests(t, mark, user, isWork); len(made) > 0 {
			t.Errorf("%d writes of %s while nothing happens, such as:\n%s", len(made), user, env.Describe(made[:min(len(made), 10)]))
		}
	}
}

var errNotEnded = errors.New("it still runs")

// A cluster's release has one namespace for the cluster-storage-operator, and one for the operators of its drivers. A copy in another namespace ends
// before it has written anything.
func TestACopyOfAnOperatorOfTheReleaseEndsWithTheReason(t *testing.T) {
	cluster := suite.cluster
	const second = "elsewhere"
	env.Must(t, cluster.Namespace(t.Context(), second))
	t.Cleanup(func() { forget(t, cluster, second) })
	for name, program := range map[string]struct {
		binary, right string
		args          []string
	}{
		"gcp-pd-csi-driver-operator": {env.Program(env.DriverOperator), env.OperatorNamespace, []string{"--driver", "pd.csi.storage.gke.io"}},
		env.CSO:                      {env.Program(env.CSO), env.CSONamespace, nil},
	} {
		t.Run(name, func(t *testing.T) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: second, Name: name}}
			// Rights are not what stops it.
			binding := &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "second-" + name},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: second, Name: name}},
			}
			env.Must(t, cluster.Put(t.Context(), "admin", account, binding))
			t.Cleanup(func() {
				if err := cluster.Client.Delete(context.Background(), binding); err != nil {
					t.Error(err)
				}
			})
			kubeconfig, err := cluster.AccountKubeconfig(t.Context(), second, name)
			env.Must(t, err)
			environment := []string{}
			for _, image := range []string{"ATTACHER", "RESIZER", "SNAPSHOTTER"} {
				environment = append(environment, image+"_IMAGE=registry.example/image:1.0.0")
			}
			mark := now(t)
			args := append([]string{
				"start", "--kubeconfig", kubeconfig, "--namespace", second, "--health-probe-bind-address=0", "--metrics-bind-address=0",
			}, program.args...)
			operator, err := env.RunOperator(program.binary, args, environment)
			env.Must(t, err)
			t.Cleanup(operator.Kill)
			env.Eventually(t, "its end", func() error {
				select {
				case <-operator.Done():
					return nil
				default:
					return errNotEnded
				}
			})
			if said := operator.Output(); !strings.Contains(said, "error: ") || !strings.Contains(said, program.right) {
				t.Errorf("it ends with:\n%s\nwithout naming namespace %s", env.LastLines(said), program.right)
			}
			user := "system:serviceaccount:" + second + ":" + name
			if made := requests(t, mark, user, env.Request.IsWrite); len(made) > 0 {
				t.Errorf("it has written:\n%s", env.Describe(made))
			}
		})
	}
}
