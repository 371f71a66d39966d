package drivers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakevsphere"
)

// finds waits until the checks have found something.
func (s *inVCenters) finds(t *testing.T, condition, text string) {
	t.Helper()
	kind := s.driver.ConditionPrefix + condition
	env.Eventually(t, text, func() error {
		if message := s.message(t, kind); !strings.Contains(message, text) {
			return fmt.Errorf("%s says %q", kind, message)
		}
		return nil
	})
	env.Must(t, s.hasClass(t))
}

func (s *inVCenters) heals(t *testing.T) {
	t.Helper()
	env.Eventually(t, "no findings", func() error { return s.isFine(t) })
	s.settle(t)
}

func (s *inVCenters) hasAnOldHost(t *testing.T) {
	const path = "/dc1/host/cluster1/esx1"
	s.vcenters[0].SetHost(path, fakevsphere.Host{Name: "esx1", Version: "6.5.0", APIVersion: "6.5"})
	s.login(t, "old host")
	s.finds(t, "OperatorCheckDegraded", "HostVersion: vCenter 127.0.0.1: ESXi of hosts esx1")
	env.Eventually(t, "an event", func() error { return s.cluster.HasEvent(t.Context(), s.cr(t), "HostVersion", "esx1") })
	s.vcenters[0].SetHost(path, fakevsphere.Host{Name: "esx1"})
	s.login(t, "new host")
	s.heals(t)
	env.Eventually(t, "an event", func() error { return s.cluster.HasEvent(t.Context(), s.cr(t), "HostVersionMended", "esx1") })
}

func (s *inVCenters) hasAWrongPassword(t *testing.T) {
	data := fakevsphere.SecretData(s.vcenters...)
	data[s.vcenters[0].Server+".password"] = []byte(password)
	s.put(t, s.credentials(data))
	s.finds(t, "OperatorCheckDegraded", "VCenterConnection")
	s.login(t, "right again")
	s.heals(t)
}

func (s *inVCenters) isNotTrusted(t *testing.T) {
	other, err := fakevsphere.Start(fakevsphere.Options{})
	env.Must(t, err)
	t.Cleanup(other.Close)
	roots := func(of *fakevsphere.VCenter) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: driver.ClusterCABundle().Namespace, Name: driver.ClusterCABundle().Name},
			Data:       map[string]string{driver.TrustedCAKey: string(of.CA)},
		}
	}
	s.put(t, roots(other))
	s.login(t, "other roots")
	s.finds(t, "OperatorCheckDegraded", "certificate")
	s.put(t, roots(s.vcenters[0]))
	s.login(t, "right roots")
	s.heals(t)
}

func (s *inVCenters) isAway(t *testing.T) {
	s.vcenters[0].Away()
	env.Must(t, s.operator.Stop())
	s.start(t)
	env.Eventually(t, "the log says so", func() error {
		if !strings.Contains(s.operator.Output(), "the vCenter does not answer") {
			return errors.New("not yet")
		}
		return nil
	})
	env.Quiet(t, s.operator)
	env.Must(t, s.hasClass(t))
	s.get(t, s.deployment())
	s.get(t, s.daemonSet())
	env.Must(t, s.vcenters[0].Back())
	s.login(t, "back")
	env.Eventually(t, "the log says so", func() error {
		if !strings.Contains(s.operator.Output(), "the vCenter answers again") {
			return errors.New("not yet")
		}
		return nil
	})
	s.heals(t)
}

func (s *inVCenters) getsADomain(t *testing.T) {
	s.addDomain(t)
	env.Eventually(t, "the tag on its datastore", func() error { return s.isTagged("ds2") })
	s.hasPolicy(t, s.vcenters[0], "ds1", "ds2")
	s.settle(t)
	env.Quiet(t, s.operator)
}

// isTagged checks that a datastore has the tag.
func (s *inVCenters) isTagged(datastore string) error {
	left := s.vcenters[0].Left(s.id)
	if !slices.ContainsFunc(left, func(line string) bool { return strings.HasSuffix(line, "/"+datastore) }) {
		return fmt.Errorf("the vCenter has %v", left)
	}
	return nil
}

// leftNothing checks that nothing is left in the vCenters.
func (s *inVCenters) leftNothing() error {
	for _, one := range s.vcenters {
		if left := one.Left(s.id); len(left) > 0 {
			return fmt.Errorf("left in vCenter %s: %v, it was asked %v", one.Server, left, one.Writes())
		}
	}
	return nil
}

// keepsThePassword checks that neither password is anywhere but in Secrets.
func (s *inVCenters) keepsThePassword(t *testing.T) {
	t.Helper()
	status, err := json.Marshal(s.cr(t).Status)
	env.Must(t, err)
	events := &corev1.EventList{}
	env.Must(t, s.cluster.Client.List(t.Context(), events))
	for where, text := range map[string]string{"status": string(status), "events": fmt.Sprint(events.Items), "log": s.operator.Output()} {
		if strings.Contains(text, password) || strings.Contains(text, s.vcenters[0].Password) {
			t.Errorf("a password is in the %s", where)
		}
	}
}

func TestVSphereWorksWithThreeVCenters(t *testing.T) {
	env.OnlySoak(t)
	s := inVSphere(t, 3)
	s.start(t)
	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	s.isThere(t, "ds1")
	s.state(t, operatorv1.Removed)
	s.isGone(t)
	s.unregister(t)
	s.wasAllowed(t)
}
