package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/status"
)

const (
	// onceMark is in Storage.status.generations with each driver that may be disabled and has been available. Nothing else would tell
	// after a restart that such a driver is broken.
	onceMark = "available"
)

// reporter writes the status of the Storage and of the ClusterOperator.
type reporter struct {
	*Reconciler
	// storageWriter and operatorWriter write them.
	storageWriter, operatorWriter *status.Writer
	// cleaned says that what nobody writes any more has been dropped since the start.
	cleaned bool
	// last are the conditions as they were reported last, for when there is no Storage that has them.
	last []operatorv1.OperatorCondition
	// once are the drivers that have been available.
	once map[string]bool
}

// former are the conditions from before.
func (r *reporter) former(w *world) []operatorv1.OperatorCondition {
	if w.storage == nil || len(r.last) > 0 {
		return r.last
	}
	return w.storage.Status.Conditions
}

// report writes what a reconcile has found. It returns when to look again.
func (r *reporter) report(ctx context.Context, w *world, choices []choice, results []result) (time.Duration, error) {
	r.recall(w)
	wanted, operands, again := r.judge(w, choices, results)
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	wanted = status.Merge(r.former(w), wanted, now)
	r.last = wanted
	all := append(slices.Clone(wanted), r.ofOthers(w)...)
	wait, err := r.reportStorage(ctx, w, wanted)
	again = status.MinRequeue(again, wait)
	if err != nil {
		return again, err
	}
	missing, wait := r.storageMissing(w, now)
	all, again = append(all, missing), status.MinRequeue(again, wait)
	conditions, young := status.ClusterOperator(all, patient(r.Catalogue), now)
	if young {
		again = status.MinRequeue(again, status.FailureWindow)
	}
	state := configv1.ClusterOperatorStatus{
		Conditions: conditions, Versions: status.Versions(versionsOf(w.clusterOperator), operands, r.Version), RelatedObjects: r.related(results),
	}
	r.metrics.observe(w, results, all)
	wait, err = r.reportOperator(ctx, w, state)
	return status.MinRequeue(again, wait), err
}

// ofOthers are the conditions of other programs that report in the Storage as well.
func (r *reporter) ofOthers(w *world) []operatorv1.OperatorCondition {
	var others []operatorv1.OperatorCondition
	if w.storage == nil {
		return nil
	}
	for _, condition := range w.storage.Status.Conditions {
		if r.belongsToOthers(w, condition.Type) {
			others = append(others, condition)
		}
	}
	return others
}

// storageMissing is a condition for the ClusterOperator only: there is no Storage that could have it.
func (r *reporter) storageMissing(w *world, now metav1.Time) (operatorv1.OperatorCondition, time.Duration) {
	var err error
	if w.storage == nil {
		err = errors.New("the Storage cluster is missing, defaults are used: make it again, with spec.managementState Managed")
	}
	condition, again := r.failures.Degraded("Storage", err)
	condition.LastTransitionTime = now
	return condition, again
}

// recall reads which drivers have been available.
func (r *reporter) recall(w *world) {
	if r.once == nil {
		r.once = map[string]bool{}
	}
	if w.storage == nil {
		return
	}
	for _, entry := range w.storage.Status.Generations {
		if entry.Resource == driversResource && entry.Hash == onceMark {
			r.once[entry.Name] = true
		}
	}
}

// judge makes all conditions of this program, and says which operands have reached the release's version.
func (r *reporter) judge(
	w *world, choices []choice, results []result,
) (all []operatorv1.OperatorCondition, operands []status.Operand, again time.Duration) {
	all = append(all, managementCondition(w.managementState()), selinuxCondition(w))
	conditions, wait := r.starterConditions(w, choices)
	all, again = append(all, conditions...), status.MinRequeue(again, wait)
	all = append(all, classConditions(w, choices)...)
	for i := range results {
		done := &results[i]
		if done.removal.done {
			delete(r.once, done.entry.Name)
			continue
		}
		conditions, wait := r.conditionsOf(w, done)
		all, again = append(all, conditions...), status.MinRequeue(again, wait)
		if done.foreign == "" && (done.verdict != unwanted || done.removal.waits) {
			operands = append(operands, status.Operand{Name: done.entry.Operator, Reached: r.reached(w, done, conditions)})
		}
	}
	if w.platformProblem() != "" {
		// Whether all drivers are among the operands is not known.
		operands = append(operands, status.Operand{Reached: false})
	}
	return all, operands, again
}

// belongsToOthers tells of a condition in the Storage that another program writes it.
func (r *reporter) belongsToOthers(w *world, kind string) bool {
	switch {
	case ownTypes(r.Catalogue)[kind]:
		return false
	case !r.cleaned:
		// Others of its conditions are of OpenShift's cluster-storage-operator, and nobody would ever change them.
		platform := w.platform()
		return (platform == configv1.VSpherePlatformType || platform == "") && strings.HasPrefix(kind, "VSphereProblemDetectorController")
	default:
		return true
	}
}

// reportStorage writes the Storage's status if it differs, and says when to look again.
func (r *reporter) reportStorage(ctx context.Context, w *world, wanted []operatorv1.OperatorCondition) (time.Duration, error) {
	if w.storage == nil {
		return 0, nil
	}
	var stale []string
	for _, condition := range w.storage.Status.Conditions {
		if status.Find(wanted, condition.Type) == nil && !r.belongsToOthers(w, condition.Type) {
			stale = append(stale, condition.Type)
		}
	}
	generations := r.generations(w)
	wait, err := r.storageWriter.Write(ctx, status.Report{
		Target: apply.Target(operatorv1.GroupVersion.WithKind("Storage"), w.storage),
		Have:   ownStatus(w.storage.Status.OperatorStatus, wanted, generations),
		Want:   &operatorv1.OperatorStatus{ObservedGeneration: w.storage.Generation, Conditions: wanted, Generations: generations},
		// That of the operands; here there are none.
		Without:    []string{"readyReplicas"},
		Conditions: w.storage.Status.Conditions,
		Stale:      func(condition operatorv1.OperatorCondition) bool { return slices.Contains(stale, condition.Type) },
	})
	if err == nil && wait == 0 {
		r.cleaned = true
	}
	return wait, err
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

// generations remembers which of the drivers that may be disabled have been available.
func (r *reporter) generations(w *world) []operatorv1.GenerationStatus {
	var entries []operatorv1.GenerationStatus
	for _, entry := range r.Scope.Entries {
		if driver := w.drivers[entry.Name]; entry.MayBeDisabled && r.once[entry.Name] && driver != nil {
			entries = append(entries, operatorv1.GenerationStatus{
				Group: operatorv1.GroupName, Resource: driversResource, Name: entry.Name, Hash: onceMark,
			})
		}
	}
	return entries
}

const driversResource = "clustercsidrivers"
