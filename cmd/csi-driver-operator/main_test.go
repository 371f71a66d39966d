package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
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

// Nobody can remove a driver of the payload, and no operator but that of EFS puts a finalizer on its ClusterCSIDriver.
func TestNoDriverOfThisProgramIsRemovable(t *testing.T) {
	known, err := drivers()
	if err != nil || len(known) < 2 {
		t.Fatalf("%d drivers, error %v", len(known), err)
	}
	for name, d := range known {
		if d.Removable || len(d.LegacyFinalizers) > 0 {
			t.Errorf("%s can be removed", name)
		}
	}
}

func TestAWrongCommandLineIsRefusedWithWhatIsRight(t *testing.T) {
	known, err := drivers()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	if !strings.Contains(names, "ebs.csi.aws.com, ") {
		t.Errorf("the names are %s", names)
	}
	for _, tc := range []struct{ args, want string }{
		{"", "the first argument must be start"},
		{"stop", "the first argument must be start"},
		{"start", "--driver is missing: pass the CSI name of the driver, one of " + names},
		{"start --driver efs.csi.aws.com", "--driver efs.csi.aws.com: this program knows no such driver: pass one of " + names},
		{"start --driver ebs.csi.aws.com more", `unexpected argument "more"`},
	} {
		_, _, err := parse(strings.Fields(tc.args))
		if err == nil || err.Error() != tc.want {
			t.Errorf("%q: error %v, want %s", tc.args, err, tc.want)
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
