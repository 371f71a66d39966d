package nodes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
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

// state is what is remembered of a roll-out from one step to the next. A migration remembers nothing.
type state struct {
	// proven means that a pod of the newest template has served its node, and failed is the canary that did not work.
	proven bool
	failed types.UID
	// replaced are the nodes whose pod this process has deleted, until their new pod serves and their users are as before.
	replaced map[string]replacement
	// pace is how long a node was without a node pod lately.
	pace time.Duration
}

// replacement is one deletion of a node pod. The cache may show that pod for a while.
type replacement struct {
	pod types.UID
	at  time.Time
	// ready are the pods that used volumes and were ready; nil on an idle node.
	ready map[types.UID]bool
	// served is when the new pod was first seen to serve, and settle how long the users have from then on to become unready.
	served time.Time
	settle time.Duration
	// disturbed are the users that were not ready when they were looked at last.
	disturbed []string
	looked    time.Time
}

// step makes the plan of what is remembered and what was seen, and what is to be remembered then.
func step(before state, seen facts) (state, Plan) {
	after, plan := before, seen.plan()
	after.replaced = maps.Clone(before.replaced)
	if !plan.Migrates {
		after.await(&plan, seen)
		after.settle(&plan, seen)
		after.prove(&plan, seen)
	}
	plan.Proven = after.proven
	return after, plan
}

// await adds the nodes that have no pod after this process deleted theirs: a pod that is left of a departed node must not hide that. It forgets
// a node that left the cluster, and one that the DaemonSet no longer wants, such as one that got a taint: after some time, all that are wanted
// have a pod without it. The status of the DaemonSet says so, and the pods are counted as well, because the status is an old one while no
// controller looks after the DaemonSet.
func (s *state) await(plan *Plan, seen facts) {
	complete := seen.complete && plan.Without() == 0
	for name, replaced := range s.replaced {
		if seen.healths[name] == departed {
			delete(s.replaced, name)
			continue
		}
		node := plan.at(name)
		switch {
		case !replaced.served.IsZero() || node.Occupied || node.Down:
		case complete && seen.now.Sub(replaced.at) >= slowAfter:
			delete(s.replaced, name)
		default:
			node.Occupied, node.Problem = true, "no pod yet"
		}
	}
}

// settle takes down how long nodes were without a node pod, and whether their users are as before.
func (s *state) settle(plan *Plan, seen facts) {
	for _, name := range slices.Sorted(maps.Keys(s.replaced)) {
		replaced, node := s.replaced[name], plan.at(name)
		if !replaced.serves(node) {
			continue
		}
		if replaced.served.IsZero() {
			replaced.served = seen.now
			if took := seen.now.Sub(replaced.at); took <= slowAfter {
				// It was not down.
				s.pace = (cmp.Or(s.pace, took) + took) / 2
			}
		}
		if users, looked := seen.looked[name]; looked {
			replaced.disturbed, replaced.looked = replaced.disturbedOf(name, users), seen.now
		}
		s.replaced[name] = replaced
		switch since := seen.now.Sub(replaced.served); {
		case len(replaced.ready) == 0 || since >= pauseLimit:
			delete(s.replaced, name)
		case since < replaced.settle:
			plan.Settling = name
		case len(replaced.disturbed) == 0:
			delete(s.replaced, name)
		default:
			plan.Disturbed = append(plan.Disturbed, replaced.disturbed...)
		}
	}
	slices.Sort(plan.Disturbed)
}

// serves tells whether the new pod of a node has served.
func (r replacement) serves(node *Node) bool {
	return !node.Down && (node.Serves || !r.served.IsZero())
}

// isDue tells whether it is time to look at the users of a node.
func (r replacement) isDue(node *Node, now time.Time) bool {
	since := time.Duration(0)
	if !r.served.IsZero() {
		since = now.Sub(r.served)
	}
	return r.serves(node) && len(r.ready) > 0 && since >= r.settle && since < pauseLimit && now.Sub(r.looked) >= surveyInterval
}

// disturbedOf are the users of a node that were ready before, are there, and are not ready now.
func (r replacement) disturbedOf(node string, users []corev1.Pod) []string {
	var found []string
	for i := range users {
		pod := &users[i]
		if r.ready[pod.UID] && pod.DeletionTimestamp == nil && status.PodProblem(pod) != "" {
			found = append(found, fmt.Sprintf("%s/%s on %s", pod.Namespace, pod.Name, node))
		}
	}
	return found
}

// note takes down which users of a node are ready, before its pod is deleted. What was ready before the pod before counts as well.
func (r *replacement) note(users []corev1.Pod, before replacement) {
	for i := range users {
		if status.PodProblem(&users[i]) != "" && !before.ready[users[i].UID] {
			continue
		}
		if r.ready == nil {
			r.ready = map[types.UID]bool{}
		}
		r.ready[users[i].UID] = true
		r.settle = max(r.settle, settleOf(&users[i]))
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

// prove finds out whether the newest template works, on any node. It says what is wrong if it does not for too long.
func (s *state) prove(plan *Plan, seen facts) {
	for i := range seen.pods {
		pod := &seen.pods[i]
		name := pod.Spec.NodeName
		if s.proven || !seen.isTried(pod, *plan) {
			continue
		}
		node := plan.Nodes[name]
		if Serves(pod) {
			if seen.registered[name] {
				s.proven, plan.Failed = true, ""
				return
			}
			node.Problem = "its CSINode does not list driver " + seen.driver
		}
		if seen.now.Sub(pod.CreationTimestamp.Time) >= canaryPatience || isHopeless(pod) || s.failed == pod.UID {
			// It does not count as well again each time when the kubelet tries once more.
			s.failed = pod.UID
			plan.Failed = fmt.Sprintf("the new node pod does not work on node %s, where it is tried first: %s; look at pod %s/%s. All other nodes keep theirs",
				name, node.Problem, pod.Namespace, pod.Name)
		}
	}
}

// isTried tells whether a pod shows what the newest template is worth.
func (f facts) isTried(pod *corev1.Pod, plan Plan) bool {
	node := plan.Nodes[pod.Spec.NodeName]
	return node != nil && node.Occupied && node.Outdated == nil && !node.Down && pod.DeletionTimestamp == nil && f.healths[pod.Spec.NodeName] != departed
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
