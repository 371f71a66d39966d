package storage

import (
	"context"
	"errors"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// reporter writes the status of the Storage and the ClusterOperator.
type reporter struct {
	memory
	// catalogue has the drivers of all platforms. scope has the drivers that this cluster may need.
	catalogue         []catalogue.Entry
	scope             Scope
	namespace         string
	storage, operator *status.Writer
	// client creates the ClusterOperator. remember stores the created ClusterOperator.
	client   client.Writer
	remember func(*unstructured.Unstructured)
	events   events.EventRecorder
	metrics  *metrics
}

// report writes the status of the Storage and of the ClusterOperator. It returns the delay until the next reconciliation.
func (r *reporter) report(ctx context.Context, w *seen, choices []choice, results []result) (time.Duration, error) {
	r.recall(w)
	wanted, operands, again := r.conditions(w, choices, results)
	now := metav1.NewTime(w.now).Rfc3339Copy()
	wanted = status.Merge(r.previous(w), wanted, now)
	r.last = wanted
	others, stale := r.sort(w, wanted, ownTypes(r.catalogue))
	wait, err := r.reportStorage(ctx, w, wanted, stale)
	again = status.MinRequeue(again, wait)
	if err != nil {
		return again, err
	}
	missing, wait := r.storageMissing(w, now)
	all := append(append(slices.Clone(wanted), others...), missing)
	conditions, young := status.ClusterOperator(all, patient(r.catalogue), now)
	if young {
		wait = status.MinRequeue(wait, status.FailureWindow)
	}
	again = status.MinRequeue(again, wait)
	r.metrics.observe(w, results, all)
	wait, err = r.reportOperator(ctx, w, configv1.ClusterOperatorStatus{
		Conditions: conditions, Versions: status.Versions(versionsOf(w.clusterOperator), operands, w.version),
		RelatedObjects: related(r.namespace, r.scope, results),
	})
	return status.MinRequeue(again, wait), err
}

// conditions returns all conditions of this program. For each operand, it also returns whether the operand has reached the release's version. again
// is the delay until the next reconciliation.
func (m *memory) conditions(
	w *seen, choices []choice, results []result,
) (all []operatorv1.OperatorCondition, operands []status.Operand, again time.Duration) {
	all = append(all, managementCondition(w.managementState()), selinuxCondition(w))
	conditions, wait := m.starterConditions(w, choices)
	all, again = append(all, conditions...), status.MinRequeue(again, wait)
	all = append(all, classConditions(w, choices)...)
	for i := range results {
		done := &results[i]
		if done.removal.done {
			delete(m.once, done.entry.Name)
			continue
		}
		conditions, wait := m.conditionsOf(w, done)
		all, again = append(all, conditions...), status.MinRequeue(again, wait)
		if done.thirdParty == "" && (done.decision != unwanted || done.removal.waits) {
			operands = append(operands, status.Operand{Name: done.entry.Operator, Reached: reached(w, done, conditions)})
		}
	}
	if w.platformProblem() != "" {
		// Without a platform, the list of operands may be incomplete.
		operands = append(operands, status.Operand{Reached: false})
	}
	return all, operands, again
}

// storageMissing returns a condition that says whether the Storage is missing. Only the ClusterOperator gets this condition.
func (m *memory) storageMissing(w *seen, now metav1.Time) (operatorv1.OperatorCondition, time.Duration) {
	var err error
	if w.storage == nil {
		err = errors.New( //nolint:staticcheck // It begins with the name of a kind.
			"The Storage object named cluster is missing, so the operator uses the defaults: recreate the object with spec.managementState Managed")
	}
	condition, again := m.failures.Degraded("Storage", err)
	condition.LastTransitionTime = now
	return condition, again
}

// reportStorage writes the Storage's status if the status has changed. It returns the delay until the next reconciliation.
func (r *reporter) reportStorage(ctx context.Context, w *seen, wanted, stale []operatorv1.OperatorCondition) (time.Duration, error) {
	if w.storage == nil {
		return 0, nil
	}
	generations := r.generations(w, r.scope.Entries)
	wait, err := r.storage.Write(ctx, status.Report{
		Target: apply.Target(operatorv1.GroupVersion.WithKind("Storage"), w.storage),
		Have:   ownStatus(w.storage.Status.OperatorStatus, wanted, generations),
		Want:   &operatorv1.OperatorStatus{ObservedGeneration: w.storage.Generation, Conditions: wanted, Generations: generations},
		// The Storage has no operands.
		Without:    []string{"readyReplicas"},
		Conditions: w.storage.Status.Conditions,
		Stale:      func(condition operatorv1.OperatorCondition) bool { return status.Find(stale, condition.Type) != nil },
	})
	if err == nil && wait == 0 {
		r.cleaned = true
		status.LogChanges(ctx, w.storage.Status.Conditions, wanted)
	}
	return wait, err
}
