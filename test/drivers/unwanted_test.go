package drivers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// notWanted is the annotation by which the cluster-storage-operator asks for a removal.
const notWanted = "storage.openshift.io/not-wanted"

// goesWithItsPlatform has all that must come together before a driver of the payload is removed, one after the other.
func goesWithItsPlatform(t *testing.T, s *scene) {
	s.setPlatform(t, s.driver.Platform)
	_, err := s.cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", s.driver.Name, notWanted+"=Nutanix")
	env.Must(t, err)
	s.staysBecause(t, "the cluster still has the driver's platform "+string(s.driver.Platform))

	s.setPlatform(t, "")
	s.staysBecause(t, "the object Infrastructure/cluster has no platform")
	infrastructure := s.infrastructure(t)
	env.Must(t, s.cluster.Client.Delete(t.Context(), infrastructure))
	before := s.uids(t)
	env.Eventually(t, "the missing Infrastructure is reported", func() error {
		if message := s.message(t, "ConfigObservationDegraded"); !strings.Contains(message, "nothing is removed") || !strings.Contains(message, "Infrastructure") {
			return fmt.Errorf("it says %q", message)
		}
		return nil
	})
	env.Quiet(t, s.operator)
	s.sameAs(t, before)
	status := infrastructure.Status
	infrastructure.ObjectMeta = metav1.ObjectMeta{Name: infrastructure.Name}
	env.Must(t, s.cluster.Client.Create(t.Context(), infrastructure))
	infrastructure.Status = status
	env.Must(t, s.cluster.Client.Status().Update(t.Context(), infrastructure))

	// The administrator's word counts more.
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.ManagementState = operatorv1.Unmanaged })
	s.setPlatform(t, configv1.NutanixPlatformType)
	s.staysBecause(t, "spec.managementState is Unmanaged")
	env.Must(t, s.cluster.Namespace(t.Context(), "shop"))
	pvc := "data-" + s.driver.Prefix
	env.Must(t, s.cluster.PutVolume(t.Context(), s.driver.Name, "shop", pvc))
	app := s.cluster.RunPod(t, env.Application("shop", "web-"+s.driver.Prefix, "worker-0", pvc))
	s.change(t, func(spec *operatorv1.ClusterCSIDriverSpec) { spec.ManagementState = operatorv1.Managed })
	env.Eventually(t, "the pod that uses a volume is named", func() error {
		if message := s.message(t, "Progressing"); !strings.Contains(message, "shop/"+app.Name) {
			return fmt.Errorf("Progressing says: %s", message)
		}
		return nil
	})
	env.Quiet(t, s.operator)
	s.sameAs(t, before)

	env.Must(t, s.cluster.Client.Delete(t.Context(), app, client.GracePeriodSeconds(0)))
	env.Eventually(t, "the driver is removed, and that is reported", func() error { return s.removed(t) })
	s.setPlatform(t, s.driver.Platform)
	s.settle(t)
	_, err = s.cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", s.driver.Name, notWanted+"-")
	env.Must(t, err)
	env.Quiet(t, s.operator)
	s.settle(t)
	s.get(t, s.daemonSet())
	s.setPlatform(t, configv1.AWSPlatformType)
}

// removed checks that nothing is left of the driver but its ClusterCSIDriver.
func (s *scene) removed(t *testing.T) error {
	t.Helper()
	csiDriver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: s.driver.Name}}
	for _, object := range []client.Object{s.deployment(), s.daemonSet(), csiDriver} {
		if err := s.cluster.Gone(t.Context(), object); err != nil {
			return err
		}
	}
	cr := s.cr(t)
	for _, condition := range cr.Status.Conditions {
		if condition.Type == "Progressing" && condition.Reason == "Removed" && condition.Status == operatorv1.ConditionFalse && cr.Status.Version == "" {
			return s.cluster.ConditionOf(t.Context(), s.driver.Name, "ManagementStateDegraded", operatorv1.ConditionFalse)
		}
	}
	return errors.New("the status does not say so, or has a version: " + cr.Status.Version)
}

// staysBecause checks that the driver stays, and why.
func (s *scene) staysBecause(t *testing.T, text string) {
	t.Helper()
	before := s.uids(t)
	env.Eventually(t, "why the driver stays", func() error {
		if message := s.message(t, "ManagementStateDegraded"); !strings.Contains(message, text) {
			return fmt.Errorf("it says %q, want %q", message, text)
		}
		return nil
	})
	env.Quiet(t, s.operator)
	s.sameAs(t, before)
}

func (s *scene) sameAs(t *testing.T, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, s.uids(t)); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
}

func (s *scene) infrastructure(t *testing.T) *configv1.Infrastructure {
	t.Helper()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	s.get(t, infrastructure)
	return infrastructure
}

// setPlatform makes the cluster one of another platform.
func (s *scene) setPlatform(t *testing.T, platform configv1.PlatformType) {
	t.Helper()
	infrastructure := s.infrastructure(t)
	infrastructure.Status.Platform = platform //nolint:staticcheck // As in a cluster.
	infrastructure.Status.PlatformStatus.Type = platform
	env.Must(t, s.cluster.Client.Status().Update(t.Context(), infrastructure))
}
