package payload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// manifests has the parsed objects of the manifests, by the names of the files.
type manifests struct {
	Release
	objects map[string][]unstructured.Unstructured
}

// Check checks the manifests. Its error lists every fault that would cause a problem in the cluster-version operator or in a cluster.
func (r Release) Check(files map[string][]byte) error {
	parsed := manifests{Release: r, objects: map[string][]unstructured.Unstructured{}}
	var problems []error
	for _, name := range sorted(files) {
		objects, err := parse(files[name])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		if name != ReferencesFile {
			parsed.objects[name] = objects
		}
	}
	for _, name := range sorted(parsed.objects) {
		problems = append(problems, checkName(name))
		if len(parsed.objects[name]) == 0 {
			problems = append(problems, fmt.Errorf("%s: it has no objects", name))
		}
		for i := range parsed.objects[name] {
			if err := checkObject(name, &parsed.objects[name][i]); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s: %w", name, title(&parsed.objects[name][i]), err))
			}
		}
	}
	problems = append(problems, parsed.checkNamespaces(), parsed.checkImages(files[ReferencesFile]), parsed.checkRoles(), parsed.checkRequests())
	return errors.Join(problems...)
}

func parse(text []byte) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)+1)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return objects, fmt.Errorf("parse: %w", err)
		case len(object) > 0:
			objects = append(objects, unstructured.Unstructured{Object: object})
		}
	}
}

func title(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// checkName checks the name of a file. The names determine the order in which the cluster-version operator applies the files.
func checkName(name string) error {
	if !regexp.MustCompile(`^0000_(49|50|90)_` + catalogue.Operator + `_[0-9]{2}_[a-z0-9-]+\.yaml$`).MatchString(name) {
		return fmt.Errorf(
			"%s: the name must be 0000_RUNLEVEL_%s_NN_NAME.yaml: RUNLEVEL is 49, 50 or 90, NN is two digits, NAME has only a-z, 0-9 and -",
			name, catalogue.Operator)
	}
	return nil
}

// checkObject checks the annotations that the cluster-version operator reads, and the object's run level and egress.
func checkObject(file string, object *unstructured.Unstructured) error {
	var problems []error
	profiles := 0
	for annotation, value := range object.GetAnnotations() {
		profile, isProfile := strings.CutPrefix(annotation, profilePrefix)
		if !isProfile {
			continue
		}
		profiles++
		if value != "true" || !slices.Contains(allProfiles(), profile) {
			problems = append(problems, fmt.Errorf("annotation %s: %q: clusters read only the annotations of known profiles, "+
				"with the value \"true\"", annotation, value))
		}
	}
	if profiles == 0 {
		problems = append(problems, errors.New("the manifest is in no profile, so no cluster gets it"))
	}
	wanted := string(configv1.ClusterVersionCapabilityStorage)
	switch {
	case strings.HasPrefix(file, shared):
		wanted = ""
	case object.GetKind() == "CredentialsRequest":
		wanted += "+" + string(configv1.ClusterVersionCapabilityCloudCredential)
	}
	if got := object.GetAnnotations()[capabilityAnnotation]; got != wanted {
		problems = append(problems, fmt.Errorf("annotation %s is %q, not %q", capabilityAnnotation, got, wanted))
	}
	if got := object.GetAnnotations()["release.openshift.io/create-only"] == "true"; got != (object.GetKind() == "Storage") {
		problems = append(problems, errors.New("annotation release.openshift.io/create-only must be on Storage, which administrators change, "+
			"and on no other object"))
	}
	if level := strings.HasPrefix(file, monitoring); level != slices.Contains(monitoringKinds(), object.GetKind()) && !isMonitoring(file, object) {
		problems = append(problems, fmt.Errorf("its kind is not for run level %s", file[5:7]))
	}
	return errors.Join(append(problems, checkEgress(object))...)
}

// checkEgress finds pods that can't reach the API server of IBM's hosted control planes. This API server can have any port number, but a label limits
// the pods to a few ports.
func checkEgress(object *unstructured.Unstructured) error {
	pod, _, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
	isLimited := pod[openshift.APIServerLabel] != "" && pod[openshift.AllEgressLabel] == ""
	switch {
	case err != nil:
		return fmt.Errorf("read the labels of its pods: %w", err)
	case !isLimited || object.GetAnnotations()[profilePrefix+ibmManaged] == "":
		return nil
	}
	return fmt.Errorf("its pods connect to ports 6443 and 443 only: add label %s", openshift.AllEgressLabel)
}

// monitoringKinds returns the kinds of monitoring objects whose CRDs come from other parts of a cluster.
func monitoringKinds() []string { return []string{"ServiceMonitor", "PrometheusRule"} }

// isMonitoring reports whether a file has the monitoring run level, and the object may be in such a file. Only objects for Prometheus, such as a
// Role, and the policy that closes a namespace may be in such files.
func isMonitoring(file string, object *unstructured.Unstructured) bool {
	return strings.HasPrefix(file, monitoring) && (strings.HasSuffix(object.GetName(), "-prometheus") || object.GetName() == "default-deny")
}

// checkNamespaces finds objects whose Namespace no manifest creates, or only a later manifest creates.
func (m manifests) checkNamespaces() error {
	// Other parts of a cluster create these namespaces, at lower run levels.
	known := []string{
		"", "default", "kube-system", "openshift-cloud-credential-operator", "openshift-config", "openshift-config-managed", "openshift-monitoring",
	}
	var problems []error
	for _, name := range sorted(m.objects) {
		for i := range m.objects[name] {
			object := &m.objects[name][i]
			if object.GetKind() == "Namespace" {
				known = append(known, object.GetName())
			}
			if !slices.Contains(known, object.GetNamespace()) {
				problems = append(problems, fmt.Errorf("%s: %s: no earlier manifest creates its namespace", name, title(object)))
			}
		}
	}
	return errors.Join(problems...)
}

// each calls function look with every object of a kind, except objects that the cluster-version operator deletes.
func (m manifests) each(kind string, look func(file string, object *unstructured.Unstructured)) {
	for _, name := range sorted(m.objects) {
		for i := range m.objects[name] {
			if m.objects[name][i].GetKind() == kind && m.objects[name][i].GetAnnotations()[deleteAnnotation] == "" {
				look(name, &m.objects[name][i])
			}
		}
	}
}

// referencedOnly is an image that no manifest names. OpenShift's cluster-storage-operator keeps this image in a release, for people who deploy
// the sidecar (cluster-storage-operator 9d7b10970, manifests/image-references:57).
const referencedOnly = "quay.io/openshift/origin-csi-external-snapshot-metadata:latest"

// checkImages compares the environment variables of the Deployments with the catalogue. It also compares the images with the image references.
func (m manifests) checkImages(references []byte) error {
	wanted := map[string]bool{}
	for _, entry := range m.Entries {
		for _, variable := range entry.Variables() {
			wanted[variable] = true
		}
	}
	replaced, err := replacedImages(references)
	if err != nil {
		return err
	}
	var problems []error
	used, deployments := map[string]bool{referencedOnly: true}, 0
	m.each("Deployment", func(file string, object *unstructured.Unstructured) {
		deployments++
		image, variables := containerOf(object)
		used[image] = true
		for name, value := range variables {
			used[value] = used[value] || wanted[name]
		}
		problems = append(problems, checkVariables(file, variables, wanted))
	})
	if deployments == 0 {
		problems = append(problems, errors.New("there is no Deployment"))
	}
	for _, image := range sorted(used) {
		if used[image] && !replaced[image] {
			problems = append(problems, fmt.Errorf("%s: it does not have image %s", ReferencesFile, image))
		}
	}
	for _, image := range sorted(replaced) {
		if !used[image] {
			problems = append(problems, fmt.Errorf("%s: no manifest has image %s", ReferencesFile, image))
		}
	}
	return errors.Join(problems...)
}

// checkVariables compares the environment variables of a Deployment with the wanted environment variables.
func checkVariables(file string, variables map[string]string, wanted map[string]bool) error {
	var problems []error
	for _, name := range sorted(wanted) {
		if variables[name] == "" {
			problems = append(problems, fmt.Errorf("%s: environment variable %s is missing", file, name))
		}
	}
	for _, name := range sorted(variables) {
		switch {
		case !strings.HasSuffix(name, "_VERSION") && !wanted[name]:
			problems = append(problems, fmt.Errorf("%s: unneeded environment variable %s", file, name))
		case strings.HasSuffix(name, "_VERSION") && variables[name] != Version:
			problems = append(problems, fmt.Errorf(
				"%s: environment variable %s is %s, want the placeholder %s, which the release build replaces", file, name, variables[name], Version))
		}
	}
	return errors.Join(problems...)
}

// containerOf returns the image of a Deployment's only container, and the environment variables that have a value.
func containerOf(deployment *unstructured.Unstructured) (image string, variables map[string]string) {
	variables = map[string]string{}
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	for _, each := range containers {
		container, ok := each.(map[string]any)
		if !ok {
			continue
		}
		image, _, _ = unstructured.NestedString(container, "image")
		environment, _, _ := unstructured.NestedSlice(container, "env")
		for _, each := range environment {
			if variable, ok := each.(map[string]any); ok && variable["value"] != nil {
				variables[fmt.Sprint(variable["name"])] = fmt.Sprint(variable["value"])
			}
		}
	}
	return image, variables
}

// replacedImages returns the images that a build of a release replaces.
func replacedImages(references []byte) (map[string]bool, error) {
	streams, err := parse(references)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ReferencesFile, err)
	}
	if len(streams) != 1 {
		return nil, fmt.Errorf("%s: %d objects instead of one ImageStream", ReferencesFile, len(streams))
	}
	replaced := map[string]bool{}
	tags, _, _ := unstructured.NestedSlice(streams[0].Object, "spec", "tags")
	for _, each := range tags {
		if tag, ok := each.(map[string]any); ok {
			image, _, _ := unstructured.NestedString(tag, "from", "name")
			replaced[image] = true
		}
	}
	return replaced, nil
}
