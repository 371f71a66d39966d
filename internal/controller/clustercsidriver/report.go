package clustercsidriver

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/status"
)

const (
	// messageInterval bounds how often a status is written in which nothing but texts and numbers has changed. A roll-out
	// over many nodes would otherwise cost a write for each node.
	messageInterval = 5 * time.Second
	// verdictInterval bounds how often any status is written: what changes within it is written at once.
	verdictInterval = time.Second
)

// reporter writes the status of the ClusterCSIDriver.
type reporter struct {
	*Reconciler
	written time.Time
	// done is what was changed since the last event.
	done apply.ChangeSet
}

// report computes the status and writes it if it differs. It returns when to look again.
func (r *reporter) report(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result outcome) (time.Duration, error) {
	live, err := r.liveWorkloads(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.addFormer(ctx, cr, result.held, &live); err != nil {
		return 0, err
	}
	wanted, again := r.status(cr, result, live)
	have := r.own(cr.Status.OperatorStatus)
	stale := slices.ContainsFunc(cr.Status.Conditions, r.isStale)
	if result.sharesStatus {
		// An older operator writes all the others as well. Two would write in turns for ever.
		wanted.Conditions, have.Conditions = sums(wanted.Conditions), sums(have.Conditions)
		wanted.Generations, have.Generations, stale = nil, nil, false
	}
	wanted.Conditions = status.Merge(cr.Status.Conditions, wanted.Conditions, metav1.NewTime(r.Now()).Rfc3339Copy())
	r.observe(wanted.Conditions, result, live)
	r.done = append(r.done, result.changes.With(apply.Created, apply.Configured, apply.Deleted)...)
	if sameStatus(have, wanted) && !stale {
		r.tellDone(cr, have.Conditions, wanted.Conditions)
		return again, nil
	}
	interval := verdictInterval
	switch {
	case sameVerdict(have, wanted):
		interval = messageInterval
	case result.removing:
		// The next operator must know that the removal has begun, should this one be killed.
		interval = 0
	}
	if wait := interval - r.Now().Sub(r.written); wait > 0 {
		return status.Soonest(again, wait), nil
	}
	if stale {
		if err := r.dropStale(ctx, cr); err != nil {
			return again, err
		}
	}
	if err := r.write(ctx, cr, wanted); err != nil {
		return again, err
	}
	r.written = r.Now()
	r.tellDone(cr, have.Conditions, wanted.Conditions)
	return again, nil
}

// sums are the conditions that sum up all others. No older operator has them.
func sums(conditions []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(condition operatorv1.OperatorCondition) bool {
		return !slices.Contains([]string{status.Available, status.Progressing, status.Degraded, status.Upgradeable}, condition.Type)
	})
}

// tellDone records events and forgets what they have told.
func (r *reporter) tellDone(cr *operatorv1.ClusterCSIDriver, before, after []operatorv1.OperatorCondition) {
	r.tell(cr, before, after, r.done)
	r.done = nil
}

func (r *reporter) isStale(condition operatorv1.OperatorCondition) bool {
	return slices.Contains(r.Driver.LegacyConditions, condition.Type)
}

// dropStale removes conditions that older operators have left: nobody would ever update them.
func (r *reporter) dropStale(ctx context.Context, cr *operatorv1.ClusterCSIDriver) error {
	encoded, err := status.DropPatch(cr.Status.Conditions, r.isStale)
	if err != nil || encoded == nil {
		return err
	}
	target := patchOf(cr)
	err = r.Client.Status().Patch(ctx, target, client.RawPatch(types.JSONPatchType, encoded))
	if err != nil {
		return fmt.Errorf("drop conditions of older operators: %w", err)
	}
	return r.adopt(cr, target)
}

// status is the whole status that the operator owns.
func (r *reporter) status(cr *operatorv1.ClusterCSIDriver, result outcome, live workloads) (operatorv1.OperatorStatus, time.Duration) {
	conditions, stable, again := r.conditions(cr, result, live)
	wanted := operatorv1.OperatorStatus{
		ObservedGeneration: cr.Generation,
		Conditions:         conditions,
		Version:            cr.Status.Version,
	}
	if live.deployment != nil {
		wanted.ReadyReplicas = live.deployment.Status.ReadyReplicas
	}
	if stable > 0 {
		wanted.Generations = []operatorv1.GenerationStatus{{
			Group: "apps", Resource: "daemonsets", Namespace: r.Namespace, Name: r.Driver.DaemonSet,
			LastGeneration: stable, Hash: string(live.daemonSet.UID),
		}}
	}
	available := status.Find(conditions, status.Available)
	progressing := status.Find(conditions, status.Progressing)
	switch {
	case result.removed:
		wanted.Version = ""
	case result.applied() && available.Status == operatorv1.ConditionTrue && progressing.Status == operatorv1.ConditionFalse:
		// A version is reported only when all operands have it. What could not be applied, or is not ours to apply, may have an older one.
		wanted.Version = r.Version
	}
	return wanted, again
}

func (r *reporter) write(ctx context.Context, cr *operatorv1.ClusterCSIDriver, wanted operatorv1.OperatorStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&wanted)
	if err != nil {
		return fmt.Errorf("convert status: %w", err)
	}
	patch := patchOf(cr)
	patch.Object["status"] = fields
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch),
		client.FieldOwner(r.Driver.Operator), client.ForceOwnership)
	if apierrors.IsNotFound(err) {
		// It has just been deleted.
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	r.applier.Written.Remember(patch)
	return nil
}

// own is the part of a status that this operator writes. Conditions and generations of others, which an older operator
// may have left, are not compared.
func (r *reporter) own(have operatorv1.OperatorStatus) operatorv1.OperatorStatus {
	prefix := r.Driver.ConditionPrefix
	prefixes := []string{
		"", managementState, configObservation, prefix + controlPlaneObjects, prefix + guestObjects,
		prefix + controllerService, prefix + nodeService,
	}
	for _, credentials := range r.Driver.Credentials {
		prefixes = append(prefixes, credentials.Condition)
	}
	own := have
	own.Conditions, own.Generations = nil, nil
	for _, condition := range have.Conditions {
		for _, suffix := range []string{status.Available, status.Progressing, status.Degraded, status.Upgradeable} {
			if slices.Contains(prefixes, strings.TrimSuffix(condition.Type, suffix)) && strings.HasSuffix(condition.Type, suffix) {
				own.Conditions = append(own.Conditions, condition)
			}
		}
	}
	if entry := r.ownGeneration(have.Generations); entry != nil {
		own.Generations = []operatorv1.GenerationStatus{*entry}
	}
	return own
}

// sameStatus compares what the operator owns of the status.
func sameStatus(have, want operatorv1.OperatorStatus) bool {
	return sameVerdict(have, want) && have.ReadyReplicas == want.ReadyReplicas && sameMessages(have.Conditions, want.Conditions)
}

func sameMessages(have, want []operatorv1.OperatorCondition) bool {
	for _, condition := range want {
		if before := status.Find(have, condition.Type); before == nil || before.Message != condition.Message {
			return false
		}
	}
	return true
}

// sameVerdict is true if two statuses differ in nothing but messages and numbers.
func sameVerdict(have, want operatorv1.OperatorStatus) bool {
	if have.ObservedGeneration != want.ObservedGeneration || have.Version != want.Version ||
		len(have.Conditions) != len(want.Conditions) || !sameGenerations(have.Generations, want.Generations) {
		return false
	}
	for _, condition := range want.Conditions {
		before := status.Find(have.Conditions, condition.Type)
		if before == nil || before.Status != condition.Status || before.Reason != condition.Reason {
			return false
		}
	}
	return true
}

func sameGenerations(have, want []operatorv1.GenerationStatus) bool {
	return len(have) == 0 && len(want) == 0 || reflect.DeepEqual(have, want)
}

// leftOut names the optional kinds that the cluster does not serve.
func leftOut(d driver.Driver, kinds map[schema.GroupKind]bool) string {
	var missing []string
	for kind := range OptionalKinds(d) {
		if !kinds[kind] {
			missing = append(missing, kind.String())
		}
	}
	if len(missing) == 0 {
		return ""
	}
	sort.Strings(missing)
	return "This cluster does not serve " + strings.Join(missing, ", ") + ": what needs it is left out. " +
		"Restart the operator when that has changed"
}
