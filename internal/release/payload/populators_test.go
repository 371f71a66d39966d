package payload

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Packages with a VolumePopulator can be applied in a new cluster, and what an older release has stored stays valid.
func TestTheReleaseDefinesVolumePopulators(t *testing.T) {
	_, files := committed(t)
	objects, err := parse(files["0000_50_cluster-storage-operator_05_volumepopulators.yaml"])
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, error %v", len(objects), err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &crd); err != nil {
		t.Fatal(err)
	}
	if crd.Name != "volumepopulators.populator.storage.k8s.io" || crd.Spec.Names.Kind != "VolumePopulator" || crd.Spec.Scope != apiextensionsv1.ClusterScoped {
		t.Errorf("it defines %s, %v", crd.Name, crd.Spec.Names)
	}
	if crd.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation] == "" || crd.Annotations[deleteAnnotation] != "" {
		t.Errorf("a cluster refuses or deletes it: annotations %v", crd.Annotations)
	}
	stored := slices.IndexFunc(crd.Spec.Versions, func(one apiextensionsv1.CustomResourceDefinitionVersion) bool { return one.Storage && one.Served })
	if stored < 0 || crd.Spec.Versions[stored].Name != "v1beta1" {
		t.Fatalf("versions %v, want v1beta1 served and stored", crd.Spec.Versions)
	}
	source := crd.Spec.Versions[stored].Schema.OpenAPIV3Schema.Properties["sourceKind"]
	if source.Properties["group"].Type != "string" || source.Properties["kind"].Type != "string" {
		t.Errorf("the schema drops fields of stored objects: %v", source)
	}
}
