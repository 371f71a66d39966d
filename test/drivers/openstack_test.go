package drivers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/cinder"
	"github.com/csi-operators/csi-operators/internal/driver/manila"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeopenstack"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

func TestManilaIsInstalledAndNeverRemoved(t *testing.T) {
	env.OnlySoak(t)
	live(t, openStack(t, manila.Driver(), scene{
		classes: map[string]string{"csi-manila-default": ""}, snapshotClasses: []string{"csi-manila-standard"},
	}).scene)
}

// clouded is a driver whose operator asks a cloud.
type clouded struct {
	derived
	cloud *fakeopenstack.Cloud
}

// openStack is a driver in a cluster with a cloud.
func openStack(t *testing.T, d driver.Driver, s scene) *clouded {
	t.Helper()
	cloud, err := fakeopenstack.Start()
	env.Must(t, err)
	t.Cleanup(cloud.Close)
	s.cluster, s.driver = pool.Lend(t), d
	s.facts = driver.CloudFacts{Known: true, ShareTypes: []string{"default"}}
	s.keys = map[string]string{"clouds.yaml": string(cloud.CloudsYAML(false)), "cacert": string(cloud.CA)}
	return &clouded{derived{rollouts{scene: s}}, cloud}
}

// restart starts the operator anew. It asks the cloud at once.
func (s *clouded) restart(t *testing.T) {
	t.Helper()
	env.Must(t, s.operator.Stop())
	s.start(t)
	env.Quiet(t, s.operator)
}

// content checks a key of the Secret that the operator makes.
func (s *clouded) content(t *testing.T, key, want string) {
	t.Helper()
	env.Eventually(t, key, func() error {
		secret := s.made()
		if err := s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if diff := cmp.Diff(want, string(secret.Data[key])); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}

func usersConfig(pairs ...string) *corev1.ConfigMap {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cinder-csi-config"}, Data: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		config.Data[pairs[i]] = pairs[i+1]
	}
	return config
}

// A cloud that is away keeps a new cluster waiting, and changes nothing in one that has its driver. Each change restarts both workloads once.
func TestCinderFollowsItsUserAndItsCloud(t *testing.T) {
	s := openStack(t, cinder.Driver(), scene{classes: map[string]string{"standard-csi": "true"}})
	t.Cleanup(func() { s.quit(t) })
	s.cloud.Away()
	s.start(t)
	s.rollouts.put(t, s.secret())
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	s.waits(t, "the first answer from the cloud", func() {})
	env.Must(t, s.cloud.Back())
	s.settle(t)
	s.look(t)
	s.content(t, "enable_topology", "true")
	s.content(t, "ca-bundle.pem", string(s.cloud.CA))
	s.content(t, "node.conf", "")

	s.rollouts.put(t, usersConfig("config", "[BlockStorage]\nignore-volume-az = true\ntrust-device-path = false\n", "enable_topology", "false"))
	s.rollsOut(t)
	s.content(t, "node.conf", "[BlockStorage]\nignore-volume-az = true\n")
	s.content(t, "enable_topology", "false")
	s.rollouts.put(t, usersConfig("config", "[BlockStorage]\nignore-volume-az = $("+password+")\n"))
	s.stays(t, "line 2 has an invalid value for key ignore-volume-az")
	s.rollouts.put(t, usersConfig("config", "[BlockStorage]\nignore-volume-az = true\n", "enable_topology", "false"))
	s.stays(t, "")

	// Other credentials concern the controller alone.
	other := s.secret()
	other.StringData["clouds.yaml"] += "# rotated\n"
	s.rollouts.put(t, other)
	env.Eventually(t, "the controller restarts", func() error {
		now := *s
		if now.look(t); now.revision == s.revision {
			return errors.New("not yet")
		}
		return nil
	})
	s.settle(t)
	s.rolled(t, 1, 0)

	s.cloud.Away()
	s.restart(t)
	s.rolled(t, 0, 0)
	s.content(t, "enable_topology", "false")
	s.staysSecret(t)
}

// What the cloud has decides about classes. While it is away, and after one answer that lacks a type, every class is as it was.
func TestClassesOfManilaFollowTheShareTypes(t *testing.T) {
	s := openStack(t, manila.Driver(), scene{})
	theirs := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "csi-manila-taken"}, Provisioner: "other.example.com"}
	t.Cleanup(func() { s.quit(t) })
	env.Must(t, s.cluster.Client.Create(t.Context(), theirs))
	s.cloud.SetMissing("manila", true)
	s.start(t)
	s.rollouts.put(t, s.secret())
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	env.Eventually(t, "disabled", func() error {
		return s.cluster.ConditionOf(t.Context(), s.driver.Name, "OpenStackManilaDriverDisabled", operatorv1.ConditionTrue)
	})
	env.Must(t, errors.Join(s.cluster.Gone(t.Context(), s.deployment()), s.cluster.Gone(t.Context(), s.daemonSet())))

	s.cloud.SetMissing("manila", false)
	s.cloud.SetShareTypes(fakeopenstack.ShareType{ID: "1", Name: "Default_NFS"}, fakeopenstack.ShareType{ID: "2", Name: "default-nfs"},
		fakeopenstack.ShareType{ID: "3", Name: "../" + strings.Repeat("é", 100)}, fakeopenstack.ShareType{ID: "4", Name: "taken"})
	s.restart(t)
	s.settle(t)
	types := s.types(t)
	if len(types) != 4 || types["default-nfs"] != "csi-manila-default-nfs" || types["Default_NFS"] == "" || types["taken"] == theirs.Name {
		t.Errorf("classes by share type: %v", types)
	}
	uids := s.uids(t)
	stay := func(when string) {
		t.Helper()
		s.restart(t)
		after := s.types(t)
		delete(after, "new")
		if diff := cmp.Diff(types, after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", when, diff)
		}
	}
	s.cloud.Away()
	stay("while the cloud is away")
	env.Must(t, s.cloud.Back())
	s.cloud.SetShareTypes(fakeopenstack.ShareType{ID: "9", Name: "new"})
	stay("after one answer without them")
	if diff := cmp.Diff(uids, s.uids(t)); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
	s.get(t, theirs)
}

// types are the names of the classes that the operator has made, by their share types.
func (s *clouded) types(t *testing.T) map[string]string {
	t.Helper()
	list := &storagev1.StorageClassList{}
	env.Must(t, s.cluster.Client.List(t.Context(), list, client.MatchingLabels{openshift.ManagedByLabel: s.driver.Operator}))
	found := map[string]string{}
	for _, class := range list.Items {
		found[class.Parameters["type"]] = class.Name
	}
	return found
}

// Both drivers have the same names as those of OpenShift, and are changed where they are.
func TestOpenShiftsDriversOfOpenStackAreMigrated(t *testing.T) {
	env.OnlySoak(t)
	for _, d := range []driver.Driver{cinder.Driver(), manila.Driver()} {
		t.Run(d.Name, func(t *testing.T) {
			s := openStack(t, d, scene{})
			t.Cleanup(func() { s.quit(t) })
			env.Must(t, s.cluster.Namespace(t.Context(), s.namespace()))
			s.rollouts.put(t, s.secret())
			rendered := variants.Render(t, d, func(cfg *driver.Config) {
				delete(cfg.Kinds, driver.VolumeSnapshotClassKind())
				cfg.Cloud = s.facts
			})
			env.Must(t, predecessors.PutOpenStack(t.Context(), s.cluster, d, rendered))
			env.Eventually(t, "OpenShift's driver", func() error { return s.runs(t, false) })
			before := s.uids(t)
			s.start(t)
			env.Eventually(t, "the driver is ours", func() error { return s.runs(t, true) })
			s.settle(t)
			for _, object := range predecessors.OpenStackConfigMaps(d) {
				env.Eventually(t, object.GetName()+" has gone", func() error { return s.cluster.Gone(t.Context(), object) })
			}
			env.Quiet(t, s.operator)
			after := s.uids(t)
			// Bindings of other roles are made anew.
			isNew := func(name, _ string) bool {
				binding, isBinding := strings.CutPrefix(name, "ClusterRoleBinding ")
				return before[name] == "" || (isBinding && predecessors.SharedRole(binding) != "")
			}
			maps.DeleteFunc(after, isNew)
			maps.DeleteFunc(before, isNew)
			if diff := cmp.Diff(before, after); diff != "" || len(after) < 10 {
				t.Errorf("objects (-before +after):\n%s", diff)
			}
			for _, condition := range s.cr(t).Status.Conditions {
				if slices.Contains(d.LegacyConditions, condition.Type) {
					t.Errorf("condition %s of OpenShift's operator is left", condition.Type)
				}
			}
		})
	}
}

// runs checks that all pods are those of OpenShift, or of ours.
func (s *clouded) runs(t *testing.T, ours bool) error {
	t.Helper()
	deployment, daemonSet := s.deployment(), s.daemonSet()
	s.get(t, deployment)
	s.get(t, daemonSet)
	for _, pods := range []corev1.PodSpec{deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec} {
		if (pods.Containers[0].Image != predecessors.OpenStackImage) != ours {
			return fmt.Errorf("image %s", pods.Containers[0].Image)
		}
	}
	state := daemonSet.Status
	if state.ObservedGeneration < daemonSet.Generation || state.UpdatedNumberScheduled != 4 || state.NumberReady != 4 ||
		deployment.Status.ObservedGeneration < deployment.Generation || deployment.Status.UpdatedReplicas != 2 || deployment.Status.AvailableReplicas != 2 {
		return errors.New("it is not rolled out")
	}
	return nil
}
