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

// vCenters joins the trip, the checks and the storage policy with what asks the vCenters. It is the trip's derived.Cloud and derived.CloudResources.
type vCenters struct {
	poller *vsphere.Poller
	keeper *policy.Keeper
	health *vspherehealth.Reconciler
	// found is what the checks have found.
	found func() driver.CloudFacts
	// trip and checks have an event when something is new for them.
	trip, checks chan event.GenericEvent

	mutex  sync.Mutex
	config cloudconfig.Config
	// keeps says that the storage policy is to be kept, removes that it is to be removed. Without either, nothing is changed in a vCenter.
	keeps, removes bool
	// allowed means that the checks have allowed the policy once since it was to be removed.
	allowed bool
}

// addVCenters makes the operator of the vSphere driver ask the vCenters, check them, and keep the storage policy.
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
	made.keeper = &policy.Keeper{Tell: made.emit(controller), Wake: func() { signal(made.trip) }, Now: time.Now}
	made.poller = &vsphere.Poller{
		Source: made.source(controller), Want: made.health.Want, After: made.act, Now: time.Now,
		Wake: func() { signal(made.checks); signal(made.trip) },
	}
	return made
}

// signal says that there is something new. One event is as good as many.
func signal(to chan event.GenericEvent) {
	select {
	case to <- event.GenericEvent{}:
	default:
	}
}

// source reads the configuration from the cache, and the Secret and the CA certificates live: the cache has hashes of them.
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

// parsed is the configuration as it was parsed last.
func (v *vCenters) parsed() cloudconfig.Config {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.config
}

// evaluated tells the trip, and lets the policy be made where it waits for the checks: at once where they allow it for the first time.
func (v *vCenters) evaluated() {
	signal(v.trip)
	v.mutex.Lock()
	first := !v.allowed && v.mayAct()
	v.allowed = v.allowed || first
	v.mutex.Unlock()
	if first {
		v.poller.AtOnce()
		return
	}
	v.poller.Again()
}

// mayAct tells whether the checks have passed as far as the policy needs it.
func (v *vCenters) mayAct() bool {
	facts := v.found()
	return facts.Known && facts.Refused == ""
}

// act makes, keeps or removes the storage policy. It makes none before the checks have passed, or where they refuse the driver.
func (v *vCenters) act(ctx context.Context, seen vsphere.Snapshot, want vsphere.Want, writers map[string]vsphere.Writer) (again bool) {
	v.mutex.Lock()
	keeps, removes := v.keeps, v.removes
	v.mutex.Unlock()
	if !removes && (!keeps || !v.mayAct()) {
		return false
	}
	return v.keeper.Sync(ctx, seen, want, writers)
}

// emit records an event for what was done in a vCenter.
func (v *vCenters) emit(controller *clustercsidriver.Reconciler) func(policy.Deed) {
	return func(deed policy.Deed) {
		cr := &operatorv1.ClusterCSIDriver{}
		if err := controller.Client.Get(context.Background(), client.ObjectKey{Name: controller.Driver.Name}, cr); err == nil {
			message := status.Clip(deed.Message)
			v.health.Recorder.Eventf(cr, nil, corev1.EventTypeNormal, deed.Reason, "KeepStoragePolicy", "%s", message)
		}
	}
}

// Facts are what the checks have found, and the name of the policy once it is there.
func (v *vCenters) Facts() driver.CloudFacts {
	facts := v.found()
	if state := v.keeper.State(); state.Ready {
		facts.StoragePolicy = state.Name
	}
	return facts
}

// Trouble says why a vCenter does not answer, or else what is wrong with the storage policy.
func (v *vCenters) Failure() derived.CloudFailure {
	for _, one := range v.poller.Snapshot().VCenters {
		if one.Err != nil {
			return derived.CloudFailure{Reason: string(one.Err.Reason), Message: one.Err.Error(), Since: one.FailingSince}
		}
	}
	state := v.keeper.State()
	if !v.isKeeping() || state.Ready || state.Reason == "" {
		// Of a policy that is left alone, nobody knows whether what was wrong still is.
		return derived.CloudFailure{}
	}
	return derived.CloudFailure{Reason: state.Reason, Message: state.Message, Since: state.Since}
}

// Follow says which configuration and credentials there are.
func (v *vCenters) Follow(hash string) { v.poller.Follow(hash) }

// Changed has an event whenever Facts or Trouble say something else.
func (v *vCenters) Changed() <-chan event.GenericEvent { return v.trip }

// Manage lets the keeper make and keep the storage policy, or change nothing in the vCenters.
func (v *vCenters) Manage(keep bool) { v.intend(keep, false) }

// Undo removes the storage policy, and says what is left of it.
func (v *vCenters) Undo() (left string) {
	v.intend(false, true)
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

// intend asks the vCenters if that is news: somebody waits for what is made or removed.
func (v *vCenters) intend(keeps, removes bool) {
	v.mutex.Lock()
	changed := v.keeps != keeps || v.removes != removes
	v.keeps, v.removes = keeps, removes
	v.allowed = v.allowed && !removes
	v.mutex.Unlock()
	if v.keeper.SetRemoved(removes) || changed {
		v.poller.AtOnce()
	}
}

func (v *vCenters) isKeeping() bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.keeps
}

// checked is what the checks know of the vCenters.
type checked struct{ of *vCenters }

// Snapshot is the last answer.
func (c checked) Snapshot() vsphere.Snapshot { return c.of.poller.Snapshot() }

// Changed has an event whenever Snapshot says something else.
func (c checked) Changed() <-chan event.GenericEvent { return c.of.checks }

// Again makes the vCenters be asked soon.
func (c checked) Again() { c.of.poller.Again() }
