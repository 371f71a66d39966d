package drivers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// isMigrated shows a driver that has the same names as that of OpenShift, and is changed where it is. So has what is in the vCenters.
func (s *inVCenters) isMigrated(t *testing.T) {
	rendered := variants.Render(t, s.driver, func(cfg *driver.Config) {
		delete(cfg.Kinds, driver.VolumeSnapshotClassKind())
		cfg.Cloud = driver.CloudFacts{Known: true, StoragePolicy: "openshift-storage-policy-" + s.id}
	})
	env.Must(t, predecessors.PutVSphere(t.Context(), s.cluster, s.driver, rendered))
	env.Eventually(t, "OpenShift's driver", func() error { return s.runs(t, false) })
	before := s.uids(t)
	s.start(t)
	env.Eventually(t, "the driver is ours", func() error { return s.runs(t, true) })
	s.isThere(t, "ds1")
	obsolete := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: s.driver.Obsolete.ConfigMaps[0]}}
	env.Eventually(t, obsolete.Name+" has gone", func() error { return s.cluster.Gone(t.Context(), obsolete) })
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
		if slices.Contains(s.driver.LegacyConditions, condition.Type) {
			t.Errorf("condition %s of OpenShift's operator is left", condition.Type)
		}
	}
	s.wasAllowed(t)
}

// runs checks that all pods are those of OpenShift, or of ours.
func (s *inVCenters) runs(t *testing.T, ours bool) error {
	t.Helper()
	deployment, daemonSet := s.deployment(), s.daemonSet()
	s.get(t, deployment)
	s.get(t, daemonSet)
	for _, pods := range []corev1.PodSpec{deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec} {
		if (pods.Containers[0].Image != predecessors.VSphereImage) != ours {
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
