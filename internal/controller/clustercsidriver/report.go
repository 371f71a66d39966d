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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/status"
)

// messageInterval bounds how often a status is written in which nothing but texts and numbers has changed. A roll-out
// over many nodes would otherwise cost a write for each node.
const messageInterval = 5 * time.Second

// reporter writes the status of the ClusterCSIDriver.
type reporter struct {
	*Reconciler
	written time.Time
}

// report computes the status and writes it if it differs. It returns when to look again.
func (r *reporter) report(ctx context.Context, cr *operatorv1.ClusterCSIDriver, result outcome) (time.Duration, error) {
	live, err := r.liveWorkloads(ctx)
	if err != nil {
		return 0, err
	}
	wanted, again := r.status(cr, result, live)
	wanted.Conditions = status.Merge(cr.Status.Conditions, wanted.Conditions, metav1.NewTime(r.Now()).Rfc3339Copy())
	have := r.own(cr.Status.OperatorStatus)
	if sameStatus(have, wanted) {
		return again, nil
	}
	if wait := messageInterval - r.Now().Sub(r.written); wait > 0 && sameVerdict(have, wanted) {
		return soonest(again, wait), nil
	}
	r.written = r.Now()
	return again, r.write(ctx, cr, wanted)
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
	case available.Status == operatorv1.ConditionTrue && progressing.Status == operatorv1.ConditionFalse:
		// A version is reported only when all operands have it.
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
func leftOut(kinds map[schema.GroupKind]bool) string {
	var missing []string
	for kind := range OptionalKinds() {
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
