package migration

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// YieldsAnnotation on the pod template of a Deployment, with value "true", says that this operator yields to an older copy. OpenShift's operator of
// the same name lacks the annotation, and so never yields. The annotation needs no protection, because a user who can write it could also replace the
// operator's program.
const YieldsAnnotation = "operator.openshift.io/yields-to-older-copy"

// yields reports whether a Deployment is a copy of this operator, and not OpenShift's operator of the same name.
func yields(deployment *appsv1.Deployment) bool {
	return deployment.Spec.Template.Annotations[YieldsAnnotation] == "true"
}

// isYounger reports whether a Deployment is a copy that yields to this operator. An operator without a Deployment has no younger copy.
func (p *Predecessor) isYounger(all []appsv1.Deployment, deployment *appsv1.Deployment) bool {
	own := slices.IndexFunc(all, func(one appsv1.Deployment) bool { return one.Namespace == p.Namespace && one.Name == p.Driver.Operator })
	return own >= 0 && deployment.Namespace != p.Namespace && yields(deployment) && comesBefore(&all[own], deployment)
}

// younger lists the namespaces of the copies that yield to this operator.
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

// comesBefore reports whether copy a is older than copy b. Creation times are in whole seconds. If the copies have the same creation time, the order
// of their namespaces decides.
func comesBefore(a, b *appsv1.Deployment) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Namespace < b.Namespace
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// OlderCopy names the Deployment of a running older copy of this operator as "namespace/name". It returns an empty string if no such copy runs.
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

// OlderCopy finds the Deployment of a running older copy of this operator. It returns nil if no such copy runs.
func (m *Migration) OlderCopy(ctx context.Context) (*appsv1.Deployment, error) {
	for _, predecessor := range m.Predecessors {
		if found, err := predecessor.olderCopy(ctx); err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}
