package rollout

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// disturbances takes the API server away from the operator in the middle of a roll-out, and then kills the operator at random requests.
func (s *scene) disturbances(t *testing.T) {
	random := env.Dice(t)
	r := s.record(t)
	s.change(t)
	s.outage(t, r)
	for kill := range env.Rounds(t) / 2 {
		died := s.through.KillAt(env.IsWork, 1+random.IntN(25), random.IntN(2) == 1, s.operator.Kill)
		done := false
		env.Eventually(t, fmt.Sprintf("kill %d, or done", kill+1), func() error {
			if done = s.settled() == nil; died() || done {
				return nil
			}
			return fmt.Errorf("%d pods were replaced", r.replaced())
		})
		if !died() && done {
			break
		}
		<-s.operator.Done()
		s.through.Set(nil)
		s.start()
	}
	s.through.Set(nil)
	env.Eventually(t, "the roll-out ends", s.settled)
	r.check(t)
	if got := r.replaced(); got != s.count {
		t.Errorf("%d pods were replaced, want each once", got)
	}
}

// outage refuses all requests of the operator for a while, when some pods are replaced.
func (s *scene) outage(t *testing.T, r *recorder) {
	t.Helper()
	env.Eventually(t, "some are replaced", func() error {
		if r.replaced() < s.count/3 {
			return fmt.Errorf("%d", r.replaced())
		}
		return nil
	})
	var refused atomic.Int32
	s.through.Set(func(*http.Request) env.Fault {
		refused.Add(1)
		return func(w http.ResponseWriter, _ func(http.ResponseWriter)) {
			http.Error(w, "away", http.StatusServiceUnavailable)
		}
	})
	s.through.Disconnect()
	env.Eventually(t, "the operator asks in vain", func() error {
		if refused.Load() < 20 {
			return fmt.Errorf("%d times", refused.Load())
		}
		return nil
	})
	s.through.Set(nil)
}
