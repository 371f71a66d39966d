package storage

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestPodsThatTheNextVersionWouldNotStartKeepTheClusterFromIt(t *testing.T) {
	report := func(namespace, name string, data map[string]string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	}
	const namespace, name = "openshift-config", "selinux-conflicts"
	for why, tc := range map[string]struct {
		object client.Object
		want   bool
	}{
		"nobody has looked":      {report(namespace, "other", map[string]string{"conflictsPresent": "True"}), true},
		"there are none":         {report(namespace, name, map[string]string{"conflictsPresent": "False"}), true},
		"there are some":         {report(namespace, name, map[string]string{"conflictsPresent": "True"}), false},
		"nothing is said":        {report(namespace, name, nil), true},
		"what nobody knows":      {report(namespace, name, map[string]string{"conflictsPresent": "perhaps"}), true},
		"in another's namespace": {report("shop", name, map[string]string{"conflictsPresent": "True"}), true},
	} {
		t.Run(why, func(t *testing.T) {
			w, err := reconcilerOf(newCluster(t, tc.object, infrastructure("None"))).read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all, _, _ := newMemory().conditions(w, nil, nil)
			told := status.Find(all, "SELinuxMountGAReadinessControllerUpgradeable")
			if told == nil || (told.Status == operatorv1.ConditionTrue) != tc.want {
				t.Fatalf("it says %+v", told)
			}
			if !tc.want && (told.Reason != "SELinuxMountIncompatibleWorkloads" ||
				!strings.Contains(told.Message, "selinux_warning_controller_selinux_volume_conflict")) {
				t.Errorf("it says %+v", told)
			}
		})
	}
}

func TestVolumeAttributesClassesOfADriverAreToNameTheSameParameters(t *testing.T) {
	class := func(driver string, parameters ...string) storagev1.VolumeAttributesClass {
		made := storagev1.VolumeAttributesClass{DriverName: driver, Parameters: map[string]string{}}
		for _, name := range parameters {
			made.Parameters[name] = "any"
		}
		return made
	}
	w := &seen{attributes: []storagev1.VolumeAttributesClass{
		class("one", "iops"), class("same", "iops", "throughput"), class("differs", "iops"), class("same", "throughput", "iops"),
		class("differs", "iops", "throughput"), class("differs", "iops"), class("none"), class("none"),
	}}
	want := map[string]bool{"one": false, "same": false, "differs": true, "none": false}
	if diff := cmp.Diff(want, w.mismatched()); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
}
