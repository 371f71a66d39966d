package takeover

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// The operator is killed without notice at random requests, again and again, and each time another one goes on. Some requests have
// reached the API server by then, some have not. In the end everything is as if nobody had been killed, and as if nothing had been damaged.
func TestAMigrationOutlivesKillsAndDamage(t *testing.T) {
	var damages [][]damage
	for _, tc := range leftovers() {
		if !tc.soak && len(tc.damages) > 0 {
			damages = append(damages, tc.damages)
		}
	}
	outlive(t, env.Rounds(t)*4/5, nil, damages)
}

func TestAMigrationFromOpenShiftOutlivesKills(t *testing.T) {
	env.OnlySoak(t)
	outlive(t, env.Rounds(t)*2/5, predecessors.OpenShift("openshift-operators"), [][]damage{nil})
}

// outlive migrates from each damaged driver, and from the first again until there were enough kills, an equal share in each migration.
func outlive(t *testing.T, kills int, driver []client.Object, damages [][]damage) {
	t.Helper()
	const nodes = few
	s := before(t, nodes, "openshift-operators", driver...)
	random := env.Dice(t)
	through := env.NewProxy(t, s.Cluster)
	work := func(t *testing.T) *env.Operator {
		t.Helper()
		return s.operate(t, "--kubeconfig", through.Kubeconfig(t, s.Cluster, s.namespace))
	}
	data, err := s.data(t.Context())
	env.Must(t, err)

	// One that nobody kills shows what the others have to reach, and how many requests that takes.
	operator := work(t)
	env.Eventually(t, "the operator works", operator.Started)
	through.Set(nil)
	app, stop := s.begin(t, nodes, driver, nil)
	env.Eventually(t, "the migration waits", func() error { return s.holdsOnly(t.Context(), app.Spec.NodeName) })
	s.acceptRemount(t)
	env.Eventually(t, "the driver taken over", func() error { return s.through(t, nodes) })
	env.Quiet(t, operator)
	cost := len(through.Work())
	want, err := s.operands(t.Context())
	env.Must(t, err)
	stop()
	s.stop(t, app)
	s.clear(t)
	t.Logf("undisturbed, a migration takes %d requests", cost)

	killed := 0
	for round := 0; killed < kills || round < len(damages); round++ {
		share := min(kills, (round+1)*kills/len(damages))
		app, stop := s.begin(t, nodes, driver, damages[round%len(damages)])
		kept, err := s.uids(t.Context(), s.adopted(driver)...)
		env.Must(t, err)
		accepted := false
		var died func() bool
		for finished := false; !finished; {
			// A third, so that an early kill and a late one fall into the same migration.
			n, arrives := 1+random.IntN(cost/3+1), random.IntN(2) == 1
			if killed >= share {
				n = -1
			}
			died = through.KillAt(env.IsWork, n, arrives, operator.Kill)
			env.Eventually(t, fmt.Sprintf("killed at request %d, or done", n), func() error {
				if died() {
					return nil
				}
				if !accepted && s.holdsOnly(t.Context(), app.Spec.NodeName) == nil {
					accepted = true
					s.acceptRemount(t)
				}
				err := s.through(t, nodes)
				finished = err == nil
				return err
			})
			if finished {
				break
			}
			killed++
			t.Logf("kill %d: at request %d, which arrives: %t", killed, n, arrives)
			<-operator.Done()
			operator = work(t)
		}
		through.Set(nil)
		if died() {
			// The last request of all was the one.
			killed++
			<-operator.Done()
			operator = work(t)
		}
		env.Eventually(t, "the end state", func() error { return s.through(t, nodes) })
		env.Quiet(t, operator)
		got, err := s.operands(t.Context())
		env.Must(t, err)
		same(t, "the end state", want, got)
		now, err := s.uids(t.Context(), s.adopted(driver)...)
		env.Must(t, err)
		maps.DeleteFunc(now, func(name string, _ types.UID) bool { return kept[name] == "" })
		maps.DeleteFunc(kept, func(_ string, uid types.UID) bool { return uid == "" })
		same(t, "the identity of what is adopted", kept, now)
		after, err := s.data(t.Context())
		env.Must(t, err)
		same(t, "SharedVolumes, volumes or PVCs", data, after)
		stop()
		if t.Failed() {
			return
		}
		s.stop(t, app)
		s.clear(t)
	}
}

// begin puts the old driver back, damages it, runs an application that uses it, and asks for the migration.
func (s *scene) begin(t *testing.T, nodes int, driver []client.Object, damages []damage) (app *corev1.Pod, stop func()) {
	t.Helper()
	s.putDriver(t, driver)
	for _, damage := range damages {
		damage(t, s)
	}
	app = s.application(t, "shop", "web", s.workers[0])
	stop = s.watch(t, nodes)
	s.create(t, nil)
	return app, stop
}

// adopted are objects that stay the same in a migration from a driver.
func (s *scene) adopted(driver []client.Object) []client.Object {
	if driver != nil {
		return s.adoptedOfOpenShift()
	}
	return []client.Object{s.daemonSet(), csiDriver(), storageClass()}
}

// through checks that a migration has ended.
func (s *scene) through(t *testing.T, nodes int) error {
	t.Helper()
	if err := s.handedOver(t.Context(), nodes); err != nil {
		return err
	}
	return errors.Join(s.communityGone(t.Context()), s.Gone(t.Context(), s.openShiftDaemonSet()))
}

func operatorEnded(operator *env.Operator) bool {
	select {
	case <-operator.Done():
		return true
	default:
		return false
	}
}

// An API server that is away is no reason to forget what nodes lack a plugin.
func TestAMigrationGoesOnAfterAnOutage(t *testing.T) {
	env.OnlySoak(t)
	s := before(t, few, "openshift-operators")
	app := s.application(t, "shop", "web", s.workers[0])
	operator := s.operate(t)
	s.create(t, nil)
	env.Eventually(t, "the migration waits", func() error { return s.holdsOnly(t.Context(), app.Spec.NodeName) })
	s.restarted = true
	env.Must(t, s.StopComponent(t.Context(), "kube-apiserver"))
	env.Must(t, s.StartComponent(t.Context(), "kube-apiserver"))
	s.watch(t, few)
	s.stop(t, app)
	env.Eventually(t, "the driver taken over", func() error { return errors.Join(s.handedOver(t.Context(), few), s.communityGone(t.Context())) })
	if operatorEnded(operator) {
		t.Error("the operator has ended")
	}
}
