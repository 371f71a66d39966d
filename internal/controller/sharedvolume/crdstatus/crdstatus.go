// Package crdstatus says which fields of the status of a SharedVolume the CRD in the cluster has. An older CRD than this operator's may be put
// back by an operator that was here before, and drops the others.
package crdstatus

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

// lacksField is where a CRD in the cache says what its status lacks; all else of its spec is dropped.
const lacksField = "lacks"

// Fields are the fields of the status that this operator writes.
func Fields() []string {
	return []string{"claimRef", "conditions", "message", "observedGeneration", "phase", "volumeName"}
}

// Strip is a transformation of a cache: it keeps of the CRD what is looked at, and of the schema which fields of the status are missing.
func Strip(object any) (any, error) {
	crd, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	if _, stripped, _ := unstructured.NestedSlice(crd.Object, "spec", lacksField); stripped {
		// A list by watch is stripped twice: in client-go's store of the list and in its queue.
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

// missing are what the CRD's schema lacks of the status. Where the schema takes any field, none is missing.
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

// Lacking are the fields of the status that a CRD in the cache lacks.
func Lacking(crd *unstructured.Unstructured) []string {
	found, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", lacksField)
	return found
}

// Trim takes out of a status what the CRD lacks.
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
