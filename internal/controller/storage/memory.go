package storage

import (
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
	// onceMark is in Storage.status.generations with each driver that may be disabled and has been available. Nothing else would say
	// after a restart that such a driver is broken.
	onceMark        = "available"
	driversResource = "clustercsidrivers"
)

// memory is what conditions depend on beside what was read and done.
type memory struct {
	// failures, rollouts and waits know since when something lasts.
	failures *status.Failures
	rollouts *status.Rollouts
	waits    *status.Waits
	// once are the drivers that have been available.
	once map[string]bool
	// last are the conditions as they were reported last, for when there is no Storage that has them.
	last []operatorv1.OperatorCondition
	// cleaned says that what nobody writes any more has been dropped since the start.
	cleaned bool
}

// previous are the conditions from before.
func (m *memory) previous(w *seen) []operatorv1.OperatorCondition {
	if w.storage == nil || len(m.last) > 0 {
		return m.last
	}
	return w.storage.Status.Conditions
}

// recall reads which drivers have been available.
func (m *memory) recall(w *seen) {
	if m.once == nil {
		m.once = map[string]bool{}
	}
	if w.storage == nil {
		return
	}
	for _, entry := range w.storage.Status.Generations {
		if entry.Resource == driversResource && entry.Hash == onceMark {
			m.once[entry.Name] = true
		}
	}
}

// generations remembers which of the drivers that may be disabled have been available.
func (m *memory) generations(w *seen, entries []catalogue.Entry) []operatorv1.GenerationStatus {
	var marks []operatorv1.GenerationStatus
	for _, entry := range entries {
		if driver := w.drivers[entry.Name]; entry.MayBeDisabled && m.once[entry.Name] && driver != nil {
			marks = append(marks, operatorv1.GenerationStatus{
				Group: operatorv1.GroupName, Resource: driversResource, Name: entry.Name, Hash: onceMark,
			})
		}
	}
	return marks
}

// sort divides the conditions that a Storage has and that are not to be written. Those of other programs are kept, nobody writes the stale
// ones any more.
func (m *memory) sort(w *seen, wanted []operatorv1.OperatorCondition, own map[string]bool) (others, stale []operatorv1.OperatorCondition) {
	if w.storage == nil {
		return nil, nil
	}
	for _, condition := range w.storage.Status.Conditions {
		switch {
		case m.belongsToOthers(condition.Type, own):
			others = append(others, condition)
		case status.Find(wanted, condition.Type) == nil:
			stale = append(stale, condition)
		}
	}
	return others, stale
}

// belongsToOthers reports whether another program writes a condition in the Storage. Own are those of this program.
func (m *memory) belongsToOthers(kind string, own map[string]bool) bool {
	// OpenShift's detector of problems on vSphere goes after this program has come, and may write until then. Nobody would change it any more.
	return !own[kind] && m.cleaned && !strings.HasPrefix(kind, "VSphereProblemDetector")
}

// ownStatus is what a Storage has of what is to be written. What else it has is of others, or stale.
func ownStatus(
	have operatorv1.OperatorStatus, wanted []operatorv1.OperatorCondition, generations []operatorv1.GenerationStatus,
) *operatorv1.OperatorStatus {
	own := &operatorv1.OperatorStatus{ObservedGeneration: have.ObservedGeneration}
	for _, condition := range have.Conditions {
		if status.Find(wanted, condition.Type) != nil {
			own.Conditions = append(own.Conditions, condition)
		}
	}
	for _, entry := range generations {
		if slices.Contains(have.Generations, entry) {
			own.Generations = append(own.Generations, entry)
		}
	}
	return own
}
