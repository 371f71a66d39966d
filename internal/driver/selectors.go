package driver

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// app is the label that the pods of all drivers have.
const app = "app"

// SelectorOf returns the pod selector of a workload. The selector is immutable once the workload exists.
func (d Driver) SelectorOf(workload Workload) map[string]string {
	switch {
	case d.Selectors[workload] != nil:
		return d.Selectors[workload]
	case workload == Controller:
		return map[string]string{app: d.Deployment}
	default:
		return map[string]string{app: d.DaemonSet}
	}
}

// selectPods fills in the selectors of the Services for metrics.
func (d Driver) selectPods(_ Config, object *corev1.Service) error {
	for workload, scraped := range d.scraped() {
		if object.Name == scraped+"-metrics" {
			object.Spec.Selector = d.SelectorOf(workload)
		}
	}
	return nil
}

// selectControllers fills in the selector of the PodDisruptionBudget of the controller.
func (d Driver) selectControllers(_ Config, object *policyv1.PodDisruptionBudget) error {
	if object.Name == d.Deployment+"-pdb" {
		object.Spec.Selector.MatchLabels = d.SelectorOf(Controller)
	}
	return nil
}
