package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// moments are how many times the program is killed at least.
const moments = 10

// Whenever the program is killed while it replaces an operator that OLM installed, the next one comes to the same end. It is killed at each
// of its writes, by turns before and after that reaches the API server, and by make soak both: how often it looks in between depends on how
// fast others are. What is left decides what comes next for both operators alike, which internal/controller/storage/olm shows for each step.
func TestAReplacementOfOLMsOperatorOutlivesKills(t *testing.T) {
	t.Run("EBS", func(t *testing.T) {
		env.OnlySoak(t)
		s := fresh(t, configv1.AWSPlatformType)
		predecessor := s.ebs()
		env.Must(t, predecessors.PutLegacyEBS(t.Context(), s.Cluster))
		k := s.outside("csi-driver-operator")
		k.binding = &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: predecessors.LegacyEBSNamespace, Name: predecessor.Entry.Operator + "-role"}}
		k.driver = predecessors.LegacyEBS()
		k.outlives(predecessor)
	})
	t.Run("Manila", func(t *testing.T) {
		s := fresh(t, configv1.OpenStackPlatformType)
		predecessor := s.manila()
		no := false
		driver := &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: predecessor.Entry.Name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no, PodInfoOnMount: &no},
		}
		env.Must(t, s.Client.Create(t.Context(), driver))
		k := s.outside("csi-driver-operator")
		k.driver, k.few = []client.Object{driver}, true
		k.outlives(predecessor)
	})
}

// outlives is the test for one operator.
func (k *killable) outlives(predecessor *predecessors.OLMOperator) {
	t := k.t
	// One that nobody kills shows what the others have to reach, and how many writes that takes.
	env.Must(t, predecessor.Install(t.Context(), settings()))
	var work atomic.Int64
	match := replaces(predecessor)
	k.through.Set(func(r *http.Request) env.Fault {
		if match(r) {
			work.Add(1)
		}
		return nil
	})
	program := k.start()
	k.eventually("the operator replaced", func() error { return k.replaced(predecessor) })
	k.stop(program)
	cost, want := int(work.Load()), k.end(predecessor)
	t.Logf("undisturbed, that takes %d writes", cost)
	if 2*cost < moments {
		t.Fatalf("%d writes have fewer than %d moments", cost, moments)
	}

	for i := range 2 * cost {
		if byTurns := i%2 == i/2%2; (!byTurns || !k.chosen(i/2, cost)) && !env.IsSoak(t) {
			continue
		}
		k.clear(predecessor)
		env.Must(t, predecessor.Install(t.Context(), settings()))
		at, arrives := 1+i/2, i%2 == 0
		program, killed := k.startArmed(match, at, arrives)
		k.eventually(fmt.Sprintf("killed at write %d", at), func() error {
			if !killed() {
				return errors.New("not yet")
			}
			return nil
		})
		<-program.Done()
		k.through.Set(nil)
		program = k.start()
		k.eventually("the operator replaced", func() error { return k.replaced(predecessor) })
		k.stop(program)
		if diff := cmp.Diff(want, k.end(predecessor)); diff != "" {
			t.Errorf("killed at write %d, which arrives: %t: the end (-undisturbed +killed):\n%s", at, arrives, diff)
		}
	}
	k.clear(predecessor)
}

// chosen reports whether to kill at a write: at each, or where the same is shown for another operator, at the first, at the last and in the middle.
func (k *killable) chosen(write, cost int) bool {
	return !k.few || write == 0 || write == cost/2 || write == cost-1
}

// killable is the cluster-storage-operator as a process whose requests go through a proxy. What it starts is no program, so that
// nothing but the replacement happens.
type killable struct {
	*scene
	through     *env.Proxy
	kubeconfig  string
	environment []string
	// driver is what the old operator has made, and must stay; binding the RBAC in its namespace, nil if the new one needs none.
	driver  []client.Object
	binding *rbacv1.RoleBinding
	// few says that a few kills are enough.
	few bool
}

// outside applies the release without the Deployment, of which it takes the environment. Operators of one image are no programs.
func (s *scene) outside(image string) *killable {
	s.t.Helper()
	k := &killable{scene: s, through: env.NewProxy(s.t, s.Cluster)}
	s.install(env.Release{
		Version: release, Images: map[string]string{image: "registry.example/nothing:1"},
		Edit: func(object *unstructured.Unstructured) bool {
			if object.GetKind() != "Deployment" {
				return true
			}
			deployment := &appsv1.Deployment{}
			env.Must(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment))
			for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
				if variable.ValueFrom == nil {
					k.environment = append(k.environment, variable.Name+"="+variable.Value)
				}
			}
			return false
		},
	})
	k.kubeconfig = k.through.KubeconfigOf(s.t, s.Cluster, env.CSONamespace, env.CSO)
	return k
}

func (k *killable) start(args ...string) *env.Operator {
	k.t.Helper()
	program, err := env.RunOperator(env.Program(env.CSO), append([]string{
		"start", "--kubeconfig", k.kubeconfig, "--namespace", env.CSONamespace, "--leader-elect=false",
		"--health-probe-bind-address", "0", "--metrics-bind-address", "0",
	}, args...), k.environment)
	env.Must(k.t, err)
	env.StopAtEnd(k.t, program)
	return program
}

// startArmed starts one that is killed at its n-th write. Whether the API server gets that is up to the caller.
func (k *killable) startArmed(match func(*http.Request) bool, n int, arrives bool) (program *env.Operator, killed func() bool) {
	k.t.Helper()
	ready := make(chan struct{})
	killed = k.through.KillAt(match, n, arrives, func() {
		<-ready
		program.Kill()
	})
	program = k.start()
	close(ready)
	return program, killed
}

func (k *killable) stop(program *env.Operator) {
	k.t.Helper()
	env.Must(k.t, program.Stop())
}

// replaces finds the writes by which an operator that OLM installed is replaced.
func replaces(predecessor *predecessors.OLMOperator) func(*http.Request) bool {
	parts := []string{
		"operators.coreos.com/v1alpha1", "csi.openshift.io/v1alpha1", predecessors.LegacyEBSNamespace, "/clustercsidrivers/" + predecessor.Entry.Name,
	}
	return func(r *http.Request) bool {
		return env.IsWrite(r) && slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(r.URL.Path, part) })
	}
}

func (k *killable) deployment(predecessor *predecessors.OLMOperator) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: predecessor.Entry.Operator}}
}

// replaced checks that the old operator has gone, and that the new one is there.
func (k *killable) replaced(predecessor *predecessors.OLMOperator) error {
	if err := predecessor.Gone(k.t.Context()); err != nil {
		return err
	}
	deployment, ctx := k.deployment(predecessor), k.t.Context()
	return errors.Join(k.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment), k.hasSettings(predecessor.Entry.Name))
}

// made are the objects that the replacement makes.
func (k *killable) made(predecessor *predecessors.OLMOperator) []client.Object {
	made := []client.Object{k.deployment(predecessor), env.CR(predecessor.Entry.Name, "")}
	if k.binding != nil {
		made = append(made, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: k.binding.Namespace, Name: k.binding.Name}})
	}
	return made
}

// end is what there is at the end: the settings, the RBAC in the old namespace, what runs there, and the new operator.
func (k *killable) end(predecessor *predecessors.OLMOperator) map[string]string {
	k.t.Helper()
	found := map[string]string{}
	for _, object := range k.made(predecessor) {
		env.Must(k.t, k.Client.Get(k.t.Context(), client.ObjectKeyFromObject(object), object))
		var written []any
		switch object := object.(type) {
		case *appsv1.Deployment:
			written = []any{object.Labels, object.Spec}
		case *operatorv1.ClusterCSIDriver:
			written = []any{object.Spec}
		case *rbacv1.RoleBinding:
			written = []any{object.Labels, object.Subjects, object.RoleRef}
		}
		text, err := json.Marshal(written)
		env.Must(k.t, err)
		found[fmt.Sprintf("%T", object)] = string(text)
	}
	for _, object := range k.driver {
		env.Must(k.t, k.Client.Get(k.t.Context(), client.ObjectKeyFromObject(object), object))
		if object.GetDeletionTimestamp() != nil {
			k.t.Errorf("%T %s is being deleted", object, object.GetName())
		}
		found[fmt.Sprintf("%T %s", object, object.GetName())] = string(object.GetUID())
	}
	return found
}

// clear removes what the replacement has made.
func (k *killable) clear(predecessor *predecessors.OLMOperator) {
	k.t.Helper()
	for _, object := range k.made(predecessor) {
		env.Must(k.t, client.IgnoreNotFound(k.Client.Delete(k.t.Context(), object)))
		k.eventually(object.GetName()+" gone", func() error { return k.Gone(k.t.Context(), object) })
	}
	k.eventually("no pods of the old operator", func() error {
		pods := &corev1.PodList{}
		if err := k.Client.List(k.t.Context(), pods, client.InNamespace(odd)); err != nil || len(pods.Items) == 0 {
			return err
		}
		return fmt.Errorf("%d pods", len(pods.Items))
	})
}
