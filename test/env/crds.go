package env

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Served waits until the API server serves the kinds of some CustomResourceDefinitions, given by their names. `kubectl wait` fails if it
// comes before a new CRD has any condition.
func (c *Cluster) Served(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := Await(ctx, "kinds of "+name+" served", func() error { return c.serves(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) serves(ctx context.Context, name string) error {
	crd := NewObject("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, entry := range versions {
		version, _ := entry.(map[string]any)
		number, _, _ := unstructured.NestedString(version, "name")
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: number, Kind: kind + "List"})
		if err := c.Client.List(ctx, list, client.Limit(1)); err != nil && version["served"] == true {
			return fmt.Errorf("kind %s of %s/%s: %w", kind, group, number, err)
		}
	}
	return nil
}
