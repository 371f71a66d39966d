package releases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/csi-operators/csi-operators/test/env"
)

// An API server refuses a server-side apply with a field that its version lacks, feature gate or not. The schemas of all versions are
// the tools that client-go has for its own applies.
func TestEveryKubernetesKnowsTheFieldsThatAreApplied(t *testing.T) {
	for _, r := range releases() {
		t.Run(r.version, func(t *testing.T) {
			parser, err := schemas(suite.modules[kubernetesModule+"@"+r.kubernetes])
			env.Must(t, err)
			count, refused := 0, map[string]bool{}
			each(suite.applied, func(from string, object *unstructured.Unstructured) {
				if strings.HasPrefix(from, "manifests/") && r.minor() < ownMinor {
					return
				}
				kind := parser.Type(typeName(object))
				if !kind.IsValid() {
					if !defined(object) {
						t.Errorf("%s: it has no kind %s", from, object.GroupVersionKind())
					}
					return
				}
				count++
				_, err := kind.FromUnstructured(object.Object)
				since := gated()[from]
				if r.minor() < since.since && err != nil && strings.Contains(err.Error(), since.field) {
					refused[from] = true
				} else if err != nil {
					t.Errorf("%s: %s %s: %v", from, object.GetKind(), object.GetName(), err)
				}
			})
			if count < 250 {
				t.Errorf("only %d objects were tried", count)
			}
			for from, since := range gated() {
				if r.minor() < since.since && !refused[from] {
					t.Errorf("%s: Kubernetes 1.%d knows the field %s already", from, r.minor(), since.field)
				}
			}
		})
	}
}

// defined reports whether a kind is defined by a CRD, which no schema of Kubernetes has.
func defined(object *unstructured.Unstructured) bool {
	group := object.GroupVersionKind().Group
	return strings.Contains(group, "openshift.io") || group == "monitoring.coreos.com" || group == "snapshot.storage.k8s.io" ||
		object.GetKind() == "CustomResourceDefinition"
}

// ownMinor is the Kubernetes of the release that manifests/ is a part of (env.ClusterRelease). No older one gets these manifests.
const ownMinor = 34

// schemas are those of the version of client-go in a folder.
func schemas(module string) (*typed.Parser, error) {
	text, err := os.ReadFile(filepath.Join(module, "applyconfigurations", "internal", "internal.go"))
	if err != nil {
		return nil, err
	}
	_, rest, begins := strings.Cut(string(text), "typed.YAMLObject(`")
	schema, _, ends := strings.Cut(rest, "`)")
	if !begins || !ends {
		return nil, fmt.Errorf("%s: the schemas are not where they were", module)
	}
	return typed.NewParser(typed.YAMLObject(schema))
}

// typeName is what the schema of a kind is called, as io.k8s.api.apps.v1.Deployment.
func typeName(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind()
	group, _, _ := strings.Cut(kind.Group, ".")
	if group == "" {
		group = "core"
	}
	return "io.k8s.api." + group + "." + kind.Version + "." + kind.Kind
}
