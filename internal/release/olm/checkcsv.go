package olm

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csi-operators/csi-operators/internal/release"
)

// mostNameBytes is the size limit of the name of a ClusterServiceVersion, because OLM puts this name into a label.
const mostNameBytes = 63

// checkIdentity checks names and versions.
func checkIdentity(b bundle, e Expected) []error {
	var problems []error
	say := b.into(&problems)
	version, name := e.Package.Version(e.Release.Version), e.Package.CSVName(e.Release.Version)
	if b.csv.Metadata.Name != name {
		say("metadata.name", "it is %q, want package and version, %q", b.csv.Metadata.Name, name)
	}
	if len(b.csv.Metadata.Name) > mostNameBytes {
		say("metadata.name", "%d bytes, OLM takes no more than %d", len(b.csv.Metadata.Name), mostNameBytes)
	}
	if b.csv.Spec.Version != version.String() {
		say("spec.version", "it is %q, want %q", b.csv.Spec.Version, version)
	}
	if _, err := semver.Parse(b.csv.Spec.MinKubeVersion); err != nil {
		say("spec.minKubeVersion", "%q is no version with three numbers: %v", b.csv.Spec.MinKubeVersion, err)
	}
	if text := b.csv.Metadata.Annotations[skipRangeAnnotation]; text != "" {
		if err := checkSkipRange(text, version); err != nil {
			say("metadata.annotations."+skipRangeAnnotation, "%v", err)
		}
	} else {
		say("metadata.annotations."+skipRangeAnnotation, "it is missing: without it, OLM does not update older versions to this one")
	}
	if err := checkProperties(b.csv.Metadata.Annotations[propertyAnnotation], e); err != nil {
		say("metadata.annotations."+propertyAnnotation, "%v", err)
	}
	return problems
}

// checkSkipRange refuses a range that contains the version itself or a later version. With such a range, OLM would offer the version as an upgrade of
// itself or of a later version.
func checkSkipRange(text string, version semver.Version) error {
	includes, err := semver.ParseRange(text)
	if err != nil {
		return fmt.Errorf("%q is no range of versions: %w", text, err)
	}
	later := version
	later.Pre = nil
	later.Patch++
	if includes(version) || includes(later) {
		return fmt.Errorf("%q includes version %s or a later one: end it with \"<%s\"", text, version, version)
	}
	return nil
}

// Property is a property of a bundle, which OLM reads.
type Property struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

// maxOpenShift is the property with the highest OpenShift version to which OLM lets a cluster upgrade while the cluster has this operator.
const maxOpenShift = "olm.maxOpenShiftVersion"

// checkProperties checks the highest OpenShift version. It refuses an invalid version. It also refuses a version that is not above the release's own
// version, because clusters with the release's OpenShift version could then not upgrade.
func checkProperties(text string, e Expected) error {
	version := e.Release.Version
	var properties []Property
	if err := decodeJSON(text, &properties); err != nil {
		return err
	}
	for _, property := range properties {
		if property.Type != maxOpenShift {
			continue
		}
		highest := regexp.MustCompile(`^([0-9]+)\.([0-9]+)$`).FindStringSubmatch(fmt.Sprint(property.Value))
		if highest == nil {
			return fmt.Errorf("%s %v is not of the form X.Y", maxOpenShift, property.Value)
		}
		major, _ := strconv.ParseUint(highest[1], 10, 64)
		minor, _ := strconv.ParseUint(highest[2], 10, 64)
		if e.Package.OwnVersions {
			return nil
		}
		if major < version.Major || (major == version.Major && minor <= version.Minor) {
			return fmt.Errorf("%s %v is not above the release, %s", maxOpenShift, property.Value, version)
		}
		return nil
	}
	return fmt.Errorf("%s is missing", maxOpenShift)
}

// checkMetadata checks the texts that users see.
func checkMetadata(b bundle, e Expected) []error {
	var problems []error
	say := b.into(&problems)
	spec := b.csv.Spec
	for field, value := range map[string]string{
		"displayName": spec.DisplayName, "description": spec.Description, "maturity": spec.Maturity, "provider.name": spec.Provider.Name,
	} {
		if value == "" {
			say("spec."+field, "it is missing")
		}
	}
	if len(spec.Keywords) == 0 || len(spec.Maintainers) == 0 || len(spec.Links) == 0 {
		say("spec", "keywords, maintainers and links need an entry each")
	}
	if len(spec.Icon) != 1 {
		say("spec.icon", "%d icons, want one", len(spec.Icon))
	} else if text, err := base64.StdEncoding.DecodeString(spec.Icon[0].Data); err != nil || !strings.Contains(string(text), "<svg") {
		say("spec.icon[0].base64data", "it is no picture of type %s", spec.Icon[0].MediaType)
	}
	return append(problems, checkConsole(b, e)...)
}

// checkConsole checks the install modes, and the annotations by which the console and OpenShift's catalogs describe and filter operators.
func checkConsole(b bundle, e Expected) []error {
	var problems []error
	say := b.into(&problems)
	modes := map[string]bool{}
	for _, mode := range b.csv.Spec.InstallModes {
		modes[mode.Type] = mode.Supported
	}
	wanted := map[string]bool{"OwnNamespace": false, "SingleNamespace": false, "MultiNamespace": false, "AllNamespaces": true}
	if !maps.Equal(modes, wanted) {
		say("spec.installModes", "they are %v, want %v: the operator serves every namespace", modes, wanted)
	}
	keys := requiredAnnotations()
	if e.Package.Suffix == "" {
		keys = append(keys, suggestedAnnotation, namespaceAnnotation)
	}
	for _, key := range keys {
		if b.csv.Metadata.Annotations[key] == "" {
			say("metadata.annotations."+key, "it is missing")
		}
	}
	for key, value := range b.csv.Metadata.Annotations {
		if strings.HasPrefix(key, "features.operators.openshift.io/") && value != "true" && value != "false" {
			say("metadata.annotations."+key, "%q is neither true nor false", value)
		}
	}
	return problems
}

// requiredAnnotations returns the annotations that the console and OpenShift's catalogs read.
func requiredAnnotations() []string {
	features := []string{
		"cnf", "cni", "csi", "disconnected", "fips-compliant", "proxy-aware", "tls-profiles", "token-auth-aws", "token-auth-azure", "token-auth-gcp",
	}
	keys := []string{
		"capabilities", "categories", "containerImage", "createdAt", "description", "repository", "support", examplesAnnotation, initAnnotation,
	}
	for _, feature := range features {
		keys = append(keys, "features.operators.openshift.io/"+feature)
	}
	return keys
}

// checkDeployments checks the operator's Deployments and their pods.
func checkDeployments(b bundle, _ Expected) []error {
	var problems []error
	install := b.csv.Spec.Install.Spec
	if b.csv.Spec.Install.Strategy != "deployment" || len(install.Deployments) == 0 {
		problems = append(problems, problem(b.csvFile, "spec.install", "OLM needs strategy \"deployment\" and a Deployment"))
	}
	granted := map[string]bool{}
	for _, permission := range slices.Concat(install.ClusterPermissions, install.Permissions) {
		granted[permission.ServiceAccountName] = true
	}
	for i, deployment := range install.Deployments {
		say := func(field, format string, args ...any) {
			problems = append(problems, problem(b.csvFile, fmt.Sprintf("spec.install.spec.deployments[%d].%s", i, field), format, args...))
		}
		pod := deployment.Spec.Template.Spec
		if !granted[pod.ServiceAccountName] {
			say("spec.template.spec.serviceAccountName", "OLM does not create %q, which has no permissions", pod.ServiceAccountName)
		}
		if class := pod.PriorityClassName; class != "" && class != "system-cluster-critical" && class != "system-node-critical" {
			say("spec.template.spec.priorityClassName",
				"PriorityClass %q does not exist in every cluster: use system-cluster-critical or system-node-critical", class)
		}
		if selector := deployment.Spec.Selector; selector == nil || !within(selector.MatchLabels, deployment.Spec.Template.Labels) {
			say("spec.selector", "it does not match the pods' labels")
		}
		for j, container := range pod.Containers {
			where := fmt.Sprintf("spec.template.spec.containers[%d]", j)
			if wrong := checkProbes(container); wrong != "" {
				say(where, "%s", wrong)
			}
			if container.Image == "" {
				say(where+".image", "it is missing")
			}
		}
	}
	return problems
}

func within(part, whole map[string]string) bool {
	for key, value := range part {
		if whole[key] != value {
			return false
		}
	}
	return len(part) > 0
}

// checkRBAC compares the permissions in the bundle with the roles that the operator has in tests.
func checkRBAC(b bundle, e Expected) []error {
	var problems []error
	for _, list := range []struct {
		field   string
		granted []Permission
		needed  []rbacv1.PolicyRule
	}{
		{"clusterPermissions", b.csv.Spec.Install.Spec.ClusterPermissions, e.RBAC.Cluster},
		{"permissions", b.csv.Spec.Install.Spec.Permissions, e.RBAC.Namespaced},
	} {
		field := "spec.install.spec." + list.field
		var granted []rbacv1.PolicyRule
		for _, permission := range list.granted {
			granted = append(granted, permission.Rules...)
		}
		for _, rule := range list.needed {
			if reason := broad(rule); reason != "" {
				problems = append(problems, problem(roleFile, list.field, "%s: %s", reason, rule.String()))
			}
		}
		for _, rule := range missing(list.needed, granted) {
			problems = append(problems, problem(b.csvFile, field, "a rule of %s is missing: %s", roleFile, rule.String()))
		}
		for _, rule := range missing(granted, list.needed) {
			problems = append(problems, problem(b.csvFile, field, "the rule is not in %s: %s", roleFile, rule.String()))
		}
	}
	return problems
}

// broad returns why a rule grants too much, or "" if it does not.
func broad(rule rbacv1.PolicyRule) string {
	for _, part := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
		if slices.Contains(part, "*") {
			return "a rule must not hold *"
		}
	}
	if len(rule.ResourceNames) > 0 {
		return ""
	}
	for _, verb := range []string{"escalate", "bind", "impersonate"} {
		if slices.Contains(rule.Verbs, verb) {
			return verb + " must be narrowed by resourceNames"
		}
	}
	if slices.Contains(rule.Resources, "secrets") {
		return "Secrets must be narrowed by resourceNames"
	}
	return ""
}

// missing returns the rules in argument "wanted" that are not in argument "given".
func missing(wanted, given []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.DeleteFunc(slices.Clone(wanted), func(rule rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(given, func(other rbacv1.PolicyRule) bool { return reflect.DeepEqual(rule, other) })
	})
}

// checkImages compares spec.relatedImages, the list of images for mirrors, with the images of the pods. It also compares the images of the pods with
// the images of the release.
func checkImages(b bundle, e Expected) []error {
	var problems []error
	say := b.into(&problems)
	used, related, released := b.images(), map[string]bool{}, map[string]bool{}
	for _, image := range b.csv.Spec.RelatedImages {
		if image.Name == "" || related[image.Image] {
			say("spec.relatedImages", "image %s has no name, or is listed twice", image.Image)
		}
		related[image.Image] = true
	}
	for _, image := range e.Release.Images {
		released[image.PullSpec()] = true
	}
	for _, list := range []struct {
		has, lacks map[string]bool
		field, say string
	}{
		{used, related, "spec.relatedImages", "%q is missing, so a mirror would lack this image"},
		{related, used, "spec.relatedImages", "nothing uses %q"},
		{used, released, "spec.install.spec.deployments", "image %q is not in " + release.ImagesFile},
		{released, used, "spec.install.spec.deployments", "image %q of " + release.ImagesFile + " is missing"},
	} {
		for _, image := range slices.Sorted(maps.Keys(list.has)) {
			if !list.lacks[image] {
				say(list.field, list.say, image)
			}
		}
	}
	if image := b.csv.Metadata.Annotations["containerImage"]; !used[image] {
		say("metadata.annotations.containerImage", "no container has %q", image)
	}
	return problems
}

// images returns the images of the operator's containers, and the images of the containers that the operator starts.
func (b bundle) images() map[string]bool {
	used := map[string]bool{}
	for _, deployment := range b.csv.Spec.Install.Spec.Deployments {
		pod := deployment.Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			used[container.Image] = true
			for _, variable := range container.Env {
				if strings.HasSuffix(variable.Name, "_IMAGE") {
					used[variable.Value] = true
				}
			}
		}
	}
	return used
}

// checkProbes returns what is wrong with the probes of an operator's container, or "".
func checkProbes(container corev1.Container) string {
	switch {
	case container.LivenessProbe == nil || container.ReadinessProbe == nil:
		return "it has no livenessProbe or no readinessProbe"
	case container.ReadinessProbe.PeriodSeconds > 2:
		return "its readinessProbe runs too seldom: the pod would be ready ten seconds late"
	}
	return ""
}
