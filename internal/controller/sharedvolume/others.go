package sharedvolume

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// OtherOperator is one that works on the same objects.
type OtherOperator interface {
	// Running names its Deployment, "namespace/name"; empty if it does not run.
	Running(ctx context.Context) (string, error)
	// HasLeft reports whether its driver is there still, in the namespace of this operator.
	HasLeft(ctx context.Context) (bool, error)
	// Events are those of its Deployment.
	Events(handle handler.EventHandler) source.Source
}

// Others are the operators beside which nothing is done: they would undo each other's work. The trip of the ClusterCSIDriver asks for
// the same ones.
type Others struct {
	// Community is the community's operator. Namesake has the name of this one, in another namespace: a copy of it, or OpenShift's.
	Community OtherOperator
	Namesake  Namesake
}

// Namesake is an operator of the name of this one.
type Namesake interface {
	OtherOperator
	// OlderCopy names its Deployment, "namespace/name", if it is a copy of this operator that works in its place; else it is empty.
	OlderCopy(ctx context.Context) (string, error)
}

// The reasons of the events on SharedVolumes that are left alone.
const (
	eventLeftToCommunity = "LeftToCommunityOperator"
	eventLeftToOther     = "LeftToOtherOperator"
)

// running names the Deployment of one that runs, "namespace/name", and the reason of the event that says so; empty if none does. Of a
// copy that serves SharedVolumes there is no event: nothing is left undone.
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
