package manager

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Late starts controllers while the manager runs. The caller adds Late to the manager before the manager starts, and Late then runs the controllers
// itself. The manager's own method Add has a race in a running manager. If the manager stops during a call of Add, the manager and Add can wait for
// each other (controller-runtime v0.24.1, pkg/manager/runnable_group.go, Add and StopAndWait). The operator would then exit with an error, after the
// manager's grace period of 30 s.
type Late struct {
	Manager ctrl.Manager
	// Channel When is closed as soon as the controllers are allowed to start.
	When <-chan struct{}
	// Function SetUp adds the controllers to the manager in its argument.
	SetUp func(ctrl.Manager) error
}

// Start runs the controllers until ctx ends, or until one of them fails.
func (l Late) Start(ctx context.Context) error {
	select {
	case <-l.When:
	case <-ctx.Done():
		return nil
	}
	group := &group{Manager: l.Manager}
	if err := l.SetUp(group); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error)
	for _, one := range group.added {
		go func() { ended <- one.Start(ctx) }()
	}
	var failures error
	for range group.added {
		if err := <-ended; err != nil {
			failures = errors.Join(failures, err)
			stop()
		}
	}
	return failures
}

// group is a manager that only collects the runnables that are added to it.
type group struct {
	ctrl.Manager
	added []manager.Runnable
}

// Add implements ctrl.Manager.
func (g *group) Add(one manager.Runnable) error {
	g.added = append(g.added, one)
	return nil
}
