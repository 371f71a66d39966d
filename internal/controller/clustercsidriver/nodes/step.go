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
	// canaryPatience is how long a canary may take to become ready. After this time, the canary counts as failed.
	canaryPatience = 2 * time.Minute
	// slowAfter is how long nodes in use wait for a new pod on another node. If a node still has no pod after this time, the DaemonSet may no longer
	// want a pod on that node.
	slowAfter = 5 * time.Minute
	// brokenAfter is how long an outdated pod on a node in use must be unready before it counts as broken.
	brokenAfter = 2 * time.Minute
	// pauseLimit is how long unready pods can pause a roll-out after the new node pod on their node serves. The limit exists because tenants control the
	// readiness of their pods (docs/decisions/0051).
	pauseLimit = time.Hour
	// mostSettle is the longest time that the operator waits for pods of a node to become unready.
	mostSettle = time.Minute
)

// state is the state of a roll-out between steps. A migration has no state.
type state struct {
	// proven is true if a pod of the newest template has served its node. failed is the UID of the canary pod that has failed. It is empty if no canary
	// has failed.
	proven bool
	failed types.UID
	// replaced has the nodes whose pod this process has deleted. A node stays in replaced until its new pod serves and its users are ready again.
	replaced map[string]replacement
	// pulls has the state of the pull for each node in use on which a pod pulls, or has pulled, the new images. batch has the nodes on which such a pod
	// runs now. images has the images that these pods pull.
	pulls  map[string]pull
	batch  []string
	images []string
	// pace is the moving average of the time that a node was without a node pod. It is 0 before the first replacement.
	pace time.Duration
}

// replacement is one deletion of a node pod. pod is the UID of the deleted pod, which a lagging cache may still have. Field "at" is the time of the
// deletion.
type replacement struct {
	pod types.UID
	at  time.Time
	// ready has the users of volumes that were ready before the deletion. It is nil on an idle node.
	ready map[types.UID]bool
	// served is the time at which the new pod first served. settle is how long the operator then waits for users to become unready.
	served time.Time
	settle time.Duration
	// disturbed are the users that were unready at the last check.
	disturbed []string
	looked    time.Time
}

// step computes the next state and the plan. Its inputs are the last state and the facts.
func step(before state, seen facts) (state, Plan) {
	after, plan := before, seen.plan()
	after.replaced = maps.Clone(before.replaced)
	if !plan.Migrates {
		after.await(&plan, seen)
		after.settle(&plan, seen)
		after.prove(&plan, seen)
	}
	plan.Proven = after.proven
	if !plan.Migrates {
		after.pull(&plan, seen)
	}
	return after, plan
}

// await marks a replaced node as occupied until it has its new pod. Otherwise a leftover pod on a departed node could make the counts look complete,
// although a replaced node has no pod. await forgets departed nodes. It also forgets a node that still has no pod after slowAfter, if all desired
// nodes have a pod. The DaemonSet no longer wants a pod on such a node, for example because of a taint. await also counts the pods itself, because
// the DaemonSet's status is stale while the DaemonSet controller is down.
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

// settle records how long nodes were without a node pod, and whether the users on these nodes are ready again.
func (s *state) settle(plan *Plan, seen facts) {
	for _, name := range slices.Sorted(maps.Keys(s.replaced)) {
		replaced, node := s.replaced[name], plan.at(name)
		if !replaced.serves(node) {
			continue
		}
		if replaced.served.IsZero() {
			replaced.served = seen.now
			if took := seen.now.Sub(replaced.at); took <= slowAfter {
				// A longer time says nothing about the pace, because the node was probably down.
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

// serves reports whether the new pod of a node has served.
func (r replacement) serves(node *Node) bool {
	return !node.Down && (node.Serves || !r.served.IsZero())
}

// isDue reports whether it is time to check the node's pods that use volumes of the driver.
func (r replacement) isDue(node *Node, now time.Time) bool {
	since := time.Duration(0)
	if !r.served.IsZero() {
		since = now.Sub(r.served)
	}
	return r.serves(node) && len(r.ready) > 0 && since >= r.settle && since < pauseLimit && now.Sub(r.looked) >= surveyInterval
}

// disturbedOf lists the users of a node that were ready before the replacement and are unready now.
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

// note records which users of a node are ready before the operator deletes the node pod. Users that were ready before the previous replacement also
// count.
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

// settleOf returns the time within which failing readiness probes make a pod unready, at most mostSettle.
func settleOf(pod *corev1.Pod) time.Duration {
	longest := int32(0)
	for _, container := range pod.Spec.Containers {
		if probe := container.ReadinessProbe; probe != nil {
			longest = max(longest, probe.PeriodSeconds*probe.FailureThreshold+probe.TimeoutSeconds)
		}
	}
	return min(time.Duration(longest)*time.Second, mostSettle)
}

// prove checks whether a pod of the newest template serves on some node. If the pod takes too long, prove says in the plan what is wrong.
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
			// A failed canary stays failed, even if a retry of the kubelet starts its containers.
			s.failed = pod.UID
			plan.Failed = fmt.Sprintf("the new node pod does not work on node %s, the first to get it: %s. Look at pod %s/%s; all other nodes keep their "+
				"node pod",
				name, node.Problem, pod.Namespace, pod.Name)
		}
	}
}

// isTried reports whether a pod of the newest template runs on its node.
func (f facts) isTried(pod *corev1.Pod, plan Plan) bool {
	node := plan.Nodes[pod.Spec.NodeName]
	return node != nil && node.Occupied && node.Outdated == nil && !node.Down && pod.DeletionTimestamp == nil && f.healths[pod.Spec.NodeName] != departed
}

// isHopeless reports whether a container fails repeatedly, or can't start.
func isHopeless(pod *corev1.Pod) bool {
	// These are reasons of Kubernetes v1.36, pkg/kubelet/kuberuntime and pkg/kubelet/images/types.go.
	hopeless := []string{"CrashLoopBackOff", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"}
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return slices.ContainsFunc(all, func(container corev1.ContainerStatus) bool {
		return container.State.Waiting != nil && slices.Contains(hopeless, container.State.Waiting.Reason)
	})
}
