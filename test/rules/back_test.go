package rules

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// recorded is what version 5.1.0 (commit 789cd1c) reads and writes: its golden files, its reference and its CRD, without descriptions.
type recorded struct {
	Annotations  []string                    `json:"annotations"`
	Conditions   []string                    `json:"conditions"`
	Drivers      map[string][]recordedObject `json:"drivers"`
	SharedVolume []map[string]any            `json:"sharedVolume"`
}

type recordedObject struct {
	Kind      string         `json:"kind"`
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	Selector  map[string]any `json:"selector"`
	RoleRef   string         `json:"roleRef"`
}

// ignored are names that this version writes and 5.1.0 does not know, with the reason why that does no harm.
func ignored() map[string]string {
	return map[string]string{
		"aws-efs.managed.openshift.io/volume-uid": "5.1.0 does not read it; this version writes it again, since the PVC and the PV name each other by UID",
		"AWSEFSSharedVolumeBoundToStranger":       "5.1.0 applies its conditions under the same field manager, so that the API server drops this one",
		"operator.openshift.io/node-pod-template": "only pods that pull images have it. 5.1.0 leaves their DaemonSet of a roll-out that it interrupts: " +
			"it starts no container, and its owner, the DaemonSet of the node pods, takes it along",
		"operator.openshift.io/accept-refused-volumes": "an administrator sets it, and 5.1.0 holds no node because of a refused volume",
		"operator.openshift.io/prevent-pod-scheduling-if-missing": "an administrator sets it, and 5.1.0 applies the CSIDriver without the field, which the " +
			"API server then sets to false",
		"AWSEFSMountTargetClosed":           "as AWSEFSSharedVolumeBoundToStranger",
		"AWSEFSMountsStalled":               "as AWSEFSSharedVolumeBoundToStranger",
		"AWSEFSSharedVolumesSettingUnknown": "as AWSEFSSharedVolumeBoundToStranger",
	}
}

func readRecorded(t *testing.T) recorded {
	t.Helper()
	text, err := os.ReadFile("testdata/back-5.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var found recorded
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// names are the names in the first columns of a section of the reference.
func names(t *testing.T, section string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guide/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## "+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	var found []string
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "| `") {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
				found = append(found, name[1])
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("section %s of the reference has no names", section)
	}
	return found
}

func TestThePreviousVersionKnowsTheNamesThatThisOneWrites(t *testing.T) {
	before, unused := readRecorded(t), ignored()
	for section, known := range map[string][]string{"Conditions": before.Conditions, "Annotations and labels": before.Annotations} {
		for _, name := range names(t, section) {
			if ignored()[name] == "" && !slices.Contains(known, name) {
				t.Errorf("5.1.0 does not know %s: say in ignored() why a downgrade does no harm", name)
			}
			delete(unused, name)
		}
	}
	for name := range unused {
		t.Errorf("%s is in ignored(), but this version does not write it", name)
	}
}

// A downgrade applies its own objects over ours. It can't change a selector or the role of a binding, and prunes only kinds that it knows.
func TestThePreviousVersionCanApplyItsObjectsOverThese(t *testing.T) {
	before := readRecorded(t)
	for name, theirs := range before.Drivers {
		text, err := os.ReadFile(filepath.Join("..", "..", "internal", "driver", name, "testdata", "base.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		kinds, byName := map[string]bool{}, map[string]recordedObject{}
		for _, object := range theirs {
			kinds[object.Kind], byName[object.Kind+" "+object.Namespace+"/"+object.Name] = true, object
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var object struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Metadata   struct {
					Name      string `json:"name"`
					Namespace string `json:"namespace"`
				} `json:"metadata"`
				Spec    struct{ Selector map[string]any } `json:"spec"`
				RoleRef struct{ Name string }             `json:"roleRef"`
			}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			if object.Kind == "" {
				continue
			}
			kind := object.Kind
			if group, _, grouped := strings.Cut(object.APIVersion, "/"); grouped {
				kind += "." + group
			}
			if !kinds[kind] {
				t.Errorf("%s: 5.1.0 has no %s, and would not prune %s", name, kind, object.Metadata.Name)
			}
			other, both := byName[kind+" "+object.Metadata.Namespace+"/"+object.Metadata.Name]
			if !both {
				continue
			}
			if other.Selector != nil && !reflect.DeepEqual(other.Selector, object.Spec.Selector) {
				t.Errorf("%s: the selector of %s %s is %v, that of 5.1.0 %v", name, kind, other.Name, object.Spec.Selector, other.Selector)
			}
			if other.RoleRef != object.RoleRef.Name {
				t.Errorf("%s: %s %s binds %s, that of 5.1.0 %s", name, kind, other.Name, object.RoleRef.Name, other.RoleRef)
			}
		}
	}
}

// A downgrade prunes by name, so it leaves the objects of which it knows no name. Then an administrator has to delete these objects.
func TestThePreviousVersionLeavesOnlyObjectsThatTheGuideDeletes(t *testing.T) {
	before := readRecorded(t)
	guide, err := os.ReadFile("../../docs/guide/going-back.md")
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all.Drivers() {
		settings, err := d.ReadSettings(func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		objects, err := d.Everything(scheme, d.OperandNamespace(kube.DefaultNamespace), settings)
		if err != nil {
			t.Fatal(err)
		}
		// 5.1.0 has these too, but not in the clusters of the record (its internal/driver/assets/cloudca, and
		// assets/storageclass*.yaml of gcppd, vsphere and awsefs).
		theirs := map[string]bool{
			"ConfigMap aws-ebs-csi-driver-cloud-ca-bundle": true, "StorageClass hyperdisk-balanced": true, "StorageClass thin-csi": true,
			"StorageClass efs-sc": true,
		}
		for _, objects := range before.Drivers {
			for _, object := range objects {
				kind, _, _ := strings.Cut(object.Kind, ".")
				theirs[kind+" "+object.Name] = true
			}
		}
		for _, object := range objects {
			kind, err := apiutil.GVKForObject(object, scheme)
			if err != nil {
				t.Fatal(err)
			}
			if named := strings.ToLower(kind.Kind) + "/" + object.GetName(); !theirs[kind.Kind+" "+object.GetName()] && !strings.Contains(string(guide), named) {
				t.Errorf("5.1.0 leaves %s of %s, and docs/guide/going-back.md does not delete it", named, d.Name)
			}
		}
	}
}

// A stored SharedVolume must pass the CRD of the previous version, and its operator must find the fields that it reads.
func TestThePreviousVersionReadsSharedVolumes(t *testing.T) {
	text, err := os.ReadFile("../../config/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []map[string]any `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	before := readRecorded(t)
	if len(crd.Spec.Versions) != len(before.SharedVolume) {
		t.Fatalf("%d versions, 5.1.0 has %d", len(crd.Spec.Versions), len(before.SharedVolume))
	}
	for i := range before.SharedVolume {
		compareSchema(t, "version", before.SharedVolume[i], crd.Spec.Versions[i])
	}
}

// compareSchema demands that a schema has everything of an older one. It may have more properties, but no other value.
func compareSchema(t *testing.T, at string, older, newer map[string]any) {
	t.Helper()
	for key, want := range older {
		got, there := newer[key]
		nested, isMap := want.(map[string]any)
		switch other, isToo := got.(map[string]any); {
		case !there:
			t.Errorf("%s.%s is gone", at, key)
		case isMap && isToo:
			compareSchema(t, at+"."+key, nested, other)
		case key != "description" && key != "additionalPrinterColumns" && key != "x-kubernetes-validations" && !reflect.DeepEqual(want, got):
			t.Errorf("%s.%s is %v, in 5.1.0 %v", at, key, got, want)
		}
	}
}

// Support relies on the page, and each row on a test.
func TestThePageAboutTurningOffNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/turning-it-off.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1) {
		named[name[1]] = true
	}
	if len(named) < 20 {
		t.Errorf("the page names %d tests", len(named))
	}
	for line := range strings.Lines(string(page)) {
		row := strings.HasPrefix(line, "| ") && strings.Count(line, " | ") == 6 && !strings.HasPrefix(line, "| What you do")
		if row && !strings.Contains(line, "`Test") {
			t.Errorf("a row without a test: %s", line)
		}
	}
	for _, root := range []string{"..", "../../internal"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range regexp.MustCompile(`(?:func |\{")(Test[A-Za-z0-9]+)`).FindAllStringSubmatch(string(text), -1) {
				delete(named, name[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range named {
		t.Errorf("no test has the name %s", name)
	}
}
