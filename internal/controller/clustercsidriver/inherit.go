package clustercsidriver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// inherited is what spec.observedConfig keeps of a predecessor: values of settings by their variables. The predecessor's arguments are gone
// with the first apply.
type inherited struct {
	Inherited map[string]string `json:"inheritedSettings,omitempty"`
}

// settings are those of the environment, and what a predecessor has decided where the environment leaves it open.
func (r *Reconciler) settings(cr *operatorv1.ClusterCSIDriver) map[string]string {
	var kept inherited
	if raw := cr.Spec.ObservedConfig.Raw; len(raw) == 0 || json.Unmarshal(raw, &kept) != nil {
		return r.Settings
	}
	settings := maps.Clone(r.Settings)
	for _, setting := range r.Inheritable {
		if value := kept.Inherited[setting.Variable]; value != "" && setting.Check(value) == nil {
			settings[setting.Variable] = value
		}
	}
	return settings
}

// inherit keeps what a predecessor has decided, before its controller is changed.
func (r *Reconciler) inherit(ctx context.Context, cr *operatorv1.ClusterCSIDriver, cfg *driver.Config) error {
	found, err := r.inheritance(ctx, cr)
	if err != nil || len(found) == 0 {
		return err
	}
	patch := patchOf(cr)
	kept := map[string]any{}
	for variable, value := range found {
		kept[variable] = value
	}
	patch.Object["spec"] = map[string]any{"observedConfig": map[string]any{"inheritedSettings": kept}}
	// A field manager of its own: the operator's owns the finalizer.
	owner := client.FieldOwner(r.Driver.Operator + "-inherited")
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("keep settings of a predecessor in spec.observedConfig: %w", err)
	}
	if err := r.adopt(cr, patch); err != nil {
		return err
	}
	cfg.Settings = r.settings(cr)
	return nil
}

// inheritance is what the predecessor's controller in our namespace was told, if it is still the predecessor's.
func (r *Reconciler) inheritance(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (map[string]string, error) {
	if len(r.Inheritable) == 0 {
		return nil, nil
	}
	succeeds, err := r.succeeds(ctx, cr)
	if err != nil || !succeeds {
		return nil, err
	}
	deployment := &appsv1.Deployment{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.Deployment}, deployment)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("look for Deployment %s of a predecessor: %w", r.Driver.Deployment, err)
	}
	found := map[string]string{}
	for _, setting := range r.Inheritable {
		if value, is := setting.Inherited(deployment.Spec.Template.Spec.Containers); is && !r.applier.Owns(deployment) {
			found[setting.Variable] = value
		}
	}
	return found, nil
}

// succeeds tells whether a predecessor may have left a controller in our namespace that is not ours yet: it has left its node pods, or
// the generation of its Deployment in the status. All of it is in the cache.
func (r *Reconciler) succeeds(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (bool, error) {
	ours := &appsv1.Deployment{}
	ours.Namespace, ours.Name = r.Namespace, r.Driver.Deployment
	known, err := r.applier.Newest(ctx, ours)
	if err != nil {
		return false, fmt.Errorf("read Deployment %s: %w", r.Driver.Deployment, err)
	}
	if known && r.applier.Owns(ours) {
		return false, nil
	}
	for _, entry := range cr.Status.Generations {
		if entry.Resource == "deployments" && entry.Namespace == r.Namespace && entry.Name == r.Driver.Deployment {
			return true, nil
		}
	}
	for _, predecessor := range r.Predecessors {
		daemonSets, err := predecessor.daemonSets(ctx)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(daemonSets, func(d appsv1.DaemonSet) bool {
			return d.Namespace == r.Namespace && d.Name != r.Driver.DaemonSet
		}) {
			return true, nil
		}
	}
	return false, nil
}

// inheritedNotes say what is kept, sorted.
func inheritedNotes(settings map[string]string) []string {
	notes := make([]string, 0, len(settings))
	for variable, value := range settings {
		notes = append(notes, fmt.Sprintf("%s=%s, which the predecessor's controller has. To change it, set %s in the operator's environment",
			variable, value, variable))
	}
	slices.Sort(notes)
	return notes
}
