package reports

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
)

const (
	// interval is the time between two questions to Prometheus. The operator must ask at intervals, because Prometheus announces no change, and a
	// roll-out of node pods needs a recent answer.
	interval = 2 * time.Minute
	// lasting is how long an answer is valid. It is longer than two intervals, so the answer is still valid after one failure of Prometheus.
	lasting = 2*interval + time.Minute
	// patience is how long the operator waits for the first answer of all nodes. During this time, a roll-out waits, too. Prometheus scrapes new pods
	// within a minute. A question can take as long as the time limits of all its requests together.
	patience = interval
	// retryInterval is the time between two questions until the first answer of all nodes, or until patience ends.
	retryInterval = 15 * time.Second
	// longSilence is the time after which the condition names a node that does not report. The alert waits as long. A node that restarts is silent for
	// minutes.
	longSilence = 10 * time.Minute
)

// Watch asks Prometheus in a goroutine of its own, and keeps the last answer in memory. It asks nothing until Configure.
type Watch struct {
	Prometheus Prometheus
	// Live reads volumes and pods, only while mounts hang.
	Live client.Reader
	// Cache has the driver's node pods, with these labels in this namespace. Their nodes must report.
	Cache     client.Reader
	Namespace string
	NodePods  client.MatchingLabels
	Now       func() time.Time
	// Changed is called after each question. It must not block.
	Changed func()

	schedule poll.Schedule
	mutex    sync.Mutex
	// configured is true after the first call of Configure. active is the argument of the last call of Configure.
	configured, active bool
	// since is the time at which this process began to wait for the first answer.
	since time.Time
	state state
}

// state is what is known.
type state struct {
	// last is the last answer. first is the time of the first answer. problem is the error of the last question. failures is the number of failures in
	// a row.
	last     *answer
	first    time.Time
	problem  string
	failures int
	// silentSince has the nodes that the last answer lacks, each with the time of the first answer in a row without it. silent has the nodes of
	// silentSince that have not reported for longSilence, sorted.
	silentSince map[string]time.Time
	silent      []string
	// stalls has the nodes whose last report shows mounts that hang, without the nodes in silent. The last answer of Prometheus may lack that report.
	stalls map[string]stall
	names  names
}

// stall is the minimum number of mounts that hang on a node, some of these mounts, and the time of the answer with that number.
type stall struct {
	mounts int
	named  []mount
	at     time.Time
}

// Configure says whether the nodes report.
func (w *Watch) Configure(active bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.configured && w.active == active {
		return
	}
	if w.configured {
		w.since = time.Time{}
	}
	w.configured, w.active, w.state = true, active, state{}
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
	pause := interval
	if w.active {
		w.state = next
		if w.awaited() {
			pause = retryInterval
		}
	}
	w.mutex.Unlock()
	w.Changed()
	return pause
}

func (w *Watch) ask(ctx context.Context, before state) state {
	now := w.Now()
	expected, err := w.nodes(ctx)
	var found *answer
	if err == nil {
		found, err = ask(ctx, w.Prometheus, now, expected)
	}
	if err != nil {
		next := before
		next.problem, next.failures = err.Error(), before.failures+1
		if next.failures == 1 {
			ctrl.LoggerFrom(ctx).Info("could not ask Prometheus about mounts of EFS", "error", next.problem)
		}
		return next
	}
	next := before.after(found)
	if next.names, err = before.names.resolve(ctx, w.Live, next.named()); err != nil {
		ctrl.LoggerFrom(ctx).Info("could not find the names of all pods and volumes of EFS mounts that hang", "error", err.Error())
	}
	return next
}

// after returns the state after an answer, without names. It keeps the stall of a node that has just become silent. While Kubernetes replaces the pod
// of DaemonSet aws-efs-node-health on that node, the mounts still hang.
func (s state) after(found *answer) state {
	next := state{last: found, first: found.at, silentSince: map[string]time.Time{}, stalls: map[string]stall{}}
	if s.last != nil {
		next.first = s.first
	}
	for _, node := range found.silent {
		since, isKnown := s.silentSince[node]
		if !isKnown {
			since = found.at
		}
		next.silentSince[node] = since
		if found.at.Sub(since) >= longSilence {
			next.silent = append(next.silent, node)
		} else if one, hung := s.stalls[node]; hung {
			next.stalls[node] = one
		}
	}
	for node, count := range found.hanging {
		next.stalls[node] = stall{count, found.namedOn(node), found.at}
	}
	return next
}

// nodes returns the nodes with a node pod of the driver. After a node has left the cluster, Kubernetes deletes the node's pods within two minutes.
func (w *Watch) nodes(ctx context.Context) ([]string, error) {
	pods := &corev1.PodList{}
	if err := w.Cache.List(ctx, pods, client.InNamespace(w.Namespace), w.NodePods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the driver's node pods: %w", err)
	}
	var nodes []string
	for i := range pods.Items {
		if node := pods.Items[i].Spec.NodeName; node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// awaited reports whether the operator still waits for the first answer of all nodes. The wait begins with the first call of awaited, and lasts for
// patience. The caller holds the mutex.
func (w *Watch) awaited() bool {
	if w.configured && !w.active {
		return false
	}
	now := w.Now()
	if w.since.IsZero() {
		w.since = now
	}
	return (w.state.last == nil || len(w.state.last.silent) > 0) && now.Sub(w.since) < patience
}

// Condition returns the condition of this type, or nil if the nodes do not report. While the operator waits for the first answer, Condition returns
// argument "before", which is the condition of an earlier process. It also returns "before" while the answers are partial, if "before" is nil or
// names a node that is missing. That node may have just started.
func (w *Watch) Condition(kind string, before *operatorv1.OperatorCondition) *operatorv1.OperatorCondition {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch {
	case !w.active:
		return nil
	case w.state.last == nil && w.awaited(), w.state.isPartial() && w.state.mayHold(before):
		return before
	}
	return w.state.condition(kind)
}

// Mounted returns the nodes that have mounts of EFS, and the nodes about which this is unknown. Both lists are sorted. The nodes with a node pod and
// the nodes in argument "before" must report. If Mounted returns an error, this is unknown for all of these nodes that have not answered. Mounted
// also returns an error if no node has to report and Prometheus scrapes no node, because the namespace may lack its label.
func (w *Watch) Mounted(ctx context.Context, before []string) (nodes, unknown []string, err error) {
	expected, err := w.nodes(ctx)
	if err != nil {
		return nil, before, err
	}
	counts, unknown, err := askReports(ctx, w.Prometheus, queryMounted, slices.Concat(expected, before))
	for node, count := range counts {
		if count > 0 {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes, unknown, err
}

// Hanging returns the minimum number of mounts that hang on each node, if the last answer is recent. It omits a node without a recent report or
// without such mounts. It also returns the nodes that the last answer lacks, sorted. The map is nil if the operator has no recent answer. Result
// "awaited" is true while the operator still waits for the first answer of all nodes.
func (w *Watch) Hanging() (byNode map[string]int, silent []string, awaited bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	awaited = w.awaited()
	if w.state.last == nil || w.Now().Sub(w.state.last.at) > lasting {
		return nil, nil, awaited
	}
	byNode = map[string]int{}
	for node, one := range w.state.stalls {
		if w.Now().Sub(one.at) <= lasting {
			byNode[node] = one.mounts
		}
	}
	return byNode, w.state.last.silent, awaited
}
