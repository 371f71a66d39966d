package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/policy"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/vspherehealth"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// vCenters connects the ClusterCSIDriver controller, the checks and the storage policy with the vCenter poller. It implements derived.Cloud and
// derived.CloudResources.
type vCenters struct {
	poller *vsphere.Poller
	keeper *policy.Keeper
	health *vspherehealth.Reconciler
	// found returns the facts that the checks of the vCenters have computed for the driver.
	found func() driver.CloudFacts
	// An event in trip triggers a reconcile of the ClusterCSIDriver controller. An event in checks triggers a reconcile of the controller of the checks.
	trip, checks chan event.GenericEvent

	mutex  sync.Mutex
	config cloudconfig.Config
	// keeps means that the operator creates and maintains the storage policy. removes means that the operator removes the storage policy. If both are
	// false, the operator changes nothing in the vCenters.
	keeps, removes bool
	// allowed means that the checks have passed at least once since the last removal of the storage policy.
	allowed bool
}

// addVCenters adds the vCenter poller, the checks, and the storage policy.
func addVCenters(mgr ctrl.Manager, controller *clustercsidriver.Reconciler) error {
	counts, err := vsphere.NewMetrics(metrics.Registry, controller.Driver.Name)
	if err != nil {
		return fmt.Errorf("register metrics of the vCenters: %w", err)
	}
	made := newVCenters(controller)
	made.poller.Log, made.poller.Metrics = mgr.GetLogger().WithName("vcenters"), counts
	made.health.Recorder = mgr.GetEventRecorder(controller.Driver.Operator)
	if err := made.health.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up the checks of the vCenters: %w", err)
	}
	if err := mgr.Add(made.poller); err != nil {
		return fmt.Errorf("set up the vCenter poller: %w", err)
	}
	controller.Derived.Cloud, controller.Derived.CloudResources = made, made
	return nil
}

func newVCenters(controller *clustercsidriver.Reconciler) *vCenters {
	made := &vCenters{trip: make(chan event.GenericEvent, 1), checks: make(chan event.GenericEvent, 1)}
	made.health = &vspherehealth.Reconciler{
		Client: controller.Client, Driver: controller.Driver, Namespace: controller.Derived.Namespace, Source: checked{made}, Config: made.parsed,
		Wake: made.evaluated, Now: time.Now,
	}
	made.found = made.health.Facts
	made.keeper = &policy.Keeper{Record: made.emit(controller), Wake: func() { signal(made.trip) }, Now: time.Now}
	made.poller = &vsphere.Poller{
		Source: made.source(controller), Want: made.health.Want, After: made.act, Now: time.Now,
		Wake: func() { signal(made.checks); signal(made.trip) },
	}
	return made
}

// signal sends an event. If an event is already pending, it sends none.
func signal(to chan event.GenericEvent) {
	select {
	case to <- event.GenericEvent{}:
	default:
	}
}

// source reads the configuration from the cache. It reads the Secret and the CA certificates from the API server, because the cache has only
// their hashes.
func (v *vCenters) source(controller *clustercsidriver.Reconciler) vsphere.Source {
	return func(ctx context.Context) (cloudconfig.Config, map[string]cloudconfig.Login, []byte, error) {
		asks := controller.Driver.Cloud
		text := &corev1.ConfigMap{}
		if err := controller.Client.Get(ctx, asks.Config, text); err != nil {
			return cloudconfig.Config{}, nil, nil, fmt.Errorf("read ConfigMap %s: %w", asks.Config, err)
		}
		config, err := cloudconfig.Parse([]byte(text.Data[cloudconfig.ConfigKey]))
		if err != nil {
			return config, nil, nil, err
		}
		v.remember(config)
		secret := &corev1.Secret{}
		if err := controller.Live.Get(ctx, client.ObjectKey{Namespace: controller.Derived.Namespace, Name: asks.Secret}, secret); err != nil {
			return config, nil, nil, fmt.Errorf("read Secret %s: %w", asks.Secret, err)
		}
		logins, err := cloudconfig.Logins(config, secret.Data)
		if err != nil {
			return config, nil, nil, err
		}
		roots := &corev1.ConfigMap{}
		if err := controller.Live.Get(ctx, driver.ClusterCABundle(), roots); client.IgnoreNotFound(err) != nil {
			return config, logins, nil, fmt.Errorf("read ConfigMap %s: %w", driver.ClusterCABundle(), err)
		}
		return config, logins, []byte(roots.Data[driver.TrustedCAKey]), nil
	}
}

func (v *vCenters) remember(config cloudconfig.Config) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.config = config
}

func (v *vCenters) parsed() cloudconfig.Config {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.config
}

// evaluated runs after the checks. It wakes the ClusterCSIDriver controller, and requests a poll of the vCenters. After the poll, function act syncs
// the storage policy. If the checks pass for the first time since the last removal of the storage policy, evaluated requests the poll at once.
func (v *vCenters) evaluated() {
	signal(v.trip)
	v.mutex.Lock()
	first := !v.allowed && v.mayAct()
	v.allowed = v.allowed || first
	v.mutex.Unlock()
	if first {
		v.poller.PollNow()
		return
	}
	v.poller.PollSoon()
}

// mayAct reports whether the results of the checks allow changes of the storage policy.
func (v *vCenters) mayAct() bool {
	facts := v.found()
	return facts.Known && facts.Refused == ""
}

// act syncs or removes the storage policy after a poll. It syncs the policy only if the last checks have passed.
func (v *vCenters) act(ctx context.Context, seen vsphere.Snapshot, want vsphere.Want, writers map[string]vsphere.Writer) (again bool) {
	v.mutex.Lock()
	keeps, removes := v.keeps, v.removes
	v.mutex.Unlock()
	if !removes && (!keeps || !v.mayAct()) {
		return false
	}
	return v.keeper.Sync(ctx, seen, want, writers)
}

// emit returns a function that records an event for each change in a vCenter.
func (v *vCenters) emit(controller *clustercsidriver.Reconciler) func(policy.Event) {
	return func(done policy.Event) {
		cr := &operatorv1.ClusterCSIDriver{}
		if err := controller.Client.Get(context.Background(), client.ObjectKey{Name: controller.Driver.Name}, cr); err == nil {
			message := status.Clip(done.Message)
			v.health.Recorder.Eventf(cr, nil, corev1.EventTypeNormal, done.Reason, "KeepStoragePolicy", "%s", message)
		}
	}
}

// Facts returns the facts from the checks. Once the storage policy is ready, the facts also contain the name of the policy.
func (v *vCenters) Facts() driver.CloudFacts {
	facts := v.found()
	if state := v.keeper.State(); state.Ready {
		facts.StoragePolicy = state.Name
	}
	return facts
}

// Failure returns the error of the first vCenter that has an error. If no vCenter has an error, Failure returns the problem of the storage policy.
func (v *vCenters) Failure() derived.CloudFailure {
	for _, one := range v.poller.Snapshot().VCenters {
		if one.Err != nil {
			return derived.CloudFailure{Reason: string(one.Err.Reason), Message: one.Err.Error(), Since: one.FailingSince}
		}
	}
	state := v.keeper.State()
	if !v.isKeeping() || state.Ready || state.Reason == "" {
		// Report no problem if the policy is ready. Also report none if the operator does not maintain the policy, because the known state of the policy
		// can then be stale.
		return derived.CloudFailure{}
	}
	return derived.CloudFailure{Reason: state.Reason, Message: state.Message, Since: state.Since}
}

// SetInputs tells the poller the hash of the configuration and the credentials.
func (v *vCenters) SetInputs(hash string) { v.poller.SetInputs(hash) }

// Changed returns a channel that gets an event after each change in the results of Facts or Failure.
func (v *vCenters) Changed() <-chan event.GenericEvent { return v.trip }

// Manage switches the maintenance of the storage policy on or off.
func (v *vCenters) Manage(keep bool) { v.setIntent(keep, false) }

// Undo requests the removal of the storage policy. Result "left" says what still exists of the policy. It is empty after the removal.
func (v *vCenters) Undo() (left string) {
	v.setIntent(false, true)
	state := v.keeper.State()
	switch {
	case state.Removed:
		return ""
	case state.Waits != "" || state.Message != "":
		return strings.Trim(state.Waits+". "+state.Message, ". ")
	default:
		return "the storage policy, until the vCenters have answered"
	}
}

// setIntent stores whether the operator maintains or removes the storage policy. After a change, setIntent requests a poll at once, because the
// ClusterCSIDriver controller waits for the result.
func (v *vCenters) setIntent(keeps, removes bool) {
	v.mutex.Lock()
	changed := v.keeps != keeps || v.removes != removes
	v.keeps, v.removes = keeps, removes
	v.allowed = v.allowed && !removes
	v.mutex.Unlock()
	if v.keeper.SetRemoved(removes) || changed {
		v.poller.PollNow()
	}
}

func (v *vCenters) isKeeping() bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.keeps
}

// checked implements vspherehealth.Source for the checks.
type checked struct{ of *vCenters }

// Snapshot returns what the poller last read from the vCenters.
func (c checked) Snapshot() vsphere.Snapshot { return c.of.poller.Snapshot() }

// Changed returns a channel that gets an event after each change in the result of Snapshot.
func (c checked) Changed() <-chan event.GenericEvent { return c.of.checks }

// PollSoon requests a poll soon.
func (c checked) PollSoon() { c.of.poller.PollSoon() }
