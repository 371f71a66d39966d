package storage

import (
	"errors"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func TestWhatBecomesOfPVCsWithoutAClassIsSaidInFull(t *testing.T) {
	class := func(name string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{defaultAnnotation: "true"}}}
	}
	const nothing = "this release has no CSI driver for platform None: install a CSI driver of your choice"
	const several = "2 StorageClasses are marked as the default, so PVCs without a class get the newest of them: set annotation " +
		"storageclass.kubernetes.io/is-default-class to \"false\" on all but one of a, b"
	two := []storagev1.StorageClass{class("b"), class("a")}
	why := choice{entry: entries()[0], decision: absent, why: "the feature gate Feature is disabled"}
	for name, tc := range map[string]struct {
		platform configv1.PlatformType
		classes  []storagev1.StorageClass
		choices  []choice
		want     string
	}{
		"a driver":             {"AWS", nil, []choice{{decision: wanted}}, ""},
		"a driver and classes": {"AWS", two, []choice{{decision: wanted}}, several},
		"no driver":            {"None", nil, nil, nothing},
		"neither":              {"None", two, nil, nothing + "; " + several},
		"a driver that is not": {"AWS", nil, []choice{why}, "the operator starts no CSI driver on platform AWS (Plain: the feature gate Feature is disabled): install a CSI driver of your choice"},
	} {
		t.Run(name, func(t *testing.T) {
			w := empty()
			w.Infrastructure, w.classes = infrastructure(tc.platform), tc.classes
			if diff := cmp.Diff(tc.want, classConditions(w, tc.choices)[0].Message); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodsWithOtherLabelsAreReportedInFull(t *testing.T) {
	r := reconcilerOf(newCluster(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "selinux-conflicts"}, Data: map[string]string{"conflictsPresent": "True"},
	}))
	conflicts, err := r.hasConflicts(t.Context())
	if err != nil || !conflicts {
		t.Fatalf("conflicts %v, error %v", conflicts, err)
	}
	want := status.Condition("SELinuxMountGAReadinessControllerUpgradeable", false, "SELinuxMountIncompatibleWorkloads",
		"pods with different SELinux labels share a volume: in the next minor version, these pods can't all start on one node. Metric "+
			"selinux_warning_controller_selinux_volume_conflict names them, and alert SELinuxMountGAReadinessWorkloadsDetected says what to do")
	if diff := cmp.Diff(want, selinuxCondition(&seen{conflicts: conflicts})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c := newCluster(t)
	c.Refuse(errors.New("out of order"))
	if _, err := reconcilerOf(c).hasConflicts(t.Context()); err == nil || err.Error() != "read ConfigMap openshift-config/selinux-conflicts: out of "+
		"order" {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsCopiedOfADriverIsSaidInFull(t *testing.T) {
	off := said("XDisabled", true, "there is nothing")
	deleted := driver("")
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: at}, []string{"a.example/x"}
	report := "waiting for Deployment openshift-cluster-csi-drivers/plain-operator to report in ClusterCSIDriver plain.example"
	gone := "ClusterCSIDriver plain.example is being deleted, waiting for finalizers [a.example/x]; it will be recreated"
	for name, tc := range map[string]struct {
		driver *operatorv1.ClusterCSIDriver
		once   bool
		kind   string
		want   string
	}{
		"silent":             {nil, false, "Available", report},
		"silent, on its way": {driver(""), false, "Progressing", report},
		"being deleted":      {deleted, true, "Available", gone},
		"broken":             {driver("", said("XAvailable", true, ""), said("XDegraded", true, "b")), true, "Degraded", "ClusterCSIDriver plain.example: X: b"},
		"disabled":           {driver("", off), false, "Available", "Plain is disabled by its operator: there is nothing"},
		"disabled, not asked": {driver("", off), true, "Degraded", "ClusterCSIDriver plain.example: the driver was available before, but its operator " +
			"now reports XDisabled: there is nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			done := &result{driver: tc.driver}
			done.entry = entries()[0]
			done.entry.MayBeDisabled = true
			found := status.Find(copied(done, past{once: tc.once}), "PlainCSIDriverOperatorCR"+tc.kind)
			if diff := cmp.Diff(tc.want, found.Message); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatADriverStillHasToReachIsSaidInFull(t *testing.T) {
	before := &configv1.ClusterOperator{Status: configv1.ClusterOperatorStatus{Versions: []configv1.OperandVersion{{Name: "operator", Version: "1"}}}}
	for name, tc := range map[string]struct {
		builtin bool
		driver  *operatorv1.ClusterCSIDriver
		want    string
	}{
		"behind":             {true, driver("1"), "waiting for driver plain.example to reach version 2, it reports 1"},
		"at none":            {true, driver(""), "waiting for driver plain.example to reach version 2, it reports none yet"},
		"there":              {true, driver("2"), ""},
		"of another project": {false, driver(""), "waiting for the new operator of driver plain.example to report"},
	} {
		t.Run(name, func(t *testing.T) {
			w := release()
			w.clusterOperator = before
			done := &result{applied: true, driver: tc.driver, deployment: deployment(true)}
			done.entry = entries()[0]
			done.entry.Builtin = tc.builtin
			done.deployment.Status.Conditions[0].LastUpdateTime = metav1.NewTime(at)
			got, again := waitsForVersion(w, done)
			if diff := cmp.Diff(tc.want, got); diff != "" || (again == settleTime) == tc.builtin {
				t.Errorf("again in %s, (-want +got):\n%s", again, diff)
			}
		})
	}
}
