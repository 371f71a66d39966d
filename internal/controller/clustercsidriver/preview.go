package clustercsidriver

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
)

// Preview returns what a reconcile would do, and changes nothing. It does not use the fields Secrets, Events and Process.
func (r *Reconciler) Preview(ctx context.Context) (migration.Plan, error) {
	if err := r.prepareApplier(); err != nil {
		return migration.Plan{}, err
	}
	cr := &operatorv1.ClusterCSIDriver{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Driver.Name}, cr)
	switch {
	case apierrors.IsNotFound(err):
		cr.Spec.ManagementState = operatorv1.Managed
	case err != nil:
		return migration.Plan{}, fmt.Errorf("read ClusterCSIDriver %s: %w", r.Driver.Name, err)
	}
	live, err := r.readLive(ctx)
	if err != nil {
		return migration.Plan{}, err
	}
	state, err := r.Migration.Preview(ctx, cr, live.daemonSet)
	if err != nil {
		return migration.Plan{}, err
	}
	cfg, problems, err := r.config(ctx, cr, live, state)
	if err != nil {
		return migration.Plan{}, err
	}
	// Assume that the inputs of pods are unchanged, because a preview does not read their Secrets.
	cfg.DependencyHashes = live.inputsOf()
	objects, err := r.Driver.Render(r.Client.Scheme(), cfg)
	if err != nil {
		return migration.Plan{}, fmt.Errorf("compute the objects to apply: %w", err)
	}
	plan, err := r.Migration.Plan(ctx, state, r.due(objects, cfg, nil))
	plan.Problems = problems
	return plan, err
}
