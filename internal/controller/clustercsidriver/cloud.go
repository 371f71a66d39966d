package clustercsidriver

import (
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// cloudService is the condition of the cloud's answers, to be read with Driver.ConditionPrefix in front. It ends in Degraded.
const cloudService = "DriverCloud"

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
