// Package olm removes operators that the Operator Lifecycle Manager installed in OpenShift 4.5, and keeps their drivers running.
//
// The order protects the driver. The package first deletes the Subscription, so that OLM reinstalls nothing. Then it deletes the
// ClusterServiceVersion, so that the operator stops. After the last pod has ended, the package drops the finalizer by which the operator would remove
// the driver, and deletes the configuration. Without a configuration, the package deletes nothing. Only a cluster administrator can create the
// configuration, but tenants can create all other objects.
package olm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// This package polls. The pause after the first call of step is firstPause. The pause doubles up to longestPause while nothing changes.
const (
	firstPause   = time.Second
	longestPause = 2 * time.Minute
)

// Operators removes operators that OLM installed. It is not safe for concurrent use.
type Operators struct {
	// Writer writes to the cluster. Live reads from the cluster.
	Writer client.Writer
	Live   client.Reader
	// Create creates a ClusterCSIDriver with this name and spec.
	Create func(ctx context.Context, name string, spec map[string]any) error
	Now    func() time.Time

	// removed has the names of the catalogue entries whose predecessor this program has completely removed.
	removed map[string]bool
	// removals has the unfinished removals, by the name of the catalogue entry.
	removals map[string]*removal
}

// State is the progress of one removal.
type State struct {
	// Done is true if the removal is finished, or if there is nothing to remove. The caller can then apply the objects of the catalogue entry.
	Done bool
	// Message says what the removal waits for. It is empty if the removal waits for nothing.
	Message string
	// Again is the delay until the next reconcile if no event comes earlier; 0 means never.
	Again time.Duration
}

// removal is the state of a removal between two calls of step.
type removal struct {
	// last is the result of the last call of step. pause is the delay until the next call. due is the time of the next call.
	last  State
	pause time.Duration
	due   time.Time
	// podsIn has the namespaces in which the predecessor's operator still had pods after its Deployment was deleted. It is nil until the first list of
	// these pods.
	podsIn map[string]bool
}

// Remove takes one step to remove the predecessor of a catalogue entry, if a step is due. Until Remove returns Done, the caller must apply no object
// of the entry. Remove sends no request if the entry has no predecessor, or if the removal is finished.
func (o *Operators) Remove(ctx context.Context, entry catalogue.Entry) (State, error) {
	if entry.Predecessor == nil || o.removed[entry.Name] {
		return State{Done: true}, nil
	}
	if o.removed == nil {
		o.removed, o.removals = map[string]bool{}, map[string]*removal{}
	}
	known := o.removals[entry.Name]
	if known == nil {
		known = &removal{}
		o.removals[entry.Name] = known
	}
	if wait := known.due.Sub(o.Now()); wait > 0 {
		// A step sends many requests, so this program does not repeat the step for events of other objects.
		waits := known.last
		waits.Again = wait
		return waits, nil
	}
	found, err := o.step(ctx, entry, known)
	switch {
	case err != nil:
		return found, err
	case found.Done:
		o.removed[entry.Name] = true
		delete(o.removals, entry.Name)
		return found, nil
	}
	known.wait(&found, o.Now())
	return found, nil
}

// wait sets the time of the next step.
func (k *removal) wait(found *State, now time.Time) {
	if found.Message == k.last.Message {
		k.pause = min(2*k.pause, longestPause)
	} else {
		k.pause = firstPause
	}
	found.Again = k.pause
	k.last, k.due = *found, now.Add(k.pause)
}

// step reads what is left of the predecessor, and deletes the next part. It returns Done if nothing is left.
func (o *Operators) step(ctx context.Context, entry catalogue.Entry, known *removal) (State, error) {
	found, err := o.find(ctx, *entry.Predecessor, known)
	if err != nil {
		return State{}, err
	}
	if found.configuration == nil {
		err := o.bindRole(ctx, entry)
		return State{Done: err == nil}, err
	}
	if err := o.migrateSettings(ctx, entry.Name, found.configuration); err != nil {
		return State{}, err
	}
	decided := next(found)
	if err := o.deleteAll(ctx, decided.delete); err != nil {
		return State{}, err
	}
	if decided.last {
		if err := o.dropConfiguration(ctx, found.configuration); err != nil {
			return State{}, err
		}
	}
	return State{Message: fmt.Sprintf("replacing the operator of %s that OLM installed: %s", entry.Title, decided.message)}, nil
}

// decision is the next step of a removal.
type decision struct {
	// delete has the objects to delete. last is true if only the configuration is left.
	delete []client.Object
	last   bool
	// message says what the removal waits for.
	message string
}

// next decides the next step, which removes the first part that exists.
func next(found installed) decision {
	switch {
	case len(found.subscriptions) > 0:
		return decision{delete: found.subscriptions, message: "removing " + namesOf(found.subscriptions)}
	case len(found.versions) > 0:
		return decision{delete: found.versions, message: "removing " + namesOf(found.versions)}
	case len(found.deployments) > 0:
		first := client.ObjectKeyFromObject(found.deployments[0])
		return decision{message: fmt.Sprintf("waiting for OLM to remove %s; if that takes too long: oc delete deployment %s -n %s",
			namesOf(found.deployments), first.Name, first.Namespace)}
	case len(found.pods) > 0:
		first := client.ObjectKeyFromObject(found.pods[0])
		return decision{message: fmt.Sprintf("waiting for the end of %s; if it does not end: oc delete pod %s -n %s",
			namesOf(found.pods), first.Name, first.Namespace)}
	default:
		return decision{last: true, message: fmt.Sprintf("removing %s %s", found.configuration.GetKind(), openshift.Singleton)}
	}
}

func namesOf(objects []client.Object) string {
	names := make([]string, 0, len(objects))
	for _, object := range objects {
		names = append(names, apply.SubjectOf(object).String())
	}
	slices.Sort(names)
	return status.Shorten(names)
}
