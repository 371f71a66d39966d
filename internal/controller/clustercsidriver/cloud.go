package clustercsidriver

import (
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// cloudService is the part of a condition type between Driver.ConditionPrefix and Degraded. The condition says whether requests to the cloud fail.
const cloudService = "DriverCloud"

// offers has the share types in the cloud's last answer. The first answer after a start causes no event, because the operator can't tell whether
// these share types are new.
type offers struct {
	known bool
	types []string
}

// emitOffers emits events for share types that the cloud has added or removed.
func (r *reporter) emitOffers(cr *operatorv1.ClusterCSIDriver, facts driver.CloudFacts) {
	if !facts.Known || facts.NoService {
		return
	}
	if r.offered.known {
		r.recordTypes(cr, eventTypeAppeared, "the cloud offers new share types: ", newIn(r.offered.types, facts.ShareTypes))
		r.recordTypes(cr, eventTypeGone, "the cloud no longer offers share types: ", newIn(facts.ShareTypes, r.offered.types))
	}
	r.offered = offers{known: true, types: facts.ShareTypes}
}

func (r *reporter) recordTypes(cr *operatorv1.ClusterCSIDriver, reason, note string, types []string) {
	if len(types) > 0 {
		r.record(cr, corev1.EventTypeNormal, reason, note+status.Shorten(types))
	}
}

// newIn returns the elements of list "some" that list "others" lacks.
func newIn(others, some []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(one string) bool { return slices.Contains(others, one) })
}
