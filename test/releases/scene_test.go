package releases

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// oldest is the oldest Kubernetes whose feature gates the control plane can have.
const oldest = "1.33"

// suite holds what all tests of the package share; TestMain fills it in.
var suite struct {
	cluster *scene
	// modules are the folders of the modules of all releases.
	modules map[string]string
	// applied are all objects that are tried, by where they come from.
	applied map[string][]*unstructured.Unstructured
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	if err := start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := suite.cluster.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

func start(ctx context.Context) error {
	modules := []string{monitoringModule + "@" + monitoring76}
	for _, r := range releases() {
		modules = append(modules, openshiftModule+"@"+r.api, monitoringModule+"@"+r.monitoring, kubernetesModule+"@"+r.kubernetes)
	}
	var err error
	if suite.modules, err = download(ctx, modules...); err != nil {
		return err
	}
	if suite.applied, err = applied(ctx); err != nil {
		return err
	}
	programs, err := env.ReleasePrograms(env.RaceAsked(), env.ClusterRelease)
	if err != nil {
		return err
	}
	cluster, err := env.Start(ctx, append(programs, "--nodes", "4", "--emulated-version", oldest)...)
	if err != nil {
		return err
	}
	suite.cluster = &scene{Cluster: cluster, tried: map[string]bool{}}
	return nil
}

// scene is the cluster, whose CRDs change.
type scene struct {
	*env.Cluster
	// changes counts how often the CRDs have changed.
	changes int
	// tried are the schemas that all objects were held against.
	tried map[string]bool
}

// definitionsOf are the CRDs of a release.
func definitionsOf(r release, set string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	openshift, err := crds(suite.modules[openshiftModule+"@"+r.api], needed(), set)
	if err != nil {
		return nil, err
	}
	monitoring, err := monitoringOf(r.monitoring)
	return append(openshift, monitoring...), err
}

// monitoringOf are the CRDs of a version of prometheus-operator.
func monitoringOf(version string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return crds(suite.modules[monitoringModule+"@"+version]+"/example/prometheus-operator-crd", monitored(), "Default")
}

// define replaces CRDs, and returns when the API server holds objects to the new ones.
func (s *scene) define(t *testing.T, wanted []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	s.changes++
	// An API server goes on with an old schema for a moment. That it knows this field says which one it has.
	mark := fmt.Sprintf("testMark%d", s.changes)
	for _, crd := range wanted {
		crd = crd.DeepCopy()
		for i := range crd.Spec.Versions {
			root := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
			root.Properties[mark] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
		env.Must(t, s.put(t.Context(), crd))
	}
	for _, crd := range wanted {
		env.Eventually(t, "the schema of "+crd.Name, func() error { return s.knows(t.Context(), crd, mark) })
	}
}

// put creates a CRD, or replaces what another release has made of it.
func (s *scene) put(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	live := newObject(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crd.Name)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return err
	}
	err = s.Client.Get(ctx, client.ObjectKeyFromObject(live), live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	live.Object["spec"] = fields["spec"]
	live.SetAnnotations(crd.Annotations)
	if err != nil {
		return s.Client.Create(ctx, live)
	}
	return s.Client.Update(ctx, live)
}

// knows returns nil when the API server knows a field of a CRD, in each version.
func (s *scene) knows(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, field string) error {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
		namespace := ""
		if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
			namespace = "default"
		}
		probe := newObject(kind, namespace, "probe")
		probe.Object[field] = "x"
		err := s.DryRun(ctx, probe)
		if meta.IsNoMatchError(err) || err != nil && (strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "could not find the requested")) {
			return err
		}
	}
	return nil
}

func newObject(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// live are the objects of a kind as they are, with the status that the operators have written.
func (s *scene) live(t *testing.T, kind schema.GroupVersionKind) []*unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	env.Must(t, s.Client.List(t.Context(), list))
	var all []*unstructured.Unstructured
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// clusterCSIDriver is what makes a driver be installed.
func clusterCSIDriver(name string) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(env.CR(name, operatorv1.Managed))
	object := &unstructured.Unstructured{Object: fields}
	object.SetGroupVersionKind(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"))
	delete(object.Object, "status")
	return object, err
}
