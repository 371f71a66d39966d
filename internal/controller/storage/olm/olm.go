// Package olm removes the operators of drivers that the Operator Lifecycle Manager installed in OpenShift 4.5. Their drivers go on running.
//
// The order is what keeps a driver. Without its Subscription, OLM installs nothing anew. Without its ClusterServiceVersion, the operator
// ends. Only after its last pod the finalizer goes by which it would remove the driver. The configuration is the last to go. Without
// one, nothing is deleted: only an administrator of the cluster can make it, and anybody can make the rest.
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

// Nothing wakes this package up. After a look that has found something it looks again after firstPause, and after twice as long each time
// that nothing has changed, but after longestPause at the latest.
const (
	firstPause   = time.Second
	longestPause = 2 * time.Minute
)

// Operators removes operators that OLM installed. It is not safe for use by several goroutines.
type Operators struct {
	// Writer changes the cluster, Live reads from it.
	Writer client.Writer
	Live   client.Reader
	// Create makes a ClusterCSIDriver that is missing, with this spec.
	Create func(ctx context.Context, name string, spec map[string]any) error
	Now    func() time.Time

	// removed are the entries for which nothing is left.
	removed map[string]bool
	// removals are under way, by the names of their entries.
	removals map[string]*removal
}

// State is how far the operator of one entry is removed.
type State struct {
	// Done means that nothing is in the way of the entry.
	Done bool
	// Message says what is waited for; empty if nothing is.
	Message string
	// Again is when to come once more although no event may come.
	Again time.Duration
}

// removal is what is remembered of a removal between two looks.
type removal struct {
	// last is what the last look found, pause how long the next one waits, and due when it is.
	last  State
	pause time.Duration
	due   time.Time
	// podsIn are the namespaces in which the operator had pods when its Deployment had gone; nil until then.
	podsIn map[string]bool
}

// Remove brings the operator of an entry one step nearer to its end. Until it is done, nothing of the entry may be applied. An entry
// that OLM has never installed is done, and so is one that was found to be done before: both cost nothing.
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
		// Events of other objects come at any time, and each look is many requests.
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

// wait says when to look again, after a look that has found something.
func (k *removal) wait(found *State, now time.Time) {
	if found.Message == k.last.Message {
		k.pause = min(2*k.pause, longestPause)
	} else {
		k.pause = firstPause
	}
	found.Again = k.pause
	k.last, k.due = *found, now.Add(k.pause)
}

// step finds, decides and acts once.
func (o *Operators) step(ctx context.Context, entry catalogue.Entry, known *removal) (State, error) {
	found, err := o.find(ctx, *entry.Predecessor, known)
	if err != nil {
		return State{}, err
	}
	if found.configuration == nil {
		err := o.bindRole(ctx, entry)
		return State{Done: err == nil}, err
	}
	if err := o.keepSettings(ctx, entry.Name, found.configuration); err != nil {
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
	return State{Message: fmt.Sprintf("the operator of %s that OLM installed is replaced: %s", entry.Title, decided.message)}, nil
}

// decision is what to do about what is left of an operator.
type decision struct {
	// delete are the objects to delete. Last means that it is the configuration's turn.
	delete []client.Object
	last   bool
	// message says what is waited for.
	message string
}

// next decides what to do. Of an operator that has a configuration, the first part that is there comes first.
func next(found installed) decision {
	switch {
	case len(found.subscriptions) > 0:
		return decision{delete: found.subscriptions, message: "removing " + namesOf(found.subscriptions)}
	case len(found.versions) > 0:
		return decision{delete: found.versions, message: "removing " + namesOf(found.versions)}
	case len(found.deployments) > 0:
		first := client.ObjectKeyFromObject(found.deployments[0])
		return decision{message: fmt.Sprintf("waiting until OLM has removed %s; if that lasts: oc delete deployment %s -n %s",
			namesOf(found.deployments), first.Name, first.Namespace)}
	case len(found.pods) > 0:
		first := client.ObjectKeyFromObject(found.pods[0])
		return decision{message: fmt.Sprintf("waiting for the end of %s; if that lasts: oc delete pod %s -n %s",
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
