package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
)

const (
	examplesAnnotation  = "alm-examples"
	initAnnotation      = "operatorframework.io/initialization-resource"
	namespaceAnnotation = "operatorframework.io/suggested-namespace-template"
)

// accept asks the API server whether it would take an object, each of its fields included.
func (s *scene) accept(ctx context.Context, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	strict := client.WithFieldValidation(s.Client, metav1.FieldValidationStrict)
	err := strict.Create(ctx, object, client.DryRunAll)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	live := object.DeepCopy()
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return err
	}
	object.SetResourceVersion(live.GetResourceVersion())
	return strict.Update(ctx, object, client.DryRunAll)
}

// examples are those of a ClusterServiceVersion, in the order in which the console shows them.
func examples(t *testing.T, csv fakeolm.CSV) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	env.Must(t, json.Unmarshal([]byte(csv.Annotations[examplesAnnotation]), &found))
	return found
}

// annotated is the object in an annotation.
func annotated(t *testing.T, csv fakeolm.CSV, annotation string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	env.Must(t, json.Unmarshal([]byte(csv.Annotations[annotation]), &object.Object))
	return object
}

// OLM would find a mistake in one of them only in the user's cluster.
func TestEveryManifestIsTakenByTheAPIServer(t *testing.T) {
	s := open(t, env.OperatorNamespace)
	served, err := s.Kinds()
	env.Must(t, err)
	for _, p := range []olm.Package{own(), bridge()} {
		t.Run(p.Name, func(t *testing.T) {
			csv := read(t, committed(t, p))
			objects, err := csv.Objects(p.Namespace, nil)
			env.Must(t, err)
			// The account, its RBAC, metrics and alerts, the roles of users, the Deployment.
			if len(objects) < 14 {
				t.Errorf("%d objects", len(objects))
			}
			for _, object := range append(objects, csv.CRDs...) {
				if err := s.accept(t.Context(), object); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
			for _, kind := range csv.NativeAPIs {
				if !slices.Contains(served, schema.GroupVersionKind(kind)) {
					t.Errorf("OpenShift does not serve %v", kind)
				}
			}
			if len(csv.NativeAPIs) == 0 {
				t.Error("it needs no kind of OpenShift: this shows nothing")
			}
			if p.Suffix == "" {
				env.Must(t, s.accept(t.Context(), annotated(t, csv, namespaceAnnotation)))
			}
		})
	}
	t.Run("examples", func(t *testing.T) {
		csv := read(t, committed(t, own()))
		env.Must(t, s.Client.Create(t.Context(), csv.CRDs[0].DeepCopy()))
		env.Must(t, s.Served(t.Context(), env.SharedVolumesCRD))
		for _, p := range []olm.Package{own(), bridge()} {
			s.takesExamples(t, read(t, committed(t, p)))
		}
	})
	t.Run("namespace of the installation by hand", func(t *testing.T) {
		text, err := os.ReadFile(root(t) + "/bundle/install/2-namespace.yaml")
		env.Must(t, err)
		env.Must(t, s.accept(t.Context(), parse(t, text)))
	})
}

// takesExamples checks that users can create what the console offers them.
func (s *scene) takesExamples(t *testing.T, csv fakeolm.CSV) {
	t.Helper()
	shown := map[string]bool{}
	for _, example := range append(examples(t, csv), annotated(t, csv, initAnnotation)) {
		shown[example.GetKind()] = true
		inNamespace(example)
		if err := s.accept(t.Context(), example); err != nil {
			t.Errorf("%s: example %s: %v", csv.Name, example.GetName(), err)
		}
		spec, _ := example.Object["spec"].(map[string]any)
		spec["acessPoint"] = "misspelt"
		if err := s.accept(t.Context(), example); err == nil || !strings.Contains(err.Error(), "acessPoint") {
			t.Errorf("%s with a misspelt field: %v", example.GetKind(), err)
		}
	}
	if !shown["SharedVolume"] || !shown["ClusterCSIDriver"] {
		t.Errorf("examples of %v", shown)
	}
}

// inNamespace puts an example where the console creates it.
func inNamespace(example *unstructured.Unstructured) {
	if example.GetKind() == "SharedVolume" {
		example.SetNamespace("default")
	}
}

// What the test above relies on: the API server refuses what is wrong, wherever in the bundle that is.
func TestAWrongManifestIsRefusedByTheAPIServer(t *testing.T) {
	s := open(t, env.OperatorNamespace)
	for name, tc := range map[string]struct{ from, to, want string }{
		"a field of the Deployment":         {"priorityClassName:", "priorityClass:", `unknown field "spec.template.spec.priorityClass"`},
		"a selector that matches no pod":    {"matchLabels:\n              app: aws", "matchLabels:\n              app: xaws", "selector"},
		"a field of a permission":           {"- apiGroups:\n          - coordination", "- apiGroup:\n          - coordination", "apiGroup"},
		"a field of the Service":            {"targetPort:", "tragetPort:", "tragetPort"},
		"a port of the Service":             {"port: 8443", "port: 84430", "84430"},
		"a field of the ServiceMonitor":     {"jobLabel:", "joblable:", "joblable"},
		"a severity without rule of alerts": {"expr: |", "exprs: |", "exprs"},
		"a field of the CRD":                {"subresources:", "subresource:", "subresource"},
		"a pattern that is no pattern":      {"pattern: ^fs-[0-9a-f]+$", "pattern: '^fs-['", "pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(committed(t, own()))
			changed := false
			for file, text := range files {
				files[file] = bytes.Replace(text, []byte(tc.from), []byte(tc.to), 1)
				changed = changed || !bytes.Equal(files[file], text)
			}
			if !changed {
				t.Fatalf("no file has %q", tc.from)
			}
			csv := read(t, files)
			objects, err := csv.Objects(env.OperatorNamespace, nil)
			env.Must(t, err)
			var found []string
			for _, object := range append(objects, csv.CRDs...) {
				if err := s.accept(t.Context(), object); err != nil {
					found = append(found, err.Error())
				}
			}
			if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), tc.want) {
				t.Errorf("refused for %q, want %q", found, tc.want)
			}
		})
	}
}

// What the operator's environment says is the bundle's, unless the Subscription says something else.
func TestTheSubscriptionHasTheLastWordOnTheEnvironment(t *testing.T) {
	csv := read(t, committed(t, own()))
	objects, err := csv.Objects(env.OperatorNamespace, []corev1.EnvVar{{Name: "DRIVER_IMAGE", Value: "mirror.example/driver:1"}, roleARN(nodeRole)})
	env.Must(t, err)
	last := &appsv1.Deployment{}
	env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[len(objects)-1].Object, last))
	found := map[string][]string{}
	for _, variable := range last.Spec.Template.Spec.Containers[0].Env {
		found[variable.Name] = append(found[variable.Name], variable.Value)
	}
	for name, want := range map[string]string{
		"DRIVER_IMAGE": "mirror.example/driver:1", "ROLEARN": nodeRole, "OPERATOR_CONDITION_NAME": csv.Name, "OPERAND_IMAGE_VERSION": csv.Version.String(),
	} {
		equal(t, name, []string{want}, found[name])
	}
}

func parse(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	env.Must(t, yaml.Unmarshal(text, &object.Object))
	return object
}
