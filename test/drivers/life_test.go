package drivers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/gcppd"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
)

// The drivers of EBS, of Azure and of Cinder have the same life: internal/controller/clustercsidriver/payload_test.go shows what is sent for each.
func TestGCPPDIsInstalledAndNeverRemoved(t *testing.T) {
	d := gcppd.Driver()
	live(t, scene{
		cluster: pool.Lend(t), driver: d, classes: map[string]string{"standard-csi": "true", "ssd-csi": ""},
		snapshotClasses: []string{"csi-gce-pd-vsc", "csi-gce-pd-vsc-images"},
		before: []client.Object{
			&storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: "ssd-csi"}, Provisioner: "disks.example.com", Parameters: map[string]string{"theirs": "true"},
			},
			// As an operator before this one has left it, whose controller was privileged.
			obsoleteBinding(d),
		},
		otherClass: "ssd-csi",
		key: operatorv1.CSIDriverConfigSpec{
			DriverType: operatorv1.GCPDriverType,
			GCP:        &operatorv1.GCPCSIDriverConfigSpec{KMSKey: &operatorv1.GCPKMSKeyReference{Name: "key", KeyRing: "ring", ProjectID: "project"}},
		},
	})
}

// live goes through the life of a driver. The steps build on each other, as in a cluster.
func live(t *testing.T, s scene) {
	t.Cleanup(func() { s.quit(t) })
	for _, object := range s.before {
		env.Must(t, client.IgnoreAlreadyExists(s.cluster.Client.Create(t.Context(), object)))
	}
	s.start(t)
	steps := []struct {
		name     string
		run      func(*testing.T, *scene)
		needsKey bool
	}{
		{"the status says that the Secret is missing, and the controller waits", waitsForSecret, false},
		{"with the Secret the driver is rolled out, with one default class", isRolledOut, false},
		{"an operator that is started anew writes nothing", writesNothing, false},
		{"what the administrator sets is followed, and stays", keepsWhatIsTheUsers, false},
		{"a class is made anew for another key, and stays what it was", remakesClasses, true},
		{"Removed is refused with a condition, and removes nothing", refusesRemoved, false},
		{"nothing goes with the ClusterCSIDriver, and the next one finds it all", outlivesItsCR, false},
		{"Unmanaged leaves the driver to the administrator", leavesUnmanagedAlone, false},
		{"the driver goes when the cluster is one of another platform, and comes back with its own", goesWithItsPlatform, false},
		{"when the cluster begins to serve classes of snapshots, the driver gets some", getsSnapshots, false},
	}
	for _, step := range steps {
		if step.needsKey && s.key.DriverType == "" {
			// The driver has nothing to choose one for.
			continue
		}
		if !t.Run(step.name, func(t *testing.T) { step.run(t, &s) }) {
			return
		}
	}
}

// obsoleteBinding is the first one of a driver.
func obsoleteBinding(d driver.Driver) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: d.Obsolete.ClusterRoleBindings[0]},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: d.ShortPrefix + "-privileged-role"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.OperatorNamespace, Name: d.ControllerServiceAccount()}},
	}
}

func waitsForSecret(t *testing.T, s *scene) {
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	secret := s.driver.Credentials[0].Secret
	env.Eventually(t, "the missing Secret is named", func() error {
		message := s.message(t, "Available")
		if !strings.Contains(message, secret+" is missing") || !strings.Contains(message, s.driver.Credentials[0].Request) {
			return fmt.Errorf("Available says: %s", message)
		}
		return s.cluster.ConditionOf(t.Context(), s.driver.Name, "Available", operatorv1.ConditionFalse)
	})
	env.Must(t, s.cluster.Gone(t.Context(), s.deployment()))
	env.Must(t, s.cluster.Client.Create(t.Context(), s.secret()))
}

func isRolledOut(t *testing.T, s *scene) {
	s.settle(t)
	deployment, daemonSet := s.deployment(), s.daemonSet()
	s.get(t, deployment)
	s.get(t, daemonSet)
	if deployment.Status.AvailableReplicas != 2 || daemonSet.Status.NumberAvailable != 4 {
		t.Errorf("%d controllers and %d node pods, want 2 and 4", deployment.Status.AvailableReplicas, daemonSet.Status.NumberAvailable)
	}
	if diff := cmp.Diff(s.classes, s.liveClasses(t)); diff != "" {
		t.Errorf("StorageClasses and what they say about being the default (-want +got):\n%s", diff)
	}
	rendered := map[string]map[string]string{}
	for _, object := range variants.Render(t, s.driver, func(cfg *driver.Config) { cfg.Cloud = s.facts }) {
		if class, isClass := object.(*storagev1.StorageClass); isClass {
			rendered[class.Name] = class.Parameters
		}
	}
	for name := range s.classes {
		class := s.class(t, name)
		if name == s.otherClass {
			if class.Parameters["theirs"] != "true" || !strings.Contains(s.message(t, "Available"), name+" was not created by this operator") {
				t.Errorf("StorageClass %s has parameters %v, and the status says: %s", name, class.Parameters, s.message(t, "Available"))
			}
			continue
		}
		if class.Labels[openshift.ManagedByLabel] != s.driver.Operator {
			t.Errorf("StorageClass %s has labels %v", name, class.Labels)
		}
		if diff := cmp.Diff(rendered[name], class.Parameters); diff != "" {
			t.Errorf("parameters of StorageClass %s (-rendered +live):\n%s", name, diff)
		}
	}
	if len(s.driver.Obsolete.ClusterRoleBindings) > 0 {
		env.Must(t, s.cluster.Gone(t.Context(), obsoleteBinding(s.driver)))
	}
	prefix := s.driver.ConditionPrefix
	for _, kind := range []string{"DriverControllerServiceController", "DriverNodeServiceController"} {
		env.Must(t, s.cluster.ConditionOf(t.Context(), s.driver.Name, prefix+kind+"Available", operatorv1.ConditionTrue))
	}
	if finalizers := s.cr(t).Finalizers; len(finalizers) > 0 {
		t.Errorf("finalizers %v", finalizers)
	}
	if names := s.containers(t); slices.Contains(names, "csi-snapshotter") {
		t.Errorf("containers %v, but the cluster has no snapshots", names)
	}
}

func writesNothing(t *testing.T, s *scene) {
	env.Quiet(t, s.operator)
	env.Must(t, s.operator.Stop())
	mark, err := s.cluster.Audit.Now()
	env.Must(t, err)
	s.start(t)
	env.Eventually(t, "a reconcile", func() error {
		count, err := s.operator.Metric(t.Context(), "controller_runtime_reconcile_total")
		if err == nil && count == 0 {
			err = errors.New("none yet")
		}
		return err
	})
	env.Quiet(t, s.operator)
	requests, err := s.cluster.Audit.Since(mark, "system:serviceaccount:"+env.OperatorNamespace+":"+s.driver.Operator)
	env.Must(t, err)
	writes := env.Filter(requests, func(r env.Request) bool {
		// To ask what one may do changes nothing.
		return r.IsWrite() && r.Object.Resource != "selfsubjectaccessreviews"
	})
	if len(requests) == 0 || len(writes) > 0 {
		t.Errorf("%d requests, among them %d writes:\n%s", len(requests), len(writes), env.Describe(writes))
	}
}

func keepsWhatIsTheUsers(t *testing.T, s *scene) {
	class := s.defaultClass()
	_, err := s.cluster.Kubectl(t.Context(), "annotate", "storageclass", class, "storageclass.kubernetes.io/is-default-class=false", "--overwrite")
	env.Must(t, err)
	_, err = s.cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", s.driver.Name, "example.com/note=mine")
	env.Must(t, err)
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.LogLevel = operatorv1.Debug })
	env.Eventually(t, "the log level in the pods", func() error {
		deployment := s.deployment()
		s.get(t, deployment)
		if arguments := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(arguments, "--v=4") {
			return fmt.Errorf("arguments %v", arguments)
		}
		return nil
	})
	s.settle(t)
	cr := s.cr(t)
	if cr.Annotations["example.com/note"] != "mine" || cr.Spec.LogLevel != operatorv1.Debug || cr.Spec.ManagementState != operatorv1.Managed {
		t.Errorf("the ClusterCSIDriver has annotations %v and spec %+v", cr.Annotations, cr.Spec)
	}
	if got := s.liveClasses(t)[class]; got != "false" {
		t.Errorf("the administrator's choice was overwritten: %q", got)
	}
}

func remakesClasses(t *testing.T, s *scene) {
	before := s.class(t, s.defaultClass())
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.DriverConfig = s.key })
	env.Eventually(t, "the key in the class", func() error {
		class := &storagev1.StorageClass{}
		if err := s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(before), class); err != nil {
			return err
		}
		if len(class.Parameters) != len(before.Parameters)+1 {
			return fmt.Errorf("parameters %v", class.Parameters)
		}
		return nil
	})
	s.settle(t)
	if got := s.liveClasses(t)[before.Name]; got != "false" {
		t.Errorf("the class that was made anew says %q about being the default", got)
	}
}

func refusesRemoved(t *testing.T, s *scene) {
	before := s.uids(t)
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.ManagementState = operatorv1.Removed })
	env.Eventually(t, "the refusal", func() error {
		return s.cluster.ConditionOf(t.Context(), s.driver.Name, "ManagementStateDegraded", operatorv1.ConditionTrue)
	})
	env.Quiet(t, s.operator)
	env.Must(t, s.cluster.ConditionOf(t.Context(), s.driver.Name, "Available", operatorv1.ConditionTrue))
	if diff := cmp.Diff(before, s.uids(t)); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.ManagementState = operatorv1.Managed })
	s.settle(t)
}

func outlivesItsCR(t *testing.T, s *scene) {
	before := s.uids(t)
	cr := s.cr(t)
	env.Must(t, s.cluster.Client.Delete(t.Context(), cr))
	env.Must(t, s.cluster.Gone(t.Context(), cr))
	env.Quiet(t, s.operator)
	if diff := cmp.Diff(before, s.uids(t)); diff != "" {
		t.Errorf("objects (-before +after the deletion):\n%s", diff)
	}
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	s.settle(t)
	// The classes are made anew, as the new ClusterCSIDriver names no key.
	after := s.uids(t)
	for name := range s.classes {
		delete(before, "StorageClass "+name)
		delete(after, "StorageClass "+name)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("objects (-before +with the next ClusterCSIDriver):\n%s", diff)
	}
}

func leavesUnmanagedAlone(t *testing.T, s *scene) {
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.ManagementState = operatorv1.Unmanaged })
	s.settle(t)
	env.Must(t, s.cluster.Client.Delete(t.Context(), s.daemonSet()))
	env.Eventually(t, "no node pods, and nobody makes any", func() error {
		return errors.Join(s.cluster.Gone(t.Context(), s.daemonSet()),
			s.cluster.ConditionOf(t.Context(), s.driver.Name, s.driver.ConditionPrefix+"DriverNodeServiceControllerAvailable", operatorv1.ConditionFalse))
	})
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.ManagementState = operatorv1.Managed })
	s.settle(t)
	s.get(t, s.daemonSet())
}

func getsSnapshots(t *testing.T, s *scene) {
	env.Must(t, s.cluster.ApplyFile(t.Context(), "testdata/volumesnapshotclasses.yaml"))
	env.Must(t, s.cluster.Served(t.Context(), "volumesnapshotclasses.snapshot.storage.k8s.io"))
	<-s.operator.Done()
	if err := s.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	env.Eventually(t, "classes of snapshots", func() error {
		if got := s.liveSnapshotClasses(t); !slices.Equal(got, s.snapshotClasses) {
			return fmt.Errorf("classes %v, want %v", got, s.snapshotClasses)
		}
		return nil
	})
	env.Eventually(t, "the sidecar that makes snapshots", func() error {
		if names := s.containers(t); !slices.Contains(names, "csi-snapshotter") {
			return fmt.Errorf("containers %v", names)
		}
		return nil
	})
	s.settle(t)
}
