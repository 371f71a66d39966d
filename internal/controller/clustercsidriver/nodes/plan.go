package nodes

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Plan is a roll-out at one moment: which pods have the newest template, and who would notice that one is replaced. Fleet.Outdated are the
// pods that have not.
type Plan struct {
	Fleet
	Policy driver.RolloutPolicy
	// Now means that an administrator wants nodes in use to be replaced like idle ones.
	Now bool
	// Losing are the nodes whose pod must lose a Secret, named Withdrawn: in use or not, they are replaced like idle ones.
	Losing    map[string]bool
	Withdrawn string
	// Proven means that a pod of the newest template serves its node.
	Proven bool
	// Starting are the nodes whose pod has the newest template and does not serve yet, with the reason. Slow are those of them that have
	// not for long: they count as missing, but nodes in use do not wait for them.
	Starting map[string]string
	Slow     map[string]bool
	// Faulty are nodes whose outdated pod has a template that serves nowhere: it is not the node that is at fault.
	Faulty map[string]bool
	// Recent are nodes in use whose outdated pod serves no more since a moment ago: it may serve again.
	Recent map[string]bool
	// Cordoned are nodes that take no new pods, as in a drain.
	Cordoned map[string]bool
	// Away are the outdated pods of nodes that are down, cordoned and idle.
	Away map[string]*corev1.Pod
	// Disturbed are pods, with their nodes, that were ready before the plugin of their node was replaced, and are not now. Settling is a node
	// whose pods have not had the time to become unready.
	Disturbed []string
	Settling  string
}

// rank sorts the nodes by what is lost with their pod: nothing where it does not serve, nothing either where nobody uses volumes.
func (p Plan) rank(node string) int {
	switch {
	case !p.Serving[node]:
		return 0
	case p.inUse(node):
		return 3
	case p.Cordoned[node]:
		// Pods will soon come back.
		return 1
	default:
		return 2
	}
}

// hurries tells whether a node in use is replaced like an idle one.
func (p Plan) hurries(node string) bool { return p.Now || p.Losing[node] }

func (p Plan) inUse(node string) bool { return len(p.Users[node]) > 0 }

// Waiting are the nodes with an outdated pod, in the order in which it is replaced.
func (p Plan) Waiting() []string {
	return slices.SortedFunc(maps.Keys(p.Outdated), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.rank(a), p.rank(b)), cmp.Compare(a, b))
	})
}

// InUse are those of them on which pods use volumes.
func (p Plan) InUse() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.Outdated)), func(node string) bool { return !p.inUse(node) })
}

// Next are the nodes whose pod is to be deleted now. The DaemonSet makes the new one.
func (p Plan) Next() []string {
	if !p.Proven {
		return p.canary()
	}
	chosen := slices.Sorted(maps.Keys(p.Away))
	missing, restarting := p.Missing(), p.Missing()-p.broken()
	idleLeft := false
	for _, node := range p.Waiting() {
		serves, inUse := p.Serving[node], p.inUse(node)
		switch {
		case p.Recent[node]:
			continue
		case restarting >= p.Most() || (serves && missing >= p.Most()):
			idleLeft = idleLeft || serves && !inUse
			continue
		case serves && inUse && !p.mayDisturb(node, idleLeft || len(chosen) > 0):
			continue
		}
		chosen = append(chosen, node)
		restarting++
		if serves {
			missing++
		}
	}
	return chosen
}

// mayDisturb tells whether a node in use is next. Others are those that come before, and are not done.
func (p Plan) mayDisturb(node string, others bool) bool {
	switch {
	case p.hurries(node):
		return true
	case p.Policy != driver.IdleFirst || others || len(p.Disturbed) > 0 || p.Settling != "":
		return false
	}
	// All that were replaced serve again, but for idle nodes that may never do.
	slow := 0
	for node := range p.Starting {
		if p.Slow[node] && !p.inUse(node) {
			slow++
		}
	}
	return p.Missing()-p.broken() <= slow
}

// broken is how many outdated pods do not serve: to replace one takes nothing away.
func (p Plan) broken() int {
	count := 0
	for node := range p.Outdated {
		if !p.Serving[node] && !p.Recent[node] {
			count++
		}
	}
	return count
}

// canary is the node on which a new template is tried; none while one is tried. Where a template has never worked, its pods come first. A node
// whose own fault it may be that its pod does not serve comes last: it would prove nothing.
func (p Plan) canary() []string {
	// Where a node has no pod at all, the one that the DaemonSet makes there is tried.
	if len(p.Starting)+p.without() > 0 {
		return nil
	}
	last := ""
	for _, node := range p.Waiting() {
		switch {
		case p.Recent[node]:
		case p.Faulty[node] || (p.Serving[node] && p.Missing() < p.Most() && (!p.inUse(node) || p.Policy == driver.IdleFirst || p.hurries(node))):
			return []string{node}
		case !p.Serving[node] && last == "":
			last = node
		}
	}
	if last != "" {
		return []string{last}
	}
	return nil
}
