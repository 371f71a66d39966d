package fakeolm

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
)

// standInKinds are the kinds of OLM and of mirrors, which a devcluster does not have.
func standInKinds() map[schema.GroupVersionKind]apiextensionsv1.CustomResourceDefinitionNames {
	kinds := map[schema.GroupVersionKind]apiextensionsv1.CustomResourceDefinitionNames{}
	for _, kind := range []struct{ group, version, kind, plural, short string }{
		{"operators.coreos.com", "v1alpha1", "CatalogSource", "catalogsources", "catsrc"},
		{"operators.coreos.com", "v1alpha1", "Subscription", "subscriptions", "sub"},
		{"operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", "csv"},
		{"operators.coreos.com", "v1alpha1", "InstallPlan", "installplans", "ip"},
		{"operators.coreos.com", "v1", "OperatorGroup", "operatorgroups", "og"},
		{"config.openshift.io", "v1", "ImageTagMirrorSet", "imagetagmirrorsets", "itms"},
		{"config.openshift.io", "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets", "idms"},
	} {
		kinds[schema.GroupVersionKind{Group: kind.group, Version: kind.version, Kind: kind.kind}] =
			apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.kind, Plural: kind.plural, ShortNames: []string{kind.short}}
	}
	return kinds
}

// ServeKinds lets the API server take objects of these kinds, whatever they say.
func ServeKinds(ctx context.Context, cluster *env.Cluster) error {
	anything := true
	for kind, names := range standInKinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name = names.Plural + "." + kind.Group
		if kind.Group == "config.openshift.io" {
			crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a stand-in"}
			crd.Spec.Scope = apiextensionsv1.ClusterScoped
		} else {
			crd.Spec.Scope = apiextensionsv1.NamespaceScoped
		}
		crd.Spec.Group, crd.Spec.Names = kind.Group, names
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: kind.Version, Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything},
			},
		}}
		object, err := toUnstructured(crd, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
		if err != nil {
			return err
		}
		if err := cluster.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create the CRD of %s: %w", kind.Kind, err)
		}
		if err := env.Await(ctx, "kind "+kind.Kind+" is served", func() error {
			return cluster.Client.List(ctx, listOf(kind.GroupVersion(), kind.Kind))
		}); err != nil {
			return err
		}
	}
	return nil
}

func toUnstructured(object any, version, kind string) (*unstructured.Unstructured, error) {
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	found := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &found.Object); err != nil {
		return nil, err
	}
	delete(found.Object, "status")
	found.SetAPIVersion(version)
	found.SetKind(kind)
	return found, nil
}

func listOf(version schema.GroupVersion, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(version.WithKind(kind + "List"))
	return list
}
