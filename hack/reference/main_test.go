package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const repository = "../.."

func TestThePageHasWhatTheCodeHas(t *testing.T) {
	problems, err := check(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}

// Readers looked for these in vain, before there was the page.
func TestTheCodeIsRead(t *testing.T) {
	want := map[string][]string{
		"metric": {"cluster_storage_operator_csi_driver_info", "cluster_storage_operator_condition", "default_storage_class_count"},
		"reason of an event": {
			"OperatorStatusChanged", "OperatorVersionChanged", "ClusterCSIDriverCreated", "ClusterCSIDriverCreateFailed", "TakenOver",
			"CreateClusterCSIDriver", "MountTargetMissing",
		},
		"annotation, label or finalizer": {"operator.openshift.io/force-driver-removal"},
		"environment variable":           {"LOOK_AT_AWS", "ROLEARN", "DRIVER_IMAGE", "AWS_EBS_DRIVER_OPERATOR_IMAGE", "OPERATOR_IMAGE_VERSION", "AWS_REGION"},
		"condition or reason":            {"WaitingForFileSystem", "ReplacingPods", "AWSEFSNodeCredentialsRequestController", "Failed", "Held"},
	}
	for _, one := range subjects() {
		found, err := one.find(repository)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range want[one.what] {
			if found[name] == "" {
				t.Errorf("%s %q is not found in the code", one.what, name)
			}
		}
		delete(want, one.what)
	}
	if len(want) > 0 {
		t.Errorf("nothing looks for %v", want)
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	one := subject{what: "metric", headings: []string{"Metrics"}, except: names{"a_b_c": "no metric", "gone": "no metric"}, besides: names{"theirs": "a library"}}
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"all well": {
			"## Metrics\n\n| `one`, `two` | text `other` |\n| `theirs` | |\n",
			[]string{`hack/reference: the code has no metric "gone" any more: remove its exception (no metric)`},
		},
		"no section": {"## Other\n\n| `one` | text |\n", []string{`docs/guide/reference.md: there is no section "Metrics"`}},
		"missing and stale": {"## Metrics\n\ntext `two`\n| `one` | text |\n| `three` | text |\n", []string{
			`y.go:2: metric "two" is in no table of ["Metrics"] in docs/guide/reference.md`,
			`docs/guide/reference.md:5: the code has no metric "three"`,
			`hack/reference: the code has no metric "gone" any more: remove its exception (no metric)`,
		}},
	} {
		found := names{"one": "x.go:1", "two": "y.go:2", "a_b_c": "z.go:3"}
		if diff := cmp.Diff(test.want, one.compare(found, tables(test.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPrefixesAndEndsDoNotCount(t *testing.T) {
	for name, want := range map[string]string{
		"AWSEFSMountTargetMissing":                      "MountTargetMissing",
		"…DriverNodeServiceController":                  "DriverNodeServiceController",
		"…DriverGuestStaticResourcesControllerDegraded": "DriverGuestStaticResourcesController",
		"CSIDriverStarterUpgradeable":                   "CSIDriverStarter",
		"DriverDegraded":                                "DriverDegraded",
		"Degraded":                                      "Degraded",
		"AWSEFS":                                        "AWSEFS",
	} {
		if got := plain(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestStringsKnowTheirPlace(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{
		"code/a.go": "package a\n\nimport \"fmt\"\n\nconst eventGone = \"Gone\"\nconst p problem = \"Bad\"\n" +
			"func f() { r.Eventf(o, nil, kind, \"Said\", \"Act\"); fmt.Println(\"text\", \"more\") }\n",
		"code/a_test.go":     "package a\n\nconst a = \"Test\"\n",
		"code/testdata/b.go": "package a\n\nconst b = \"Data\"\n",
		"code/testing/c.go":  "package a\n\nconst c = \"Golden\"\n",
		// What the driver of a vendor reports, the vendor documents.
		"internal/driver/vendor/v.go":         "package a\n\nconst v = \"Vendor\"\n",
		"packages/vendor/config/package.yaml": "driver: vendor.example.com\nname: vendor\ntitle: Vendor\nnamespace: drivers\n",
		"code/zz_generated.go":                "package a\n\nconst d = \"Generated\"\n",
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := literals(root, "code", "internal")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"vendor.example.com": true, "efs.csi.aws.com": false} {
		if third, err := isThirdParty(root, name); err != nil || third != want {
			t.Errorf("%s is a third-party driver: %t, error %v", name, third, err)
		}
	}
	want := []literal{
		{value: "Gone", place: "code/a.go:5", constant: "eventGone"},
		{value: "Bad", place: "code/a.go:6", constant: "p", kind: "problem"},
		{value: "Said", place: "code/a.go:7", call: "Eventf", argument: 3},
		{value: "Act", place: "code/a.go:7", call: "Eventf", argument: 4},
		{value: "text", place: "code/a.go:7", call: "Println"},
		{value: "more", place: "code/a.go:7", call: "Println", argument: 1},
	}
	if diff := cmp.Diff(want, found, cmp.AllowUnexported(literal{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(root, "code", "bad.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := literals(root, "code"); err == nil || !strings.Contains(err.Error(), "bad.go") {
		t.Errorf("a file that can't be parsed: %v", err)
	}
}
