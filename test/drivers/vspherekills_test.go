package drivers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/vcenters"
)

// The operator is killed without notice while it installs, changes and removes: at a request to the API server, or right after a change in the
// vCenter. The end is the same as without.
func TestVSphereIsInstalledChangedAndRemovedThroughKills(t *testing.T) {
	env.OnlySoak(t)
	s := inVSphere(t, 1)
	env.Must(t, s.cluster.PutDriverAccount(t.Context(), s.driver, rbac.Rules))
	random, through := env.Dice(t), env.NewProxy(t, s.cluster)
	config := through.KubeconfigOf(t, s.cluster, env.OperatorNamespace, s.driver.Operator)
	disturbed := func(kills int, done func() error) {
		t.Helper()
		for kill := range kills {
			s.vcenters[0].Reset()
			var err error
			s.operator, err = s.cluster.StartDriverOperator(t.Context(), s.driver, "--kubeconfig", config)
			env.Must(t, err)
			died := s.killAtChange(1+random.IntN(4), s.operator)
			if random.IntN(2) == 1 {
				died = through.KillAt(env.IsWork, 1+random.IntN(60), random.IntN(2) == 1, s.operator.Kill)
			}
			env.Eventually(t, fmt.Sprintf("kill %d, or done", kill+1), func() error {
				if died() {
					return nil
				}
				return done()
			})
			if !died() {
				env.Must(t, s.operator.Stop())
			}
			<-s.operator.Done()
			through.Set(nil)
		}
		s.start(t)
	}
	share := (env.Rounds(t) + 11) / 4

	env.Must(t, s.cluster.Client.Create(t.Context(), env.CR(s.driver.Name, operatorv1.Managed)))
	disturbed(share/2, func() error { return errors.Join(s.cluster.SettledOf(t.Context(), s.driver.Name), s.hasClass(t)) })
	s.isThere(t, "ds1")
	env.Must(t, s.operator.Stop())

	s.addDomain(t)
	disturbed(share/4, func() error { return s.isTagged("ds2") })
	s.isThere(t, "ds1", "ds2")
	env.Must(t, s.operator.Stop())

	s.state(t, operatorv1.Removed)
	disturbed(share-share/2-share/4, func() error { return s.leftNothing() })
	s.isGone(t)
	s.wasAllowed(t)
}

// killAtChange kills an operator when it has made so many changes in the vCenter.
func (s *inVCenters) killAtChange(changes int, operator *env.Operator) (certain func() bool) {
	return func() bool {
		select {
		case <-operator.Done():
			return true
		case <-time.After(time.Millisecond):
		}
		if len(s.vcenters[0].Writes()) < changes {
			return false
		}
		operator.Kill()
		return true
	}
}

func (s *inVCenters) addDomain(t *testing.T) {
	t.Helper()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	s.get(t, infrastructure)
	domains := &infrastructure.Spec.PlatformSpec.VSphere.FailureDomains
	next := vcenters.FailureDomain(s.vcenters[0], 1, "ds2")
	// Its tags are those of the first one: a compute cluster has one zone.
	next.Region, next.Zone = (*domains)[0].Region, (*domains)[0].Zone
	*domains = append(*domains, next)
	env.Must(t, s.cluster.Client.Update(t.Context(), infrastructure))
}
