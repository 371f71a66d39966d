package storage

import (
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
	// onceMark is the hash of an entry in Storage.status.generations. The entry says that a driver has been available. Only a driver that its operator
	// may disable has this entry. After a restart, the entry distinguishes a broken driver from a driver that was never needed.
	onceMark        = "available"
	driversResource = "clustercsidrivers"
)

// memory is the state between reports. Conditions depend on this state.
type memory struct {
	// failures, rollouts and waits measure durations.
	failures *status.Failures
	rollouts *status.Rollouts
	waits    *status.Waits
	// once has the drivers that have been available at least once.
	once map[string]bool
	// last has the conditions of the last report. This program uses them if the Storage, which normally stores the conditions, does not exist.
	last []operatorv1.OperatorCondition
	// cleaned is true if this program has dropped stale conditions since it started.
	cleaned bool
}

// previous returns the last conditions.
func (m *memory) previous(w *seen) []operatorv1.OperatorCondition {
	if w.storage == nil || len(m.last) > 0 {
		return m.last
	}
	return w.storage.Status.Conditions
}

// recall reads from the status which drivers have been available.
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

// generations returns the marks of the drivers that may be disabled and have been available.
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

// sort returns two groups of conditions from the Storage. Group "others" has the conditions of other programs, which stay. Group "stale" has the
// conditions that no program writes any more.
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

// belongsToOthers reports whether another program writes a condition in the Storage. own has the condition types of this program.
func (m *memory) belongsToOthers(kind string, own map[string]bool) bool {
	// The detector's conditions always count as stale. An update starts this program first, and then removes OpenShift's vSphere problem detector. Until
	// then, the detector can write its conditions again. After its removal, these conditions would stay in the Storage.
	return !own[kind] && m.cleaned && !strings.HasPrefix(kind, "VSphereProblemDetector")
}

// ownStatus returns the part of a Storage's status that this program writes.
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
