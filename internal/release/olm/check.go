package olm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	consolev1 "github.com/openshift/api/console/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/csi-operators/csi-operators/internal/release"
)

// mostBytes is the size limit of a bundle's manifests. OLM unpacks them into one ConfigMap, which newer versions of OLM compress. etcd does not
// accept a larger ConfigMap.
const mostBytes = 1 << 20

// Expected has the facts that a bundle must match.
type Expected struct {
	Release release.Release
	Package Package
	RBAC    RBAC
	// Stored is the CRD of SharedVolumes of the last release, or of the community's operator. Clusters can have stored every object that this CRD
	// allows.
	Stored *apiextensionsv1.CustomResourceDefinition
}

// StoredFile is the file with the CRD that clusters have before an upgrade.
const StoredFile = "config/manifests/stored/sharedvolumes.yaml"

// Expect reads the facts that the bundle of a package must match. stored is the file with the CRD that existing clusters already have, such as
// StoredFile. If the package has no CRDs, Expect does not read this file.
func Expect(repository fs.FS, r release.Release, p Package, stored string) (Expected, error) {
	expected := Expected{Release: r, Package: p, Stored: &apiextensionsv1.CustomResourceDefinition{}}
	var err error
	if expected.RBAC, err = Roles(repository); err != nil {
		return expected, err
	}
	if !p.defines() {
		return expected, nil
	}
	return expected, source{repository: repository, release: r, pkg: p}.read(stored, expected.Stored)
}

// bundle is a bundle that Check has read.
type bundle struct {
	csvFile string
	csv     *ClusterServiceVersion
	crds    map[string]*apiextensionsv1.CustomResourceDefinition
	crdFile map[string]string
}

// problem returns an error for a fault in a bundle. OLM would refuse the bundle, drop the faulty field without a message, or fail later.
func problem(file, field, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %s", file, field, fmt.Sprintf(format, args...))
}

// into returns a function that adds an error about the ClusterServiceVersion to a list.
func (b bundle) into(problems *[]error) func(field, format string, args ...any) {
	return func(field, format string, args ...any) {
		*problems = append(*problems, problem(b.csvFile, field, format, args...))
	}
}

// Check checks a bundle. Its error has a sentence for each fault, which names the file and the field.
func Check(files Files, expected Expected) error {
	found, problems := readBundle(files)
	problems = append(problems, checkAnnotationsFile(files, expected)...)
	if found.csv == nil {
		return errors.Join(append(problems, fmt.Errorf("manifests/: no ClusterServiceVersion"))...)
	}
	for _, check := range []func(bundle, Expected) []error{
		checkIdentity, checkMetadata, checkDeployments, checkRBAC, checkImages, checkOwned, checkExamples, checkHub,
	} {
		problems = append(problems, check(found, expected)...)
	}
	return errors.Join(problems...)
}

// readBundle decodes every manifest strictly.
func readBundle(files Files) (bundle, []error) {
	found := bundle{crds: map[string]*apiextensionsv1.CustomResourceDefinition{}, crdFile: map[string]string{}}
	var problems []error
	total := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, "manifests/") {
			continue
		}
		total += len(files[name])
		problems = append(problems, found.readManifest(name, files[name])...)
	}
	if total > mostBytes {
		problems = append(problems, fmt.Errorf("manifests/: %d bytes, OLM takes no more than %d", total, mostBytes))
	}
	return found, problems
}

func (b *bundle) readManifest(name string, text []byte) []error {
	objects, err := decode(name, text)
	if err != nil {
		return []error{err}
	}
	if len(objects) != 1 {
		return []error{fmt.Errorf("%s has %d objects: write one object into each file, because OLM reads only one", name, len(objects))}
	}
	object := objects[0]
	into := supported()[object.GetAPIVersion()+" "+object.GetKind()]
	if into == nil {
		return []error{problem(name, "kind", "OLM does not install %s %s from a bundle", object.GetAPIVersion(), object.GetKind())}
	}
	if err := unmarshal(text, into); err != nil {
		return []error{fmt.Errorf("%s: OLM would drop a field, or fail: %w", name, err)}
	}
	switch typed := into.(type) {
	case *ClusterServiceVersion:
		if b.csv != nil {
			return []error{fmt.Errorf("%s: a second ClusterServiceVersion beside %s", name, b.csvFile)}
		}
		b.csv, b.csvFile = typed, name
	case *apiextensionsv1.CustomResourceDefinition:
		b.crds[typed.Name], b.crdFile[typed.Name] = typed, name
	}
	if object.GetNamespace() != "" {
		return []error{problem(name, "metadata.namespace", "OLM replaces %q by the namespace of the installation: leave it out", object.GetNamespace())}
	}
	return nil
}

// supported returns the kinds that OLM can install and that our bundles can contain. OLM also installs ClusterRoleBindings and PriorityClasses, but
// our bundles need none.
func supported() map[string]any {
	return map[string]any{
		"operators.coreos.com/v1alpha1 ClusterServiceVersion": &ClusterServiceVersion{},
		"apiextensions.k8s.io/v1 CustomResourceDefinition":    &apiextensionsv1.CustomResourceDefinition{},
		"rbac.authorization.k8s.io/v1 ClusterRole":            &rbacv1.ClusterRole{},
		"rbac.authorization.k8s.io/v1 Role":                   &rbacv1.Role{},
		"rbac.authorization.k8s.io/v1 RoleBinding":            &rbacv1.RoleBinding{},
		"v1 Service": &corev1.Service{},
		"monitoring.coreos.com/v1 ServiceMonitor": &monitoringv1.ServiceMonitor{},
		"monitoring.coreos.com/v1 PrometheusRule": &monitoringv1.PrometheusRule{},
		// OLM can install these kinds since 2021: operator-lifecycle-manager 992bb09, pkg/controller/operators/catalog/supportedresources.go.
		"console.openshift.io/v1 ConsoleCLIDownload": &consolev1.ConsoleCLIDownload{},
		"console.openshift.io/v1 ConsoleQuickStart":  &consolev1.ConsoleQuickStart{},
		"console.openshift.io/v1 ConsoleYAMLSample":  &consolev1.ConsoleYAMLSample{},
	}
}

// checkAnnotationsFile compares the annotations by which OLM recognizes a bundle with the expected annotations.
func checkAnnotationsFile(files Files, e Expected) []error {
	const name = "metadata/annotations.yaml"
	var found struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := unmarshal(files[name], &found); err != nil {
		return []error{fmt.Errorf("%s: %w", name, err)}
	}
	var problems []error
	wanted := e.Package.annotations(e.Release.Version)
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if found.Annotations[key] != wanted[key] {
			problems = append(problems, problem(name, "annotations."+key, "it is %q, want %q", found.Annotations[key], wanted[key]))
		}
	}
	return problems
}

// decodeJSON reads an annotation, strictly.
func decodeJSON(text string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("it is not the JSON that OLM reads: %w", err)
	}
	return nil
}
