package crdstatus

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

func TestWhatACRDLacksIsFoundInItsSchema(t *testing.T) {
	version := func(name string, state map[string]any) any {
		return map[string]any{"name": name, "schema": map[string]any{"openAPIV3Schema": map[string]any{"properties": map[string]any{"status": state}}}}
	}
	fields := func(names ...string) map[string]any {
		properties := map[string]any{}
		for _, name := range names {
			properties[name] = map[string]any{"type": "string"}
		}
		return map[string]any{"properties": properties}
	}
	for name, tc := range map[string]struct {
		versions []any
		want     []string
	}{
		"ours":                       {[]any{version("v1alpha1", fields(Fields()...))}, nil},
		"the community's":            {[]any{version("v1alpha1", fields("claimRef", "message", "phase"))}, []string{"conditions", "observedGeneration", "volumeName"}},
		"one without a schema":       {[]any{map[string]any{"name": "v1alpha1"}}, Fields()},
		"one that takes all":         {[]any{version("v1alpha1", map[string]any{"x-kubernetes-preserve-unknown-fields": true})}, nil},
		"another version":            {[]any{version("v1", fields("phase"))}, nil},
		"behind another version":     {[]any{version("v1", fields(Fields()...)), version("v1alpha1", fields("claimRef"))}, Fields()[1:]},
		"no versions":                {nil, nil},
		"what is no version at all":  {[]any{"v1alpha1"}, nil},
		"what has more than we need": {[]any{version("v1alpha1", fields(append(Fields(), "other")...))}, nil},
	} {
		crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": tc.versions, "scope": "Namespaced"}}}
		crd.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "any"}})
		// A list by watch is stripped twice.
		for range 2 {
			if _, err := Strip(crd); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(tc.want, Lacking(crd), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if spec, _ := crd.Object["spec"].(map[string]any); len(spec) != 1 || crd.GetManagedFields() != nil {
			t.Errorf("%s: it keeps %v", name, crd.Object)
		}
	}
}

// What a cache hands over for an object that has gone without notice.
func TestWhatIsNoCRDStaysAsItIs(t *testing.T) {
	if got, err := Strip("tombstone"); got != "tombstone" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// definitionIn reads a CRD as the cache holds it.
func definitionIn(t *testing.T, path ...string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := Strip(crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestWhatAnOlderCRDLacksIsNotWritten(t *testing.T) {
	if lacks := Lacking(definitionIn(t, "config", "crd", "aws-efs.managed.openshift.io_sharedvolumes.yaml")); len(lacks) > 0 {
		t.Errorf("our own CRD lacks %v", lacks)
	}
	lacks := Lacking(definitionIn(t, "config", "manifests", "stored", "sharedvolumes.yaml"))
	if want := []string{"conditions", "observedGeneration", "volumeName"}; !slices.Equal(lacks, want) {
		t.Errorf("the community's CRD lacks %v, want %v", lacks, want)
	}
	full := v1alpha1.SharedVolumeStatus{
		Phase: v1alpha1.Ready, Message: "m", VolumeName: "v", ObservedGeneration: 3, Conditions: []metav1.Condition{{Type: "Ready"}},
	}
	if got := Trim(full, lacks); got.Phase != full.Phase || got.Message != "m" || got.VolumeName != "" || got.ObservedGeneration != 0 || got.Conditions != nil {
		t.Errorf("written would be %+v", got)
	}
}
