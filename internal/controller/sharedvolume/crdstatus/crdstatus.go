// Package crdstatus finds the status fields of SharedVolumes that the CRD in the cluster lacks. A predecessor may reinstall an older CRD. With the
// older CRD, the API server drops these fields.
package crdstatus

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// lacksField is the name of a field in the spec of a cached CRD. The field has the list of the missing status fields. Strip replaces the spec by this
// field.
const lacksField = "lacks"

// Fields returns the status fields that this operator writes.
func Fields() []string {
	return []string{"claimRef", "conditions", "message", "observedGeneration", "phase", "volumeName"}
}

// Strip is a cache transform. It replaces the spec of the CRD, which is large, by the list of status fields that the CRD lacks.
func Strip(object any) (any, error) {
	crd, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	if _, stripped, _ := unstructured.NestedSlice(crd.Object, "spec", lacksField); stripped {
		// client-go transforms the objects of a watch-list twice: in its temporary store and in its queue.
		return object, nil
	}
	lacks := []any{}
	for _, field := range missing(crd) {
		lacks = append(lacks, field)
	}
	crd.SetManagedFields(nil)
	crd.Object["spec"] = map[string]any{lacksField: lacks}
	return crd, nil
}

// missing returns the status fields that the CRD's schema lacks. It returns no field if the schema preserves unknown fields.
func missing(crd *unstructured.Unstructured) []string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, entry := range versions {
		version, ok := entry.(map[string]any)
		if !ok || version["name"] != v1alpha1.GroupVersion().Version {
			continue
		}
		state, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "status")
		if open, _, _ := unstructured.NestedBool(state, "x-kubernetes-preserve-unknown-fields"); open {
			return nil
		}
		fields, _, _ := unstructured.NestedMap(state, "properties")
		return slices.DeleteFunc(Fields(), func(field string) bool { return fields[field] != nil })
	}
	return nil
}

// Lacking returns the status fields that the CRD lacks. The CRD must come from the cache, where Strip has stored the list.
func Lacking(crd *unstructured.Unstructured) []string {
	found, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", lacksField)
	return found
}

// Trim clears those fields of a status that the CRD lacks.
func Trim(state v1alpha1.SharedVolumeStatus, lacks []string) v1alpha1.SharedVolumeStatus {
	for _, field := range lacks {
		switch field {
		case "conditions":
			state.Conditions = nil
		case "observedGeneration":
			state.ObservedGeneration = 0
		case "volumeName":
			state.VolumeName = ""
		}
	}
	return state
}
