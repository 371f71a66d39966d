package clustercsidriver

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// Assets that are broken meanwhile tell whether they were read once more.
func TestTheSameConfigIsRenderedOnce(t *testing.T) {
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	const csi = "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: \"${DRIVER_NAME}\", labels: {a: b}}\nspec: {}\n"
	assets := fstest.MapFS{"assets/csidriver.yaml": {Data: []byte(csi)}}
	d := driver.Driver{Name: "disk.example.com", Operator: "disk-operator", Prefix: "disk", ShortPrefix: "dk", Assets: assets}
	cfg := driver.Config{Namespace: "here", InfrastructureID: "one", Images: map[string]string{}}
	for _, variable := range d.Images() {
		cfg.Images[variable] = "image"
	}
	last := &rendered{}
	first, err := last.render(d, scheme, cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Whoever gets objects may change them.
	want := first[0].DeepCopyObject()
	first[0].SetLabels(nil)
	assets["assets/csidriver.yaml"].Data = []byte("nonsense")
	second, err := last.render(d, scheme, cfg)
	if err != nil {
		t.Fatalf("rendered once more: %v", err)
	}
	if diff := cmp.Diff(want, second[0]); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
	cfg.InfrastructureID = "two"
	if _, err := last.render(d, scheme, cfg); err == nil {
		t.Error("another Config is not rendered")
	}
}
