package sharedvolume

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// OtherOperator is an operator that manages the same objects.
type OtherOperator interface {
	// Running returns its Deployment, "namespace/name"; empty if it does not run.
	Running(ctx context.Context) (string, error)
	// HasLeft reports whether its driver still exists in the namespace of this operator.
	HasLeft(ctx context.Context) (bool, error)
	// Events returns the events of its Deployment.
	Events(handle handler.EventHandler) source.Source
}

// Others are the operators that conflict with this one: it does nothing while one of them runs. The ClusterCSIDriver controller checks the same ones.
type Others struct {
	// Community is the community's operator. Namesake is an operator with the name of this one in another namespace: a copy, or OpenShift's.
	Community OtherOperator
	Namesake  Namesake
}

// Namesake is an operator with the name of this one.
type Namesake interface {
	OtherOperator
	// OlderCopy returns its Deployment, "namespace/name", if it is a copy of this operator that was installed earlier and so has precedence.
	OlderCopy(ctx context.Context) (string, error)
}

// The reasons of the events on SharedVolumes that this operator ignores.
const (
	eventLeftToCommunity = "LeftToCommunityOperator"
	eventLeftToOther     = "LeftToOtherOperator"
)

// running returns the Deployment of a conflicting operator, "namespace/name", and the reason of the event for it; empty if none runs. The reason is
// empty for a copy of this operator, which serves SharedVolumes itself.
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
