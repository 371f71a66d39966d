package clustercsidriver

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/status"
)

// cloudService is the condition of the cloud's answers, to be read with Driver.ConditionPrefix in front. It ends in Degraded.
const cloudService = "DriverCloud"

// Cloud asks a cloud outside of the trip, on a schedule. The trip reads the last answer, and nothing waits for it.
type Cloud interface {
	// Facts are the last answer. They stay as they are while the cloud does not answer.
	Facts() driver.CloudFacts
	// Trouble says why the cloud does not answer; zero if it does.
	Trouble() CloudTrouble
	// Follow says by a hash which credentials there are; empty if there are none. Another hash makes the cloud be asked at once.
	Follow(hash string)
	// Changed has an event whenever Facts or Trouble say something else.
	Changed() <-chan event.GenericEvent
}

// CloudTrouble is why a cloud does not answer.
type CloudTrouble struct {
	// Reason is one word, Message a sentence that stays the same while the trouble lasts, Since when it began.
	Reason, Message string
	Since           time.Time
}

// cloudFacts reads the last answer of the cloud, and says with which credentials to ask for the next one. Both are in the cache.
func (r *Reconciler) cloudFacts(ctx context.Context, live live) (driver.CloudFacts, error) {
	if r.Cloud == nil {
		return driver.CloudFacts{}, nil
	}
	hash := live.secrets[r.Driver.Cloud.Secret].hash
	for _, other := range []client.ObjectKey{r.Driver.Cloud.CA, r.Driver.Cloud.Config} {
		if hash == "" || other.Name == "" {
			continue
		}
		config := &corev1.ConfigMap{}
		if err := r.Client.Get(ctx, other, config); client.IgnoreNotFound(err) != nil {
			return driver.CloudFacts{}, fmt.Errorf("read ConfigMap %s: %w", other, err)
		}
		hash = apply.Digest(fmt.Sprintf("%s %q", hash, fmt.Sprint(config.Data)))
	}
	r.Cloud.Follow(hash)
	return r.Cloud.Facts(), nil
}

// cloudTrouble says why the cloud does not answer.
func (r *Reconciler) cloudTrouble() CloudTrouble {
	if r.Cloud == nil {
		return CloudTrouble{}
	}
	return r.Cloud.Trouble()
}

// cloudCondition says whether the cloud answers, and when to look again. Trouble degrades once it has lasted for a while: the driver goes on
// with what is known.
func (c conditioner) cloudCondition(trouble CloudTrouble) (operatorv1.OperatorCondition, time.Duration) {
	kind := c.driver.ConditionPrefix + cloudService + status.Degraded
	if trouble.Reason == "" {
		return status.Condition(kind, false, "", ""), 0
	}
	remaining := status.FailureWindow - c.failures.Now().Sub(trouble.Since)
	if remaining > 0 {
		return status.Condition(kind, false, "Retrying", trouble.Message), remaining
	}
	return status.Condition(kind, true, trouble.Reason, trouble.Message), 0
}

// offers is what a cloud has offered so far. What the first answer has is no news, as the operator may only have been restarted.
type offers struct {
	known bool
	types []string
}

// emitOffers reports share types that have come or gone.
func (r *reporter) emitOffers(cr *operatorv1.ClusterCSIDriver, facts driver.CloudFacts) {
	if !facts.Known || facts.NoService {
		return
	}
	if r.offered.known {
		r.sayTypes(cr, eventTypeAppeared, "the cloud offers share types that it did not offer before: ", newIn(r.offered.types, facts.ShareTypes))
		r.sayTypes(cr, eventTypeGone, "the cloud does not offer these share types any more: ", newIn(facts.ShareTypes, r.offered.types))
	}
	r.offered = offers{known: true, types: facts.ShareTypes}
}

func (r *reporter) sayTypes(cr *operatorv1.ClusterCSIDriver, reason, note string, types []string) {
	if len(types) > 0 {
		r.say(cr, corev1.EventTypeNormal, reason, note+status.Shorten(types))
	}
}

// newIn are those of some that are not among others.
func newIn(others, some []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(one string) bool { return slices.Contains(others, one) })
}
