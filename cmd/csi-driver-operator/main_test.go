package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

func TestTheDriverIsChosenByItsName(t *testing.T) {
	for name, operator := range map[string]string{
		"ebs.csi.aws.com": "aws-ebs-csi-driver-operator", "pd.csi.storage.gke.io": "gcp-pd-csi-driver-operator",
	} {
		options, d, err := parse([]string{"start", "--driver", name, "--leader-elect=false", "--namespace=a"})
		if err != nil || d.Name != name || d.Operator != operator || options.LockName != operator+"-lock" || options.LeaderElect || options.Namespace != "a" {
			t.Errorf("%s: options %+v, driver %s of %s, error %v", name, options, d.Name, d.Operator, err)
		}
	}
}

// Nobody can remove a driver of the payload. Those that administrators install by OLM are in no catalogue, and can be removed.
func TestNoDriverOfThePayloadIsRemovable(t *testing.T) {
	payload := map[string]bool{}
	for _, entry := range catalogue.All() {
		payload[entry.Name] = true
	}
	known := operable()
	if len(known) < 2 {
		t.Fatalf("%d drivers", len(known))
	}
	for name, d := range known {
		if payload[name] && (d.Removable || len(d.LegacyFinalizers) > 0) {
			t.Errorf("%s can be removed", name)
		}
	}
}

func TestAWrongCommandLineIsRefusedWithWhatIsRight(t *testing.T) {
	known := operable()
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	if !strings.Contains(names, "ebs.csi.aws.com, ") {
		t.Errorf("the names are %s", names)
	}
	for _, tc := range []struct{ args, want string }{
		{"", "the first argument must be start, rights or images"},
		{"stop", "the first argument must be start, rights or images"},
		{"start", "--driver is missing: pass the CSI name of the driver, one of " + names},
		{"start --driver efs.csi.aws.com", "--driver efs.csi.aws.com: unknown driver: pass one of " + names},
		{"rights", "--driver is missing: pass the CSI name of the driver, one of " + names},
		{"start --driver ebs.csi.aws.com more", `unexpected argument "more"`},
	} {
		_, _, err := parse(strings.Fields(tc.args))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q: error %v, want %s", tc.args, err, tc.want)
		}
	}
}

func TestRBACIsPrintedAsRolesOfTheNamespace(t *testing.T) {
	for name, d := range operable() {
		out := &bytes.Buffer{}
		if err := printRoles(out, d, "elsewhere"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"kind: ClusterRole\nmetadata:\n  name: " + d.Operator + "\n", "kind: Role\nmetadata:\n  name: " + d.Operator + "\n  namespace: elsewhere\n",
			"  - " + d.Deployment + "\n", "  - " + name + "\n",
		} {
			if strings.Count(out.String(), want) == 0 {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
	}
}

func TestMissingImagesAreNamedBeforeAnythingIsStarted(t *testing.T) {
	for _, variable := range []string{"DRIVER_IMAGE", "PROVISIONER_IMAGE", "ATTACHER_IMAGE", "RESIZER_IMAGE"} {
		t.Setenv(variable, "registry.example/image")
	}
	t.Setenv("SNAPSHOTTER_IMAGE", "")
	err := run(t.Context(), []string{"start", "--driver", "pd.csi.storage.gke.io", "--kubeconfig", "there-is-none"})
	if err == nil || !strings.Contains(err.Error(), "SNAPSHOTTER_IMAGE") || strings.Contains(err.Error(), "ATTACHER_IMAGE") {
		t.Errorf("error %v", err)
	}
}
