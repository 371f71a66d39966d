package clustercsidriver

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/status"
)

// workloads are what is live of the driver; nil means absent.
type workloads struct {
	deployment *appsv1.Deployment
	daemonSet  *appsv1.DaemonSet
	// former means that some of these are a predecessor's, who is not taken over yet.
	former bool
	// unready are the pods that are not ready, with the reason.
	unready  map[driver.Workload][]string
	requests map[string]*cloudcredentialv1.CredentialsRequest
	// secrets are the Secrets that exist, by name.
	secrets map[string]foundSecret
}

func (r *reporter) liveWorkloads(ctx context.Context) (workloads, error) {
	live := workloads{
		unready:  map[driver.Workload][]string{},
		requests: map[string]*cloudcredentialv1.CredentialsRequest{},
		secrets:  map[string]foundSecret{},
	}
	deployment, daemonSet, err := r.newestWorkloads(ctx)
	if err != nil {
		return live, err
	}
	live.deployment, live.daemonSet = deployment, daemonSet
	for workload, app := range map[driver.Workload]string{driver.Controller: r.Driver.Deployment, driver.Node: r.Driver.DaemonSet} {
		pods := &corev1.PodList{}
		if err := r.Client.List(ctx, pods, client.InNamespace(r.Namespace), client.MatchingLabels{"app": app}); err != nil {
			return live, fmt.Errorf("list %s pods: %w", workload, err)
		}
		live.unready[workload] = status.Unready(pods.Items)
	}
	for _, credentials := range r.Driver.Credentials {
		found, err := r.secret(ctx, credentials.Secret)
		if err != nil {
			return live, err
		}
		if found.hash != "" {
			live.secrets[credentials.Secret] = found
		}
	}
	if !r.Kinds[driver.CredentialsRequestKind()] {
		return live, nil
	}
	requests := &cloudcredentialv1.CredentialsRequestList{}
	if err := r.Client.List(ctx, requests); err != nil {
		return live, fmt.Errorf("list CredentialsRequests: %w", err)
	}
	for i := range requests.Items {
		live.requests[requests.Items[i].Name] = &requests.Items[i]
	}
	return live, nil
}

// addFormer fills in workloads that wait and that the cache does not show because an operator before this one has made them: they go on
// serving meanwhile. It is looked for in drivers of the payload, which may be there before their operator is.
func (r *reporter) addFormer(ctx context.Context, cr *operatorv1.ClusterCSIDriver, waits held, live *workloads) error {
	if r.Driver.Removable {
		return r.addUnmanaged(ctx, cr, live)
	}
	deployment, daemonSet := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	for _, former := range []struct {
		workload driver.Workload
		name     string
		object   client.Object
		known    bool
		found    func()
	}{
		{driver.Controller, r.Driver.Deployment, deployment, live.deployment != nil, func() { live.deployment = deployment }},
		{driver.Node, r.Driver.DaemonSet, daemonSet, live.daemonSet != nil, func() { live.daemonSet = daemonSet }},
	} {
		if waits[former.workload] == "" || former.known {
			continue
		}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: former.name}, former.object)
		switch {
		case err == nil:
			former.found()
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("look for %s of an older operator: %w", former.name, err)
		}
	}
	return nil
}

// addUnmanaged fills in what a predecessor runs in our namespace while nothing is touched.
func (r *reporter) addUnmanaged(ctx context.Context, cr *operatorv1.ClusterCSIDriver, live *workloads) error {
	if cr.Spec.ManagementState != operatorv1.Unmanaged {
		return nil
	}
	if live.daemonSet == nil {
		for _, predecessor := range r.Predecessors {
			if err := r.addPredecessorsNodes(ctx, predecessor, live); err != nil {
				return err
			}
		}
	}
	if live.deployment != nil {
		return nil
	}
	succeeds, err := r.succeeds(ctx, cr)
	if err != nil || !succeeds {
		return err
	}
	deployment := &appsv1.Deployment{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.Deployment}, deployment)
	switch {
	case err == nil:
		live.deployment, live.former = deployment, true
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("look for Deployment %s of a predecessor: %w", r.Driver.Deployment, err)
	}
	return nil
}

// addPredecessorsNodes fills in the DaemonSet of a predecessor, with its pods.
func (r *reporter) addPredecessorsNodes(ctx context.Context, predecessor *Predecessor, live *workloads) error {
	daemonSets, err := predecessor.daemonSets(ctx)
	if err != nil {
		return err
	}
	for i := range daemonSets {
		if daemonSets[i].Namespace != r.Namespace {
			continue
		}
		pods := &corev1.PodList{}
		if err := r.Client.List(ctx, pods, client.InNamespace(r.Namespace), client.MatchingLabels{"app": predecessor.DaemonSet}); err != nil {
			return fmt.Errorf("list node pods of %s: %w", predecessor.Title, err)
		}
		live.daemonSet, live.former = &daemonSets[i], true
		live.unready[driver.Node] = status.Unready(pods.Items)
	}
	return nil
}

// newestWorkloads are the two workloads, nil if absent: the newest, because a cache that lags behind our own apply would
// call a roll-out complete that has not begun.
func (r *Reconciler) newestWorkloads(ctx context.Context) (*appsv1.Deployment, *appsv1.DaemonSet, error) {
	deployment, daemonSet := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	deployment.Namespace, deployment.Name = r.Namespace, r.Driver.Deployment
	daemonSet.Namespace, daemonSet.Name = r.Namespace, r.Driver.DaemonSet
	found, err := r.applier.Newest(ctx, deployment)
	if err != nil {
		return nil, nil, fmt.Errorf("read Deployment %s: %w", r.Driver.Deployment, err)
	}
	if !found {
		deployment = nil
	}
	found, err = r.applier.Newest(ctx, daemonSet)
	if err != nil {
		return nil, nil, fmt.Errorf("read DaemonSet %s: %w", r.Driver.DaemonSet, err)
	}
	if !found {
		daemonSet = nil
	}
	return deployment, daemonSet, nil
}
