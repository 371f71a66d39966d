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
	"github.com/csi-operators/csi-operators/internal/kube/informer"
)

const (
	// passInterval is the least time between two calls of pass, which reads the state of all nodes. Without this limit, each new pod would cause a call.
	passInterval = 200 * time.Millisecond
	// settleInterval is the time between two checks while a node is settling.
	settleInterval = 5 * time.Second
)

// Updater replaces the node pods of one driver. Advance runs roll-outs after a change of the template; Survey and Replace serve migrations. Updater
// is not safe for concurrent use. Its state saves requests and avoids disruption. Even after a restart without this state, the operator replaces no
// more pods at a time than with this state.
type Updater struct {
	// Client reads node pods from a cache, and deletes node pods. Live reads everything else from the cluster.
	Client client.Client
	Live   client.Reader
	Driver string
	Now    func() time.Time
	// IsOld reports whether a predecessor made a node pod. It is nil if the Updater serves only roll-outs.
	IsOld func(*corev1.Pod) bool
	// Refuses says why the new driver refuses to mount a volume. It is nil if the Updater serves only roll-outs.
	Refuses func(*corev1.PersistentVolume) string
	// Registered has the nodes whose kubelet has registered the driver. It is nil if the operator does not watch CSINodes.
	Registered *informer.Objects[informer.Registered]
	// Hanging returns how many mounts are known to hang on each node, from a recent report, and the nodes that did not report recently. The map is nil
	// without a recent answer. Result "awaited" is true while nodes in use wait for the first answer of all nodes. Field Hanging is nil if nodes do not
	// report.
	Hanging func() (byNode map[string]int, silent []string, awaited bool)

	template template
	survey   survey
	state    state
	// puller is the DaemonSet whose pods pull images. It is nil without such pods.
	puller *appsv1.DaemonSet
	// last is the result of the last call of pass. passed is the time of this call.
	last   Progress
	passed time.Time
}

// template is the newest template of a DaemonSet.
type template struct {
	// id is the UID of the DaemonSet, followed by the number of the template. hash is the value of the hash label on the template's pods.
	id, hash string
	// since is the creation time of the template.
	since time.Time
	// all has all templates of the DaemonSet, by hash.
	all map[string]string
}

// Input is the input of a roll-out.
type Input struct {
	// DaemonSet is the applied DaemonSet. It is nil if the DaemonSet is absent.
	DaemonSet *appsv1.DaemonSet
	Policy    driver.RolloutPolicy
	// ReplaceNow is the value of ReplaceNowAnnotation. It is empty without the annotation.
	ReplaceNow string
	// Withdrawn names a Secret that node pods must no longer mount, regardless of the policy. It is empty if no such Secret exists.
	Withdrawn string
	// Lacks says what new pods would lack. It is empty if they would lack nothing.
	Lacks string
}

// Reset drops all state. The caller resets the Updater when the operator no longer rolls out the driver.
func (u *Updater) Reset() {
	*u = Updater{
		Client: u.Client, Live: u.Live, Driver: u.Driver, Now: u.Now, IsOld: u.IsOld, Refuses: u.Refuses, Registered: u.Registered, Hanging: u.Hanging,
	}
}

// Advance continues a roll-out. It sends no request if all pods are up to date.
func (u *Updater) Advance(ctx context.Context, in Input) (Progress, error) {
	daemonSet := in.DaemonSet
	if daemonSet == nil || daemonSet.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		u.Reset()
		return Progress{}, nil
	}
	if daemonSet.Status.ObservedGeneration < daemonSet.Generation {
		// Before Kubernetes sets observedGeneration, the ControllerRevision of the new template may be missing. So wait.
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

// again returns the last progress once more, without its changes.
func (u *Updater) again(after time.Duration) Progress {
	last := u.last
	last.Changes, last.Canary, last.Again = nil, "", after
	return last
}

// isOver reports whether a roll-out without outdated pods has ended. All pods must serve. No replaced node may have users whose readiness the
// operator still checks. If the cluster has nodes for the driver, a pod of the newest template must have served on one of them.
func (u *Updater) isOver(daemonSet *appsv1.DaemonSet, pods []corev1.Pod) bool {
	proven := u.state.proven || daemonSet.Status.DesiredNumberScheduled == 0
	return u.passed.IsZero() || proven && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return !Serves(&pod) }) &&
		!slices.ContainsFunc(slices.Collect(maps.Values(u.state.replaced)), func(each replacement) bool { return len(each.ready) > 0 })
}

// end reports once that a roll-out has ended.
func (u *Updater) end() Progress {
	ended := !u.passed.IsZero()
	var again time.Duration
	if u.puller != nil {
		again = passInterval
	}
	if ended {
		u.last, u.passed, u.survey, u.state.replaced = Progress{}, time.Time{}, survey{}, nil
		u.state.pulls, u.state.batch, u.puller = nil, nil, nil
	}
	return Progress{Ended: ended, Again: again}
}

// pass observes all nodes, and deletes the pods of the nodes that are next.
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
	if plan.Settling != "" || plan.Reports == reportsAwaited {
		made.Again = min(made.Again, settleInterval)
	}
	if len(u.state.batch) > 0 {
		made.Again = min(made.Again, pullInterval)
	}
	if u.setPuller(in.DaemonSet) {
		made.Again = passInterval
	}
	return made, err
}

// NumberOf returns the number of a DaemonSet's template. Kubernetes counts the templates in an annotation of the DaemonSet, and labels the pods with
// the number.
func NumberOf(daemonSet *appsv1.DaemonSet) string {
	return daemonSet.Annotations[appsv1.DeprecatedTemplateGeneration]
}

// pods lists the cached pods of the DaemonSet. A pod that this process has deleted counts as terminating.
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
			// A DaemonSet pod has a fixed target node even before the scheduler places the pod.
			pod.Spec.NodeName = intended(pod)
		}
		if gone, found := u.state.replaced[pod.Spec.NodeName]; found && gone.pod == pod.UID && pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = &metav1.Time{Time: gone.at}
		}
	}
	return cached, nil
}

// podsOf lists the pods of a DaemonSet. The pods are shallow copies of cached objects, so the caller must not modify nested fields.
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

// Outdated returns the pods of earlier templates, by node. It omits pods that are being deleted.
func Outdated(ctx context.Context, reader client.Reader, daemonSet *appsv1.DaemonSet) (map[string]*corev1.Pod, error) {
	pods, err := podsOf(ctx, reader, daemonSet)
	if err != nil {
		return nil, err
	}
	return (&Updater{Live: reader, Now: time.Now}).outdated(ctx, daemonSet, pods)
}

// outdated returns the pods of earlier templates, by node. It omits pods that are being deleted.
func (u *Updater) outdated(ctx context.Context, daemonSet *appsv1.DaemonSet, pods []corev1.Pod) (map[string]*corev1.Pod, error) {
	number := NumberOf(daemonSet)
	found := map[string]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[templateLabel] == number || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		// If the DaemonSet gets the content of an earlier template again, its template has a new number, but the hash of the earlier template. Pods with
		// that hash are up to date.
		if err := u.begin(ctx, daemonSet); err != nil {
			return nil, err
		}
		if hash := pod.Labels[appsv1.ControllerRevisionHashLabelKey]; hash == "" || hash != u.template.hash {
			found[pod.Spec.NodeName] = pod
		}
	}
	return found, nil
}

// templateLabel is the label with the number of a pod's template.
const templateLabel = "pod-template-generation"

// begin reads the hash of a new template, and starts a new roll-out.
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
	u.state.pulls, u.state.batch, u.puller = nil, nil, nil
	// Drop replacements that are more than an hour old.
	maps.DeleteFunc(u.state.replaced, func(_ string, done replacement) bool {
		return len(done.ready) == 0 && u.Now().Sub(done.at) > time.Hour
	})
	return nil
}
