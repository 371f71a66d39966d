package migration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// inherited is the content of spec.observedConfig. It maps environment variables to the settings of a predecessor. The operator stores the settings
// because its first apply overwrites the predecessor's arguments.
type inherited struct {
	Inherited map[string]string `json:"inheritedSettings,omitempty"`
}

// Settings returns the settings of the environment together with the settings of a predecessor. A setting of the predecessor comes from argument
// "found" or, if it is absent there, from spec.observedConfig. A predecessor's valid setting replaces the same setting of the environment.
func (m *Migration) Settings(environment map[string]string, cr *operatorv1.ClusterCSIDriver, found map[string]string) map[string]string {
	var kept inherited
	if raw := cr.Spec.ObservedConfig.Raw; len(raw) > 0 && json.Unmarshal(raw, &kept) != nil {
		kept = inherited{}
	}
	if len(kept.Inherited)+len(found) == 0 {
		return environment
	}
	settings := map[string]string{}
	maps.Copy(settings, environment)
	for _, setting := range m.Inheritable {
		if value := cmp.Or(found[setting.Variable], kept.Inherited[setting.Variable]); value != "" && setting.Check(value) == nil {
			settings[setting.Variable] = value
		}
	}
	return settings
}

// Keeps reports whether the ClusterCSIDriver already stores the found settings.
func Keeps(cr *operatorv1.ClusterCSIDriver, found map[string]string) bool {
	var kept inherited
	return len(found) == 0 || json.Unmarshal(cr.Spec.ObservedConfig.Raw, &kept) == nil && maps.Equal(kept.Inherited, found)
}

// ObservedConfig returns spec.observedConfig for the found settings. The caller must apply the result with a separate field manager.
func ObservedConfig(found map[string]string) map[string]any {
	kept := map[string]any{}
	for variable, value := range found {
		kept[variable] = value
	}
	return map[string]any{"observedConfig": map[string]any{"inheritedSettings": kept}}
}

// inherited reads the settings of the predecessor's controller in our namespace, before this operator adopts that controller.
func (m *Migration) inherited(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (map[string]string, error) {
	if len(m.Inheritable) == 0 {
		return nil, nil
	}
	succeeds, err := m.succeeds(ctx, cr)
	if err != nil || !succeeds {
		return nil, err
	}
	deployment := &appsv1.Deployment{}
	err = m.Live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Driver.Deployment}, deployment)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("look for Deployment %s of a predecessor: %w", m.Driver.Deployment, err)
	}
	found := map[string]string{}
	for _, setting := range m.Inheritable {
		if value, is := setting.Inherited(deployment.Spec.Template.Spec.Containers); is && !m.applier.Owns(deployment) {
			found[setting.Variable] = value
		}
	}
	return found, nil
}

// succeeds reports whether our namespace may have a predecessor's controller that this operator has not adopted yet. A sign of such a controller is
// the predecessor's DaemonSet. Another sign is the generation of the predecessor's Deployment in the status. succeeds reads only from the cache.
func (m *Migration) succeeds(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (bool, error) {
	ours, err := apply.Newest[appsv1.Deployment](ctx, m.applier, client.ObjectKey{Namespace: m.Namespace, Name: m.Driver.Deployment})
	if err != nil {
		return false, err
	}
	if ours != nil && m.applier.Owns(ours) {
		return false, nil
	}
	if m.hasGenerations(cr) {
		return true, nil
	}
	for _, predecessor := range m.Predecessors {
		daemonSets, err := predecessor.daemonSets(ctx)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(daemonSets, func(d appsv1.DaemonSet) bool {
			return d.Namespace == m.Namespace && d.Name != m.Driver.DaemonSet
		}) {
			return true, nil
		}
	}
	return false, nil
}

// InheritedNotes describes the inherited settings, sorted.
func InheritedNotes(settings map[string]string) []string {
	notes := make([]string, 0, len(settings))
	for variable, value := range settings {
		notes = append(notes, fmt.Sprintf("%s=%s comes from the predecessor's controller. To change it, set %s in the operator's environment",
			variable, value, variable))
	}
	slices.Sort(notes)
	return notes
}
