package manager

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// lateManager needs no API server. Its grace period is short, so that a stop which hangs fails soon.
func lateManager(t *testing.T) ctrl.Manager {
	t.Helper()
	grace := 5 * time.Second
	mgr, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &grace,
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// runs waits for the end of the context, and counts starts and ends.
func runs(started, ended *atomic.Int64) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		started.Add(1)
		<-ctx.Done()
		ended.Add(1)
		return nil
	})
}

// The stop comes at another moment of the start in each round. Only with many controllers does the manager itself nearly always hang.
func TestAManagerStopsWhileControllersStartLate(t *testing.T) {
	for round := range 20 {
		mgr, when := lateManager(t), make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		var started, ended atomic.Int64
		late := Late{Manager: mgr, When: when, SetUp: func(mgr ctrl.Manager) error {
			for number := range 100 {
				if number == 5*round {
					go stop()
				}
				if err := mgr.Add(runs(&started, &ended)); err != nil {
					return err
				}
			}
			return nil
		}}
		if err := mgr.Add(late); err != nil {
			t.Fatal(err)
		}
		close(when)
		if err := mgr.Start(ctx); err != nil || started.Load() != ended.Load() {
			t.Fatalf("round %d: error %v, %d started, %d ended", round, err, started.Load(), ended.Load())
		}
		stop()
	}
}

func TestControllersStartOnlyWhenTheyMay(t *testing.T) {
	mgr := lateManager(t)
	ctx, stop := context.WithCancel(t.Context())
	late := Late{Manager: mgr, When: make(chan struct{}), SetUp: func(ctrl.Manager) error { return errors.New("set up too early") }}
	err := errors.Join(mgr.Add(late), mgr.Add(manager.RunnableFunc(func(context.Context) error { stop(); return nil })))
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Start(ctx); err != nil {
		t.Error(err)
	}
}

func TestALateControllerThatFailsStopsTheManager(t *testing.T) {
	wrong := errors.New("wrong")
	for name, tc := range map[string]struct {
		setUp error
		first manager.RunnableFunc
	}{
		"the set-up":   {setUp: wrong},
		"a controller": {first: func(context.Context) error { return wrong }},
	} {
		mgr, when := lateManager(t), make(chan struct{})
		close(when)
		var started, ended atomic.Int64
		late := Late{Manager: mgr, When: when, SetUp: func(mgr ctrl.Manager) error {
			return errors.Join(tc.setUp, mgr.Add(tc.first), mgr.Add(runs(&started, &ended)))
		}}
		if err := mgr.Add(late); err != nil {
			t.Fatal(err)
		}
		if err := mgr.Start(t.Context()); !errors.Is(err, wrong) || started.Load() != ended.Load() {
			t.Errorf("%s: error %v, %d started, %d ended", name, err, started.Load(), ended.Load())
		}
	}
}
