package reports

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
	// interval is the time between two questions to Prometheus. Prometheus announces no change. A roll-out of node pods needs a recent answer.
	interval = 2 * time.Minute
	// lasting is how long an answer counts. It is longer than two intervals, so the answer still counts after one failure of Prometheus.
	lasting = 2*interval + time.Minute
)

// Watch asks Prometheus in a goroutine of its own, and keeps the last answer in memory. It asks nothing until Configure.
type Watch struct {
	Prometheus Prometheus
	// Live reads volumes and pods, only while mounts hang.
	Live client.Reader
	Now  func() time.Time
	// Changed is called after each question. It must not block.
	Changed func()

	schedule poll.Schedule
	mutex    sync.Mutex
	active   bool
	state    state
}

// state is what is known.
type state struct {
	// last is the last answer. problem is the error of the last question, and failures the number of failures in a row.
	last     *answer
	problem  string
	failures int
	// silent are the nodes without a report in the last two answers. One answer is not enough, because a pod that has just started has no report yet.
	silent []string
	names  names
}

// Configure says whether the nodes report.
func (w *Watch) Configure(active bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.active == active {
		return
	}
	w.active, w.state = active, state{}
	inputs := ""
	if active {
		inputs = "active"
	}
	w.schedule.SetInputs(inputs)
}

// Start asks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	w.schedule.Run(ctx, w.Tick)
	return nil
}

// Tick asks Prometheus and, for names, the API server. It returns how long to wait.
func (w *Watch) Tick(ctx context.Context) time.Duration {
	w.mutex.Lock()
	active, before := w.active, w.state
	w.mutex.Unlock()
	if !active {
		return poll.Interval
	}
	next := w.ask(ctx, before)
	if ctx.Err() != nil {
		return poll.Interval
	}
	w.mutex.Lock()
	if w.active {
		w.state = next
	}
	w.mutex.Unlock()
	w.Changed()
	return interval
}

func (w *Watch) ask(ctx context.Context, before state) state {
	now := w.Now()
	found, err := ask(ctx, w.Prometheus, now)
	if err != nil {
		next := state{last: before.last, problem: err.Error(), failures: before.failures + 1, silent: before.silent, names: before.names}
		if next.failures == 1 {
			ctrl.LoggerFrom(ctx).Info("could not ask Prometheus about mounts of EFS", "error", next.problem)
		}
		return next
	}
	next := state{last: found}
	if before.last != nil {
		next.silent = slices.DeleteFunc(slices.Clone(found.silent), func(node string) bool { return !slices.Contains(before.last.silent, node) })
	}
	if next.names, err = before.names.resolve(ctx, w.Live, found.named); err != nil {
		ctrl.LoggerFrom(ctx).Info("could not find the names of all pods and volumes of EFS mounts that hang", "error", err.Error())
	}
	return next
}

// Condition returns the condition of this type. Until Prometheus first answers or fails twice, it returns its argument before, which is the condition
// of an earlier process. It returns nil if the nodes do not report.
func (w *Watch) Condition(kind string, before *operatorv1.OperatorCondition) *operatorv1.OperatorCondition {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case !w.active:
		return nil
	case w.state.last == nil && w.state.failures < 2:
		return before
	}
	return w.state.condition(kind)
}

// Mounted asks which nodes have mounts of EFS, sorted. An error means that the answer is unknown for some nodes, or for all. With the error come the
// nodes of a partial answer.
func (w *Watch) Mounted(ctx context.Context) ([]string, error) {
	nodes, err := askNodes(ctx, w.Prometheus, queryMounted)
	if err != nil {
		return nil, err
	}
	silent, err := askSilent(ctx, w.Prometheus)
	if err == nil && len(silent) > 0 {
		err = fmt.Errorf("the pods of DaemonSet aws-efs-node-health do not report on %d nodes: %s", len(silent), status.Shorten(silent))
	}
	return nodes, err
}

// Hanging returns the minimum number of mounts that hang on each node. It returns nil if the last answer is not recent. A node is absent if no
// hanging mount of it is known.
func (w *Watch) Hanging() map[string]int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.state.last == nil || w.Now().Sub(w.state.last.at) > lasting {
		return nil
	}
	return maps.Clone(w.state.last.hanging)
}
