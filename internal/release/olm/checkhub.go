package olm

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checkHub finds what the catalogs of OperatorHub refuse (operator-framework/api 07561be0, pkg/validation/internal/operatorhub.go), and what the
// scorecard of operator-sdk reports as failed (operator-framework/operator-sdk 2181a063, internal/scorecard/tests/olm.go, and 3fda0632, basic.go).
func checkHub(b bundle, _ Expected) []error {
	var problems []error
	say := b.into(&problems)
	annotations, spec := b.csv.Metadata.Annotations, b.csv.Spec
	if value := annotations["capabilities"]; !slices.Contains(capabilities(), value) {
		say("metadata.annotations.capabilities", "%q is none of %s", value, strings.Join(capabilities(), ", "))
	}
	for _, value := range strings.Split(annotations["categories"], ",") {
		if !slices.Contains(categories(), value) {
			say("metadata.annotations.categories", "%q is none of %s", value, strings.Join(categories(), ", "))
		}
	}
	if _, err := time.Parse(time.RFC3339, annotations["createdAt"]); err != nil {
		say("metadata.annotations.createdAt", "%q is no time of the form 2006-01-02T15:04:05Z", annotations["createdAt"])
	}
	for i, person := range spec.Maintainers {
		if _, err := mail.ParseAddress(person.Email); err != nil || person.Name == "" {
			say(fmt.Sprintf("spec.maintainers[%d]", i), "it needs a name and a valid email")
		}
	}
	for i, link := range spec.Links {
		if _, err := url.ParseRequestURI(link.URL); err != nil || link.Name == "" {
			say(fmt.Sprintf("spec.links[%d]", i), "it needs a name and a valid url")
		}
	}
	return append(problems, checkScorecard(b)...)
}

func capabilities() []string {
	return []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}
}

func categories() []string {
	return []string{
		"AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Developer Tools", "Database", "Integration & Delivery",
		"Logging & Tracing", "Monitoring", "Networking", "OpenShift Optional", "Security", "Storage", "Streaming & Messaging",
	}
}

// checkScorecard finds what the scorecard reports as failed. It skips descriptors of examples whose kind the bundle does not own, such as the
// ClusterCSIDriver. The scorecard always reports such descriptors as failed, because a bundle can describe only the kinds that it owns.
func checkScorecard(b bundle) []error {
	var problems []error
	say := b.into(&problems)
	owned := map[string]OwnedCRD{}
	for i, one := range b.csv.Spec.CRDs.Owned {
		owned[one.Kind] = one
		if len(one.Resources) == 0 {
			say(fmt.Sprintf("spec.customresourcedefinitions.owned[%d].resources", i), "it is empty")
		}
	}
	var examples []json.RawMessage
	if decodeJSON(b.csv.Metadata.Annotations[examplesAnnotation], &examples) != nil {
		// checkExamples reports invalid examples.
		return problems
	}
	for i, text := range examples {
		var example unstructured.Unstructured
		if json.Unmarshal(text, &example.Object) != nil {
			continue
		}
		fields, _, _ := unstructured.NestedMap(example.Object, "spec")
		if fields == nil {
			say(fmt.Sprintf("metadata.annotations.%s[%d]", examplesAnnotation, i), "%s has no spec", example.GetKind())
		}
		one, is := owned[example.GetKind()]
		for field := range fields {
			if is && !slices.ContainsFunc(one.SpecDescriptors, func(known Descriptor) bool { return known.Path == field }) {
				say("spec.customresourcedefinitions.owned", "%s has no specDescriptor of %s, which an example has", one.Kind, field)
			}
		}
	}
	return problems
}
