package sharedvolume

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// OtherOperator is an operator that manages the same objects.
type OtherOperator interface {
	// Running returns the Deployment of the other operator as "namespace/name". It returns an empty string if the operator does not run.
	Running(ctx context.Context) (string, error)
	// HasLeft reports whether the other operator's driver still exists in the namespace of this operator.
	HasLeft(ctx context.Context) (bool, error)
	// Events returns the events of the other operator's Deployment.
	Events(handle handler.EventHandler) source.Source
}

// Others are the operators that conflict with this operator. This operator does nothing while one of them runs. The ClusterCSIDriver controller
// checks the same operators.
type Others struct {
	// Community is the community's operator. Namesake is an operator in another namespace that has the name of this operator: a copy of this operator,
	// or OpenShift's operator.
	Community OtherOperator
	Namesake  Namesake
}

// Namesake is another operator with the name of this operator.
type Namesake interface {
	OtherOperator
	// OlderCopy returns the Deployment of an older copy of this operator as "namespace/name". It returns an empty string if the namesake is no older
	// copy of this operator. An older copy has precedence.
	OlderCopy(ctx context.Context) (string, error)
}

// The reasons of events on SharedVolumes. Such an event says that this operator ignores the SharedVolume.
const (
	eventLeftToCommunity = "LeftToCommunityOperator"
	eventLeftToOther     = "LeftToOtherOperator"
)

// running returns the Deployment of a conflicting operator as "namespace/name", and the reason of the event about it. The Deployment is empty if no
// conflicting operator runs. The reason is empty for a copy of this operator, because the copy serves SharedVolumes itself.
func (o Others) running(ctx context.Context) (deployment, reason string, err error) {
	if deployment, err = o.Community.Running(ctx); err != nil || deployment != "" {
		return deployment, eventLeftToCommunity, err
	}
	if deployment, err = o.Namesake.OlderCopy(ctx); err != nil || deployment != "" {
		return deployment, "", err
	}
	deployment, err = o.Namesake.Running(ctx)
	return deployment, eventLeftToOther, err
}
