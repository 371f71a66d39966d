package migration

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// YieldsAnnotation on the pod template of an operator's Deployment, with the value "true", says that the operator leaves the work to a
// copy that was installed before it. OpenShift's operator, which has the same name, has no such annotation and yields to nobody. Whoever can
// write it can replace the operator's program as well.
const YieldsAnnotation = "operator.openshift.io/yields-to-older-copy"

// yields reports whether a Deployment is a copy of this operator, and not one of the same name that works whatever runs beside it.
func yields(deployment *appsv1.Deployment) bool {
	return deployment.Spec.Template.Annotations[YieldsAnnotation] == "true"
}

// isYounger reports whether a Deployment is a copy of this operator that leaves the work to this one. An operator that runs without a
// Deployment has no copy that is younger.
func (p *Predecessor) isYounger(all []appsv1.Deployment, deployment *appsv1.Deployment) bool {
	own := slices.IndexFunc(all, func(one appsv1.Deployment) bool { return one.Namespace == p.Namespace && one.Name == p.Driver.Operator })
	return own >= 0 && deployment.Namespace != p.Namespace && yields(deployment) && comesBefore(&all[own], deployment)
}

// younger are the namespaces of copies of this operator that leave the work to this one.
func (p *Predecessor) younger(ctx context.Context) ([]string, error) {
	all, err := p.deployments(ctx)
	var found []string
	for i := range all {
		if all[i].Name == p.Operator && p.isYounger(all, &all[i]) {
			found = append(found, all[i].Namespace)
		}
	}
	return found, err
}

// comesBefore orders copies by their creation. Times are in whole seconds: of two that are as old, the namespace decides.
func comesBefore(a, b *appsv1.Deployment) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Namespace < b.Namespace
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// OlderCopy names the Deployment "namespace/name" of a copy of this operator that was installed before it, and works; empty if there is none.
func (p *Predecessor) OlderCopy(ctx context.Context) (string, error) {
	found, err := p.olderCopy(ctx)
	if found == nil {
		return "", err
	}
	return found.Namespace + "/" + found.Name, nil
}

func (p *Predecessor) olderCopy(ctx context.Context) (*appsv1.Deployment, error) {
	if p.Operator != p.Driver.Operator {
		return nil, nil
	}
	running, err := p.running(ctx)
	if err != nil || running == nil || !yields(running) {
		return nil, err
	}
	return running, nil
}

// OlderCopy finds the Deployment of a copy of this operator that was installed before it, and works; nil if there is none.
func (m *Migration) OlderCopy(ctx context.Context) (*appsv1.Deployment, error) {
	for _, predecessor := range m.Predecessors {
		if found, err := predecessor.olderCopy(ctx); err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}
