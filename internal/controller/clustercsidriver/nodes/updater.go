package nodes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/follow"
)

const (
	// passInterval is how often a roll-out is looked at, at most: each new pod wakes the controller up.
	passInterval = 200 * time.Millisecond
	// settleInterval is how soon again while the users of a node are given time.
	settleInterval = 5 * time.Second
)

// Updater replaces the node pods of one driver: after their template has changed by Advance, and in a migration by Survey and Replace. It is used
// by one goroutine. What it remembers makes a roll-out cheap and polite; without it, the next operator goes on within the same bound.
type Updater struct {
	// Client reads node pods from a cache and deletes them. Live reads the rest from the cluster.
	Client client.Client
	Live   client.Reader
	Driver string
	Now    func() time.Time
	// IsOld reports whether a predecessor made a node pod; nil where only a roll-out is run.
	IsOld func(*corev1.Pod) bool
	// Registered are the nodes on which the kubelet has registered the driver; nil where nobody follows them.
	Registered *follow.Objects[string]

	template template
	survey   survey
	state    state
	// last is what came of the last pass, and when.
	last   Progress
	passed time.Time
}

// template is the newest of a DaemonSet.
type template struct {
	// id is the UID of the DaemonSet with the number of the template, and hash that of its pods.
	id, hash string
	// since is when the template was made.
	since time.Time
	// all are those that the DaemonSet had, by their hashes.
	all map[string]string
}

// Input is what a roll-out depends on.
type Input struct {
	// DaemonSet is as it was applied last; nil if it does not exist.
	DaemonSet *appsv1.DaemonSet
	Policy    driver.RolloutPolicy
	// ReplaceNow is the value of ReplaceNowAnnotation.
	ReplaceNow string
	// Withdrawn names a Secret that pods must lose whatever the policy says; empty if there is none.
	Withdrawn string
	// Lacks says what new pods would lack; empty if nothing.
	Lacks string
}

// Forget ends what is known, with the ClusterCSIDriver.
func (u *Updater) Forget() {
	*u = Updater{Client: u.Client, Live: u.Live, Driver: u.Driver, Now: u.Now, IsOld: u.IsOld, Registered: u.Registered}
}

// Advance goes on with a roll-out. Without outdated pods it sends no request.
func (u *Updater) Advance(ctx context.Context, in Input) (Progress, error) {
	daemonSet := in.DaemonSet
	if daemonSet == nil || daemonSet.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		u.Forget()
		return Progress{}, nil
	}
	if daemonSet.Status.ObservedGeneration < daemonSet.Generation {
		// Kubernetes makes the revision of a template before it says that it has seen it.
		return u.again(passInterval), nil
	}
	if u.passed.IsZero() && daemonSet.Status.UpdatedNumberScheduled >= daemonSet.Status.DesiredNumberScheduled {
		return Progress{}, nil
	}
	pods, err := u.pods(ctx, daemonSet)
	if err != nil {
		return u.again(0), err
	}
	outdated, err := u.outdated(ctx, daemonSet, pods)
	if err != nil {
		return u.again(0), err
	}
	if len(outdated) == 0 && u.isOver(daemonSet, pods) {
		return u.end(), nil
	}
	if in.Lacks != "" {
		last := u.again(surveyInterval)
		last.Reason = cmp.Or(last.Reason, ReplacingPods)
		last.Message = fmt.Sprintf("%d nodes keep their node pod: %s", len(outdated), in.Lacks)
		return last, nil
	}
	if wait := passInterval - u.Now().Sub(u.passed); wait > 0 {
		return u.again(wait), nil
	}
	made, err := u.pass(ctx, in, pods, outdated)
	if err != nil {
		last := u.again(0)
		last.Changes = made.Changes
		return last, err
	}
	u.last, u.passed = made, u.Now()
	return made, nil
}

// again is what was found last, which still holds, but for what was done then.
func (u *Updater) again(after time.Duration) Progress {
	last := u.last
	last.Changes, last.Canary, last.Again = nil, "", after
	return last
}

// isOver tells, where no pod is outdated, whether nothing is under way either: all pods serve, the newest template works if there is a node to
// try it on, and the users of all nodes are as before.
func (u *Updater) isOver(daemonSet *appsv1.DaemonSet, pods []corev1.Pod) bool {
	proven := u.state.proven || daemonSet.Status.DesiredNumberScheduled == 0
	return u.passed.IsZero() || proven && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return !Serves(&pod) }) &&
		!slices.ContainsFunc(slices.Collect(maps.Values(u.state.replaced)), func(each replacement) bool { return len(each.ready) > 0 })
}

// end says, once, that a roll-out is over.
func (u *Updater) end() Progress {
	ended := !u.passed.IsZero()
	if ended {
		u.last, u.passed, u.survey, u.state.replaced = Progress{}, time.Time{}, survey{}, nil
	}
	return Progress{Ended: ended}
}

// pass looks at all nodes, and deletes the pods that are next.
func (u *Updater) pass(ctx context.Context, in Input, pods []corev1.Pod, outdated map[string]*corev1.Pod) (Progress, error) {
	seen, err := u.observe(ctx, in, pods, outdated)
	if err != nil {
		return Progress{}, err
	}
	var plan Plan
	u.state, plan = step(u.state, seen)
	made := plan.progress(u.Driver, NumberOf(in.DaemonSet), u.state.pace)
	made.Since = u.template.since
	made.Changes, err = u.Replace(ctx, plan)
	if !plan.Proven && len(made.Changes.With(apply.Deleted, apply.Terminating)) > 0 {
		made.Canary = plan.Next()[0]
	}
	made.Again = min(u.survey.patience.Pause(u.Now(), made.Reason), drainInterval)
	if plan.Settling != "" {
		made.Again = min(made.Again, settleInterval)
	}
	return made, err
}

// NumberOf is that of the template of a DaemonSet: Kubernetes counts them in the annotation, and labels the pods with the number.
func NumberOf(daemonSet *appsv1.DaemonSet) string {
	return daemonSet.Annotations[appsv1.DeprecatedTemplateGeneration]
}

// pods are those of the DaemonSet as the cache has them. What this process has deleted counts as terminating.
func (u *Updater) pods(ctx context.Context, daemonSet *appsv1.DaemonSet) ([]corev1.Pod, error) {
	cached, err := podsOf(ctx, u.Client, daemonSet)
	if err != nil {
		return nil, err
	}
	if u.state.replaced == nil {
		u.state.replaced = map[string]replacement{}
	}
	for i := range cached {
		pod := &cached[i]
		if pod.Spec.NodeName == "" {
			// It is for one node, and takes nobody's place before it is there.
			pod.Spec.NodeName = intended(pod)
		}
		if gone, found := u.state.replaced[pod.Spec.NodeName]; found && gone.pod == pod.UID && pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = &metav1.Time{Time: gone.at}
		}
	}
	return cached, nil
}

// podsOf lists the pods of a DaemonSet. A cache knows no pages, and does not copy what it has: nobody may change more than the first level.
func podsOf(ctx context.Context, reader client.Reader, daemonSet *appsv1.DaemonSet) ([]corev1.Pod, error) {
	found := &corev1.PodList{}
	ours := client.MatchingLabels(daemonSet.Spec.Selector.MatchLabels)
	if err := reader.List(ctx, found, client.InNamespace(daemonSet.Namespace), ours, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the node pods of DaemonSet %s: %w", daemonSet.Name, err)
	}
	var pods []corev1.Pod
	for i := range found.Items {
		if metav1.IsControlledBy(&found.Items[i], daemonSet) {
			pods = append(pods, found.Items[i])
		}
	}
	return pods, nil
}

// Outdated are the pods, by node, that an earlier template of a DaemonSet made and that are not being deleted. It only reads.
func Outdated(ctx context.Context, reader client.Reader, daemonSet *appsv1.DaemonSet) (map[string]*corev1.Pod, error) {
	pods, err := podsOf(ctx, reader, daemonSet)
	if err != nil {
		return nil, err
	}
	return (&Updater{Live: reader, Now: time.Now}).outdated(ctx, daemonSet, pods)
}

// outdated are the pods, by node, that an earlier template made and that are not being deleted.
func (u *Updater) outdated(ctx context.Context, daemonSet *appsv1.DaemonSet, pods []corev1.Pod) (map[string]*corev1.Pod, error) {
	number := NumberOf(daemonSet)
	found := map[string]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[templateLabel] == number || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		// A template that was used before has a new number, but the same hash: such pods are those that are wanted.
		if err := u.begin(ctx, daemonSet); err != nil {
			return nil, err
		}
		if hash := pod.Labels[appsv1.ControllerRevisionHashLabelKey]; hash == "" || hash != u.template.hash {
			found[pod.Spec.NodeName] = pod
		}
	}
	return found, nil
}

// templateLabel is the number of the template of which a pod was made.
const templateLabel = "pod-template-generation"

// begin starts a round for the newest template: it reads its hash.
func (u *Updater) begin(ctx context.Context, daemonSet *appsv1.DaemonSet) error {
	id := string(daemonSet.UID) + " " + NumberOf(daemonSet)
	if u.template.id == id {
		return nil
	}
	revisions := &appsv1.ControllerRevisionList{}
	ours := client.MatchingLabels(daemonSet.Spec.Selector.MatchLabels)
	if err := u.Live.List(ctx, revisions, client.InNamespace(daemonSet.Namespace), ours); err != nil {
		return fmt.Errorf("list the revisions of DaemonSet %s: %w", daemonSet.Name, err)
	}
	next, newest := template{id: id, all: map[string]string{}}, int64(-1)
	for i := range revisions.Items {
		revision := &revisions.Items[i]
		if !metav1.IsControlledBy(revision, daemonSet) {
			continue
		}
		hash := revision.Labels[appsv1.ControllerRevisionHashLabelKey]
		next.all[hash] = string(revision.Data.Raw)
		if revision.Revision > newest {
			next.hash, newest, next.since = hash, revision.Revision, revision.CreationTimestamp.Time
		}
	}
	if next.hash == "" {
		return fmt.Errorf("DaemonSet %s has no revision", daemonSet.Name)
	}
	u.template, u.passed, u.survey = next, time.Time{}, survey{}
	u.state.proven, u.state.failed = false, ""
	// What is long over would only be in the way.
	maps.DeleteFunc(u.state.replaced, func(_ string, done replacement) bool {
		return len(done.ready) == 0 && u.Now().Sub(done.at) > time.Hour
	})
	return nil
}
