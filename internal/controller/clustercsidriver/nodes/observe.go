package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
	// surveyInterval is how long the users of volumes are taken to be as they were, at least.
	surveyInterval = 15 * time.Second
	// startTime is how long a new pod may take before it is asked whether its node is down.
	startTime = 40 * time.Second
	// canaryPatience is how long a canary may take before it counts as failed.
	canaryPatience = 2 * time.Minute
	// slowAfter is how long a new pod may take before nodes in use do not wait for it. A node without any pod may be unwanted by then.
	slowAfter = 5 * time.Minute
	// brokenAfter is how long an outdated pod must not have served before it counts as broken on a node in use: a short outage is not that.
	brokenAfter = 2 * time.Minute
	// pauseLimit is how long a node's pods can pause a roll-out after their node pod serves. That they are not ready is their tenant's word:
	// docs/decisions/0051.
	pauseLimit = time.Hour
	// mostSettle is how long the pods of a node have at most to become unready.
	mostSettle = time.Minute
)

// plan reads what the roll-out depends on. It also returns the pods, without those of departed nodes.
func (u *Updater) plan(ctx context.Context, in Input, pods []corev1.Pod, outdated map[string]*corev1.Pod) (Plan, []corev1.Pod, error) {
	if u.survey.at.IsZero() {
		if err := u.compare(ctx, in, pods); err != nil {
			return Plan{}, nil, err
		}
	}
	if err := u.ask(ctx, pods, outdated); err != nil {
		return Plan{}, nil, err
	}
	healths, err := u.unready(ctx, pods, outdated)
	if err != nil {
		return Plan{}, nil, err
	}
	maps.DeleteFunc(u.replaced, func(node string, _ *replacement) bool { return healths[node] == departed })
	pods = withoutDeparted(pods, healths)
	made := Plan{
		Fleet:  newFleet(pods, nil, healths, Wanted(in.DaemonSet), func(*corev1.Pod) bool { return false }),
		Policy: in.Policy, Now: in.ReplaceNow != "" && in.ReplaceNow == NumberOf(in.DaemonSet), Proven: u.round.proven, Cordoned: u.survey.cordoned,
		Starting: map[string]string{}, Slow: map[string]bool{}, Faulty: map[string]bool{}, Recent: map[string]bool{},
		Away: map[string]*corev1.Pod{},
	}
	made.Losing, made.Withdrawn = u.reading(in.Withdrawn, outdated), in.Withdrawn
	made.Users = u.survey.users
	made.Outdated = map[string]*corev1.Pod{}
	for node, pod := range outdated {
		switch {
		case healths[node] == departed:
		case !made.Down[node] && pod.DeletionTimestamp == nil:
			made.Outdated[node] = pod
		case made.Down[node] && made.Cordoned[node] && len(made.Users[node]) == 0:
			made.Away[node] = pod
		}
	}
	u.sort(&made, pods)
	u.await(&made, in.DaemonSet.Status)
	return made, pods, u.settle(ctx, &made)
}

// await adds the nodes that have no pod after this process deleted theirs: a pod that is left of a departed node must not hide that. It forgets
// a node that the DaemonSet no longer wants, such as one that got a taint: after some time, all that are wanted have a pod without it. The status
// of the DaemonSet says so, and the pods are counted as well, because the status is an old one while no controller looks after the DaemonSet.
func (u *Updater) await(plan *Plan, state appsv1.DaemonSetStatus) {
	complete := state.CurrentNumberScheduled >= state.DesiredNumberScheduled && plan.without() == 0
	for node, replaced := range u.replaced {
		switch {
		case !replaced.served.IsZero() || plan.Occupied[node] || plan.Down[node]:
		case complete && u.Now().Sub(replaced.at) >= slowAfter:
			delete(u.replaced, node)
		default:
			plan.Occupied[node], plan.Starting[node] = true, "no pod yet"
		}
	}
}

// compare looks for pods that the cluster has no more although the cache has them: an operator before this one may have deleted them just now.
func (u *Updater) compare(ctx context.Context, in Input, pods []corev1.Pod) error {
	live, err := podsOf(ctx, u.Live, in.DaemonSet)
	if err != nil {
		return err
	}
	there := map[types.UID]bool{}
	for i := range live {
		there[live[i].UID] = live[i].DeletionTimestamp == nil
	}
	for i := range pods {
		pod := &pods[i]
		if !there[pod.UID] && pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
			u.replaced[pod.Spec.NodeName] = &replacement{pod: pod.UID, at: u.Now()}
			pod.DeletionTimestamp = new(metav1.NewTime(u.Now()))
		}
	}
	return nil
}

// unready are the nodes whose pod does not serve, or does not come after the last one was deleted, with their health. A pod that was just made or
// deleted is given some time first.
func (u *Updater) unready(ctx context.Context, pods []corev1.Pod, outdated map[string]*corev1.Pod) (map[string]health, error) {
	late, occupied, found := map[string]bool{}, map[string]bool{}, map[string]health{}
	for i := range pods {
		pod := &pods[i]
		node := pod.Spec.NodeName
		since := pod.CreationTimestamp.Time
		if pod.DeletionTimestamp != nil {
			since = pod.DeletionTimestamp.Time
		}
		occupied[node] = true
		if node != "" && !Serves(pod) && (outdated[node] == pod || u.Now().Sub(since) >= startTime) {
			late[node] = true
		}
	}
	for node, replaced := range u.replaced {
		if !occupied[node] && u.Now().Sub(replaced.at) >= startTime {
			late[node] = true
		}
	}
	for node := range late {
		var err error
		if found[node], err = u.healthOf(ctx, node); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// withoutDeparted leaves out the pods of nodes that left the cluster. The DaemonSet does not count such a node, and its pods are deleted after
// 40 to 80 seconds (Kubernetes v1.36, pkg/controller/podgc/gc_controller.go).
func withoutDeparted(pods []corev1.Pod, healths map[string]health) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return healths[pod.Spec.NodeName] == departed })
}

// sort says of each pod that does not serve whether it is new, slow, or of a template that never worked.
func (u *Updater) sort(plan *Plan, pods []corev1.Pod) {
	works := map[string]bool{}
	for i := range pods {
		if Serves(&pods[i]) {
			works[pods[i].Labels[templateLabel]] = true
		}
	}
	for i := range pods {
		pod := &pods[i]
		node := pod.Spec.NodeName
		switch {
		case node == "" || plan.Down[node] || plan.Serving[node]:
		case plan.Outdated[node] != nil && plan.Outdated[node].UID == pod.UID:
			plan.Faulty[node] = !works[pod.Labels[templateLabel]]
			plan.Recent[node] = plan.inUse(node) && u.Now().Sub(readinessSince(pod)) < brokenAfter
		default:
			plan.Starting[node] = status.PodProblem(pod)
			plan.Slow[node] = pod.DeletionTimestamp == nil && u.Now().Sub(pod.CreationTimestamp.Time) >= slowAfter
		}
	}
}

// readinessSince is since when a pod is ready, or since when it is not.
func readinessSince(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// recall looks, once in a round of a process, for users that became unready after the pod of their node was replaced: an operator before this
// one may have paused.
func (u *Updater) recall(ctx context.Context, pods []corev1.Pod, outdated map[string]*corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		node := pod.Spec.NodeName
		served := pod.CreationTimestamp.Time
		if len(u.survey.users[node]) == 0 || outdated[node] != nil || u.replaced[node] != nil || u.Now().Sub(served) >= pauseLimit {
			continue
		}
		users, err := u.usersOn(ctx, node)
		if err != nil {
			return err
		}
		found := &replacement{at: served, served: served, ready: map[types.UID]bool{}}
		for j := range users {
			if !isReadyPod(&users[j]) && readinessSince(&users[j]).After(served) {
				found.ready[users[j].UID] = true
			}
		}
		if len(found.ready) > 0 {
			u.replaced[node] = found
		}
	}
	return nil
}

// prove finds out whether the newest template works, on any node. It says what is wrong if it does not for too long.
func (u *Updater) prove(ctx context.Context, plan *Plan, pods []corev1.Pod) (failed string, err error) {
	if plan.Proven {
		return "", nil
	}
	for i := range pods {
		pod := &pods[i]
		node := pod.Spec.NodeName
		if node == "" || plan.Outdated[node] != nil || plan.Down[node] || pod.DeletionTimestamp != nil {
			continue
		}
		problem := plan.Starting[node]
		if Serves(pod) {
			registered, err := u.isRegistered(ctx, node)
			if err != nil {
				return "", err
			}
			if registered {
				u.round.proven, plan.Proven = true, true
				return "", nil
			}
			problem = "its CSINode does not list driver " + u.Driver
			plan.Starting[node] = problem
		}
		if u.Now().Sub(pod.CreationTimestamp.Time) >= canaryPatience || isHopeless(pod) || u.round.failed == pod.UID {
			// It does not count as well again each time when the kubelet tries once more.
			u.round.failed = pod.UID
			failed = fmt.Sprintf("the new node pod does not work on node %s, where it is tried first: %s; look at pod %s/%s. All other nodes keep theirs",
				node, problem, pod.Namespace, pod.Name)
		}
	}
	return failed, nil
}

// isHopeless tells whether the kubelet has tried a container more than once, or can't.
func isHopeless(pod *corev1.Pod) bool {
	// The reasons are those of Kubernetes v1.36, pkg/kubelet/kuberuntime and pkg/kubelet/images/types.go.
	hopeless := []string{"CrashLoopBackOff", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"}
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return slices.ContainsFunc(all, func(container corev1.ContainerStatus) bool {
		return container.State.Waiting != nil && slices.Contains(hopeless, container.State.Waiting.Reason)
	})
}

// isRegistered tells whether the kubelet of a node knows the driver.
func (u *Updater) isRegistered(ctx context.Context, node string) (bool, error) {
	registration := &storagev1.CSINode{}
	if err := u.Live.Get(ctx, client.ObjectKey{Name: node}, registration); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read CSINode %s: %w", node, err)
	}
	return slices.ContainsFunc(registration.Spec.Drivers, func(known storagev1.CSINodeDriver) bool { return known.Name == u.Driver }), nil
}

// note takes down which users of a node are ready, before its pod is deleted. What was ready before the pod before counts as well.
func (r *replacement) note(users []corev1.Pod, before *replacement) {
	if len(users) == 0 {
		return
	}
	r.ready = map[types.UID]bool{}
	for i := range users {
		if isReadyPod(&users[i]) || (before != nil && before.ready[users[i].UID]) {
			r.ready[users[i].UID] = true
			r.settle = max(r.settle, settleOf(&users[i]))
		}
	}
}

// settleOf is how long it takes a pod to become unready: as long as its readiness probes need to fail.
func settleOf(pod *corev1.Pod) time.Duration {
	longest := int32(0)
	for _, container := range pod.Spec.Containers {
		if probe := container.ReadinessProbe; probe != nil {
			longest = max(longest, probe.PeriodSeconds*probe.FailureThreshold+probe.TimeoutSeconds)
		}
	}
	return min(time.Duration(longest)*time.Second, mostSettle)
}

// settle looks at the nodes whose pod was replaced: how long that took, and whether their users are as before.
func (u *Updater) settle(ctx context.Context, plan *Plan) error {
	for node, replaced := range u.replaced {
		if plan.Down[node] || (replaced.served.IsZero() && !plan.Serving[node]) {
			continue
		}
		if replaced.served.IsZero() {
			replaced.served = u.Now()
			u.notePace(u.Now().Sub(replaced.at))
		}
		switch {
		case len(replaced.ready) == 0, u.Now().Sub(replaced.served) >= pauseLimit:
			delete(u.replaced, node)
			continue
		case u.Now().Sub(replaced.served) < replaced.settle:
			plan.Settling = node
			continue
		}
		if u.Now().Sub(replaced.looked) >= surveyInterval {
			var err error
			if replaced.disturbed, err = u.disturbed(ctx, node, replaced); err != nil {
				return err
			}
			replaced.looked = u.Now()
		}
		if len(replaced.disturbed) == 0 {
			delete(u.replaced, node)
		}
		plan.Disturbed = append(plan.Disturbed, replaced.disturbed...)
	}
	slices.Sort(plan.Disturbed)
	return nil
}

// notePace takes down how long a node was without a plugin, unless it was down.
func (u *Updater) notePace(took time.Duration) {
	switch {
	case took > slowAfter:
	case u.pace == 0:
		u.pace = took
	default:
		u.pace = (u.pace + took) / 2
	}
}

// disturbed are the pods of a node that were ready before, are there, and are not ready now.
func (u *Updater) disturbed(ctx context.Context, node string, replaced *replacement) ([]string, error) {
	var found []string
	users, err := u.usersOn(ctx, node)
	if err != nil {
		return nil, err
	}
	for i := range users {
		pod := &users[i]
		if replaced.ready[pod.UID] && pod.DeletionTimestamp == nil && !isReadyPod(pod) {
			found = append(found, fmt.Sprintf("%s/%s on %s", pod.Namespace, pod.Name, node))
		}
	}
	return found, nil
}

func isReadyPod(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}
