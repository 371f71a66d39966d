package olm_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	consolev1 "github.com/openshift/api/console/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
)

// consoleCRDs are those of OpenShift, in the module with its API.
const consoleCRDs = "console/v1/zz_generated.crd-manifests"

// taken checks an object against the CRD in a file. It returns what an API server would refuse or drop.
func taken(t *testing.T, file string, object map[string]any) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	must(t, yaml.Unmarshal(text, crd))
	schema := &spec.Schema{}
	encoded, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	must(t, err)
	must(t, json.Unmarshal(encoded, schema))
	closed(schema)
	var problems []string
	for _, problem := range validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(object).Errors {
		problems = append(problems, problem.Error())
	}
	return problems
}

// closed makes a schema refuse the fields that an API server would drop.
func closed(schema *spec.Schema) {
	if len(schema.Properties) > 0 {
		schema.AdditionalProperties = &spec.SchemaOrBool{}
	}
	for name, property := range schema.Properties {
		closed(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		closed(schema.Items.Schema)
	}
}

// openshiftAPI is the folder of OpenShift's API.
func openshiftAPI(t *testing.T) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output()
	must(t, err)
	return strings.TrimSpace(string(folder))
}

// ofConsole are the objects of the bundle that the console shows, by kind and name.
func ofConsole(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, _ := shipped(t, olm.Packages()[0])
	found := map[string]map[string]any{}
	for name, text := range files {
		object := map[string]any{}
		must(t, yaml.Unmarshal(text, &object))
		if object["apiVersion"] == "console.openshift.io/v1" {
			metadata, _ := object["metadata"].(map[string]any)
			found[object["kind"].(string)+" "+metadata["name"].(string)] = object
			if metadata["namespace"] != nil {
				t.Errorf("%s has a namespace: its kind is cluster-wide", name)
			}
		}
	}
	return found
}

func TestTheConsoleTakesWhatTheBundleHasForIt(t *testing.T) {
	crds := map[string]string{
		"ConsoleCLIDownload": "00_consoleclidownloads.crd.yaml", "ConsoleQuickStart": "00_consolequickstarts.crd.yaml",
		"ConsoleYAMLSample": "00_consoleyamlsamples.crd.yaml",
	}
	folder, counts := filepath.Join(openshiftAPI(t), filepath.FromSlash(consoleCRDs)), map[string]int{}
	for name, object := range ofConsole(t) {
		kind := object["kind"].(string)
		counts[kind]++
		for _, problem := range taken(t, filepath.Join(folder, crds[kind]), object) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	want := map[string]int{"ConsoleCLIDownload": 1, "ConsoleQuickStart": 3, "ConsoleYAMLSample": 3}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	// What the test relies on: the schema refuses what is wrong, and names what it would drop.
	wrong := map[string]any{"spec": map[string]any{"displayName": "", "durationMinutes": int64(0), "titel": "x"}}
	problems := strings.Join(taken(t, filepath.Join(folder, crds["ConsoleQuickStart"]), wrong), "\n")
	for _, field := range []string{"displayName", "durationMinutes", "introduction", "titel"} {
		if !strings.Contains(problems, field) {
			t.Errorf("the schema takes %s:\n%s", field, problems)
		}
	}
}

func TestTheConsoleLeadsToTheFilesOfTheRelease(t *testing.T) {
	current, err := release.Load(os.DirFS(root))
	must(t, err)
	text, err := yaml.Marshal(ofConsole(t)["ConsoleCLIDownload oc-storage"])
	must(t, err)
	download := &consolev1.ConsoleCLIDownload{}
	must(t, yaml.UnmarshalStrict(text, download))
	want := []string{}
	for _, platform := range release.Platforms() {
		want = append(want, current.Download(current.PluginArchive(platform)))
	}
	var links []string
	for _, link := range download.Spec.Links {
		links = append(links, link.Href)
	}
	if diff := cmp.Diff(append(want, current.Download("SHA256SUMS")), links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// The API server takes each YAML that the console shows people to paste.
func TestWhatPeoplePasteIsRight(t *testing.T) {
	var texts []string
	var next []string
	objects := ofConsole(t)
	for _, object := range objects {
		spec := object["spec"].(map[string]any)
		if sample, is := spec["yaml"].(string); is {
			texts = append(texts, sample)
			pasted := map[string]any{}
			must(t, yaml.Unmarshal([]byte(sample), &pasted))
			target := spec["targetResource"].(map[string]any)
			if pasted["kind"] != target["kind"] || pasted["apiVersion"] != target["apiVersion"] {
				t.Errorf("a sample of %v is for %v", pasted["kind"], target)
			}
		}
		tasks, _ := spec["tasks"].([]any)
		for _, task := range tasks {
			description := task.(map[string]any)["description"].(string)
			for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(description, -1) {
				texts = append(texts, block[1])
			}
		}
		following, _ := spec["nextQuickStart"].([]any)
		for _, name := range following {
			next = append(next, name.(string))
		}
	}
	kinds := map[string]int{}
	for _, text := range texts {
		object := map[string]any{}
		must(t, yaml.UnmarshalStrict([]byte(text), &object))
		kind, _ := object["kind"].(string)
		kinds[kind]++
		var problems []string
		switch kind {
		case "StorageClass":
			must(t, yaml.UnmarshalStrict([]byte(text), &storagev1.StorageClass{}))
		case "PersistentVolumeClaim":
			must(t, yaml.UnmarshalStrict([]byte(text), &corev1.PersistentVolumeClaim{}))
		case "SharedVolume":
			problems = taken(t, root+"/config/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml", object)
		case "ClusterCSIDriver":
			problems = taken(t, openshiftAPI(t)+"/payload-manifests/crds/0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml", object)
		default:
			t.Errorf("nobody knows the kind %q of\n%s", kind, text)
		}
		if len(problems) > 0 {
			t.Errorf("%s: %v", kind, problems)
		}
	}
	if diff := cmp.Diff(map[string]int{"StorageClass": 3, "PersistentVolumeClaim": 2, "SharedVolume": 1, "ClusterCSIDriver": 1}, kinds); diff != "" {
		t.Errorf("YAML to paste (-want +got):\n%s", diff)
	}
	slices.Sort(next)
	for _, name := range next {
		if objects["ConsoleQuickStart "+name] == nil {
			t.Errorf("a quick start leads to %s, which does not exist", name)
		}
	}
}
