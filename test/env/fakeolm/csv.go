package fakeolm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// CSV is a ClusterServiceVersion with the other manifests of its bundle.
type CSV struct {
	Name    string
	Version semver.Version
	// Owns are the names of the CRDs that it owns.
	Owns []string
	// NativeAPIs must be served before it is installed.
	NativeAPIs []metav1.GroupVersionKind
	// Annotations are those of the ClusterServiceVersion.
	Annotations map[string]string
	// CRDs outlive it.
	CRDs []*unstructured.Unstructured
	// Manifests are the other objects of the bundle. They have no namespace.
	Manifests []*unstructured.Unstructured
	// Install has the RBAC and Deployments, as they are written: what is misspelt goes as far as the API server.
	Install install
}

type install struct {
	ClusterPermissions []permission `json:"clusterPermissions"`
	Permissions        []permission `json:"permissions"`
	Deployments        []struct {
		Name  string         `json:"name"`
		Label map[string]any `json:"label"`
		Spec  map[string]any `json:"spec"`
	} `json:"deployments"`
}

type permission struct {
	ServiceAccountName string `json:"serviceAccountName"`
	Rules              []any  `json:"rules"`
}

// csvFields are what OLM installs by.
type csvFields struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Version      string            `json:"version"`
		InstallModes []olm.InstallMode `json:"installModes"`
		CRDs         struct {
			Owned []struct {
				Name string `json:"name"`
			} `json:"owned"`
		} `json:"customresourcedefinitions"`
		NativeAPIs []metav1.GroupVersionKind `json:"nativeAPIs"`
		Install    struct {
			Spec install `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

// ReadBundle reads the manifests of a bundle.
func ReadBundle(files olm.Files) (CSV, error) {
	var csv CSV
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, "manifests/") {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(files[name], &object.Object); err != nil {
			return csv, fmt.Errorf("%s: %w", name, err)
		}
		switch object.GetKind() {
		case "ClusterServiceVersion":
			if err := csv.read(files[name]); err != nil {
				return csv, fmt.Errorf("%s: %w", name, err)
			}
		case "CustomResourceDefinition":
			csv.CRDs = append(csv.CRDs, object)
		default:
			csv.Manifests = append(csv.Manifests, object)
		}
	}
	if csv.Name == "" {
		return csv, errors.New("the bundle has no ClusterServiceVersion")
	}
	return csv, nil
}

func (v *CSV) read(text []byte) error {
	var fields csvFields
	if err := yaml.Unmarshal(text, &fields); err != nil {
		return err
	}
	spec := fields.Spec
	if !slices.Contains(spec.InstallModes, olm.InstallMode{Type: "AllNamespaces", Supported: true}) {
		return errors.New("UnsupportedOperatorGroup: it does not support AllNamespaces")
	}
	v.Name, v.Annotations, v.NativeAPIs, v.Install = fields.Metadata.Name, fields.Metadata.Annotations, spec.NativeAPIs, spec.Install.Spec
	for _, owned := range spec.CRDs.Owned {
		v.Owns = append(v.Owns, owned.Name)
	}
	var err error
	v.Version, err = semver.Parse(spec.Version)
	return err
}

// Objects are what OLM makes of a bundle in a namespace, but for the CRDs: first the account and its RBAC, then the
// manifests, then the Deployments, with the environment of the Subscription.
func (v CSV) Objects(namespace string, environment []corev1.EnvVar) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, permission := range v.Install.ClusterPermissions {
		objects = append(objects, v.rbac("ClusterRole", namespace, permission)...)
	}
	for _, permission := range v.Install.Permissions {
		objects = append(objects, v.rbac("Role", namespace, permission)...)
	}
	for _, manifest := range v.Manifests {
		object := manifest.DeepCopy()
		if kind := object.GetKind(); !strings.HasPrefix(kind, "Cluster") && !strings.HasPrefix(kind, "Console") {
			object.SetNamespace(namespace)
		}
		objects = append(objects, object)
	}
	condition := corev1.EnvVar{Name: "OPERATOR_CONDITION_NAME", Value: v.Name}
	for _, wanted := range v.Install.Deployments {
		deployment := env.NewObject("apps/v1", "Deployment", namespace, wanted.Name)
		deployment.Object["spec"] = runtime.DeepCopyJSON(wanted.Spec)
		for key, value := range wanted.Label {
			if err := unstructured.SetNestedField(deployment.Object, value, "metadata", "labels", key); err != nil {
				return nil, err
			}
		}
		if err := setEnvironment(deployment, slices.Concat(environment, []corev1.EnvVar{condition})); err != nil {
			return nil, err
		}
		objects = append(objects, v.own(deployment, namespace))
	}
	return objects, nil
}

// rbac are the account of a permission, its role and the binding of both.
func (v CSV) rbac(kind, namespace string, granted permission) []*unstructured.Unstructured {
	const group = "rbac.authorization.k8s.io"
	space := namespace
	if kind == "ClusterRole" {
		space = ""
	}
	name := v.generate(kind, granted)
	role := env.NewObject(group+"/v1", kind, space, name)
	role.Object["rules"] = runtime.DeepCopyJSONValue(granted.Rules)
	binding := env.NewObject(group+"/v1", kind+"Binding", space, name)
	binding.Object["roleRef"] = map[string]any{"apiGroup": group, "kind": kind, "name": name}
	binding.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "namespace": namespace, "name": granted.ServiceAccountName}}
	return []*unstructured.Unstructured{
		v.own(env.NewObject("v1", "ServiceAccount", namespace, granted.ServiceAccountName), namespace), v.own(role, namespace), v.own(binding, namespace),
	}
}

// generate names a role by the ClusterServiceVersion and the hash of its content.
func (v CSV) generate(kind string, granted permission) string {
	text, _ := json.Marshal(granted)
	sum := sha256.Sum256(append(text, kind...))
	return v.Name + "-" + hex.EncodeToString(sum[:])[:12]
}

// own marks what goes with a ClusterServiceVersion.
func (v CSV) own(object *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ownerLabel], labels["olm.owner.namespace"], labels["olm.owner.kind"] = v.Name, namespace, "ClusterServiceVersion"
	object.SetLabels(labels)
	return object
}

// setEnvironment gives every container of a Deployment variables, in place of those of the same name.
func setEnvironment(deployment *unstructured.Unstructured, environment []corev1.EnvVar) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil {
		return err
	}
	for _, each := range containers {
		container, ok := each.(map[string]any)
		if !ok {
			return fmt.Errorf("a container of Deployment %s is no object", deployment.GetName())
		}
		merged, _, err := unstructured.NestedSlice(container, "env")
		if err != nil {
			return err
		}
		for _, variable := range environment {
			merged = slices.DeleteFunc(merged, func(other any) bool {
				before, ok := other.(map[string]any)
				return ok && before["name"] == variable.Name
			})
			merged = append(merged, map[string]any{"name": variable.Name, "value": variable.Value})
		}
		container["env"] = merged
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, path...)
}

// CommunityCSV is what OLM has of the community's operator in a namespace.
func CommunityCSV(c *env.Cluster, namespace string) (CSV, error) {
	csv := CSV{Name: env.CommunityName + ".v0.0.8", Version: semver.MustParse("0.0.8"), Owns: []string{env.SharedVolumesCRD}}
	for _, object := range predecessors.CommunityOperator(namespace) {
		kind, err := apiutil.GVKForObject(object, c.Scheme)
		if err != nil {
			return csv, err
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return csv, err
		}
		delete(fields, "status")
		manifest := &unstructured.Unstructured{Object: fields}
		manifest.SetGroupVersionKind(kind)
		csv.Manifests = append(csv.Manifests, csv.own(manifest, namespace))
	}
	return csv, nil
}
