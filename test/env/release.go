package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// manifestVersion stands in manifests for the version of the release.
	manifestVersion = "0.0.1-snapshot"
	// imageReferences is the file that says which images the manifests name.
	imageReferences = "image-references"
	// profile is the kind of cluster that manifests are chosen for.
	profile    = "include.release.openshift.io/self-managed-high-availability"
	createOnly = "release.openshift.io/create-only"
	toDelete   = "release.openshift.io/delete"
	// VersionOperator is the name under which the cluster-version operator writes.
	VersionOperator = "cluster-version-operator"
)

// ClusterRelease is the release that a devcluster's own configuration speaks of.
const ClusterRelease = "4.21.0"

// Release is a version of what a cluster consists of, as far as this repository makes it.
type Release struct {
	Version string
	// Folder has the manifests; empty for those of this repository.
	Folder string
	// Images differ from ReleaseImage, by their names in the release.
	Images map[string]string
	// Edit, if set, changes an object before it is applied; false leaves the object out. What is to be deleted has nothing but a name, and
	// is not shown to it.
	Edit func(object *unstructured.Unstructured) bool
}

// ReleaseImage is an image of a release, which is never pulled.
func ReleaseImage(name, version string) string { return "registry.example/" + name + ":" + version }

// CSO is the operator that starts all others, and where it runs.
const (
	CSO          = "cluster-storage-operator"
	CSONamespace = "openshift-cluster-storage-operator"
	// CSOUser is its name in the audit log.
	CSOUser = "system:serviceaccount:" + CSONamespace + ":" + CSO
)

// DriverOperatorUser is the name of a driver's operator in the audit log.
func DriverOperatorUser(operator string) string {
	return "system:serviceaccount:" + OperatorNamespace + ":" + operator
}

// ApplyRelease applies the manifests of a release as the cluster-version operator does. It applies them in the order of their files, for the
// profile of this cluster, with the images and the version of the release. It keeps existing create-only objects, and removes only objects
// whose manifest says so. It does not wait: use Reached.
func (c *Cluster) ApplyRelease(ctx context.Context, release Release) error {
	objects, err := release.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if release.Edit != nil && object.GetAnnotations()[toDelete] == "" && !release.Edit(object) {
			continue
		}
		if err := c.applyManifest(ctx, object); err != nil {
			return fmt.Errorf("apply %s %s of release %s: %w", object.GetKind(), object.GetName(), release.Version, err)
		}
	}
	return nil
}

func (c *Cluster) applyManifest(ctx context.Context, object *unstructured.Unstructured) error {
	if object.GetAnnotations()[toDelete] == "true" {
		return client.IgnoreNotFound(c.Client.Delete(ctx, object))
	}
	if object.GetAnnotations()[createOnly] == "true" {
		return client.IgnoreAlreadyExists(c.Client.Create(ctx, object))
	}
	status, hasStatus := object.Object["status"].(map[string]any)
	delete(object.Object, "status")
	err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(VersionOperator), client.ForceOwnership)
	if err != nil || object.GetKind() != "ClusterOperator" || !hasStatus {
		return err
	}
	// So a reader who searches for the cause of a failure knows where to look, even if the operator never reported.
	operator := &configv1.ClusterOperator{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), operator); err != nil || len(operator.Status.RelatedObjects) > 0 {
		return err
	}
	before := operator.DeepCopy()
	related, _, err := unstructured.NestedSlice(status, "relatedObjects")
	if err != nil {
		return err
	}
	for _, one := range related {
		fields, _ := one.(map[string]any)
		text := func(field string) string {
			value, _ := fields[field].(string)
			return value
		}
		operator.Status.RelatedObjects = append(operator.Status.RelatedObjects, configv1.ObjectReference{
			Group: text("group"), Resource: text("resource"), Namespace: text("namespace"), Name: text("name"),
		})
	}
	return c.Client.Status().Patch(ctx, operator, client.MergeFrom(before), client.FieldOwner(VersionOperator))
}

// Objects are the manifests of some kinds.
func (r Release) Objects(kinds ...string) ([]*unstructured.Unstructured, error) {
	objects, err := r.objects()
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return !slices.Contains(kinds, object.GetKind()) }), err
}

// objects reads the manifests for this cluster.
func (r Release) objects() ([]*unstructured.Unstructured, error) {
	texts, err := r.Texts()
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(texts[file]), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			if len(object.Object) > 0 && object.GetAnnotations()[profile] == "true" {
				all = append(all, object)
			}
		}
	}
	return all, nil
}

// Texts are the files with manifests, with the version and the images of the release in them.
func (r Release) Texts() (map[string][]byte, error) {
	folder, err := r.folder()
	if err != nil {
		return nil, err
	}
	replace, err := r.replacements(folder)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no manifests in %s: run 'make manifests' (%w)", folder, err)
	}
	texts := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("read a manifest: %w", err)
		}
		texts[filepath.Base(file)] = replace(text)
	}
	return texts, nil
}

// folder is where the manifests are.
func (r Release) folder() (string, error) {
	if r.Folder != "" {
		return r.Folder, nil
	}
	root, err := Root()
	return filepath.Join(root, "manifests"), err
}

// replacements puts the version and the images of the release into the text of a manifest.
func (r Release) replacements(folder string) (func([]byte) []byte, error) {
	names, err := imageNames(filepath.Join(folder, imageReferences))
	if err != nil {
		return nil, err
	}
	patterns := map[*regexp.Regexp]string{}
	for name, stands := range names {
		image := r.Images[name]
		if image == "" {
			image = ReleaseImage(name, r.Version)
		}
		// The name of one image may be the beginning of another's.
		patterns[regexp.MustCompile(`(^|[\s"'=])`+regexp.QuoteMeta(stands)+`($|[\s"'])`)] = "${1}" + image + "${2}"
	}
	return func(text []byte) []byte {
		lines := strings.SplitAfter(strings.ReplaceAll(string(text), manifestVersion, r.Version), "\n")
		for i, line := range lines {
			for pattern, image := range patterns {
				if pattern.MatchString(line) {
					lines[i] = pattern.ReplaceAllString(line, image)
					break
				}
			}
		}
		return []byte(strings.Join(lines, ""))
	}, nil
}

// ReleaseImages are the names of the images that the manifests need, sorted.
func ReleaseImages() ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	names, err := imageNames(filepath.Join(root, "manifests", imageReferences))
	return slices.Sorted(maps.Keys(names)), err
}

// imageNames are the images of the file by their names in the release: what stands for them in the manifests.
func imageNames(file string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("read which images the manifests name: %w", err)
	}
	stream := struct {
		Spec struct {
			Tags []struct {
				Name string `json:"name"`
				From struct {
					Name string `json:"name"`
				} `json:"from"`
			} `json:"tags"`
		} `json:"spec"`
	}{}
	if err := yaml.Unmarshal(text, &stream); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	names := map[string]string{}
	for _, tag := range stream.Spec.Tags {
		names[tag.Name] = tag.From.Name
	}
	return names, nil
}

// ClusterOperator is that of storage.
func (c *Cluster) ClusterOperator(ctx context.Context) (*configv1.ClusterOperator, error) {
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "storage"}}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(operator), operator); err != nil {
		return nil, err
	}
	return operator, nil
}

// Reached returns nil when storage has come to a version, works and is complete. The cluster-version operator continues a little earlier: it
// does not wait for Progressing.
func (c *Cluster) Reached(ctx context.Context, version string) error {
	operator, err := c.ClusterOperator(ctx)
	if err != nil {
		return err
	}
	found := false
	for _, operand := range operator.Status.Versions {
		if operand.Version != version {
			return fmt.Errorf("%s is at version %s, not %s; %s", operand.Name, operand.Version, version, DescribeOperator(operator))
		}
		found = found || operand.Name == "operator"
	}
	if !found {
		return fmt.Errorf("no version is reported yet; %s", DescribeOperator(operator))
	}
	return Says(operator, map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{
		configv1.OperatorAvailable: configv1.ConditionTrue, configv1.OperatorProgressing: configv1.ConditionFalse,
		configv1.OperatorDegraded: configv1.ConditionFalse, configv1.OperatorUpgradeable: configv1.ConditionTrue,
	})
}

// Says compares conditions of a ClusterOperator with what they should be.
func Says(operator *configv1.ClusterOperator, want map[configv1.ClusterStatusConditionType]configv1.ConditionStatus) error {
	for kind, status := range want {
		found := OperatorCondition(operator, kind)
		if found.Status != status {
			return fmt.Errorf("ClusterOperator %s: %s is %q, not %s; %s", operator.Name, kind, found.Status, status, DescribeOperator(operator))
		}
	}
	return nil
}

// OperatorCondition is a condition of a ClusterOperator; an empty one if it has none of that type.
func OperatorCondition(operator *configv1.ClusterOperator, kind configv1.ClusterStatusConditionType) configv1.ClusterOperatorStatusCondition {
	for _, condition := range operator.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return configv1.ClusterOperatorStatusCondition{}
}

// DescribeOperator lists the conditions and versions of a ClusterOperator, one a line.
func DescribeOperator(operator *configv1.ClusterOperator) string {
	text := "it says:"
	for _, condition := range operator.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return text + fmt.Sprintf("\n  versions %v", operator.Status.Versions)
}
