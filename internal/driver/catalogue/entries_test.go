package catalogue

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
)

// The drivers' directories are embedded in the program, so all programs read the same files.
func TestEveryDriverOfTheReleaseHasAnEntry(t *testing.T) {
	ours := all.Drivers()
	var wanted, found []string
	for _, d := range ours {
		if d.Payload != nil {
			wanted = append(wanted, d.Name)
		}
	}
	for _, entry := range All() {
		if entry.Builtin {
			found = append(found, entry.Name)
		}
	}
	slices.Sort(wanted)
	slices.Sort(found)
	if diff := cmp.Diff(wanted, found); diff != "" || len(found) < 2 {
		t.Errorf("drivers (-internal/driver/all +catalogue):\n%s", diff)
	}
}

func TestEntriesAreInTheOrderOfTheirOperators(t *testing.T) {
	var operators []string
	for _, entry := range All() {
		operators = append(operators, entry.Operator)
	}
	if !slices.IsSorted(operators) || len(slices.Compact(slices.Clone(operators))) != len(operators) {
		t.Errorf("operators %v", operators)
	}
}

func TestAnEntryFollowsFromItsDriver(t *testing.T) {
	d := driver.Driver{
		Name: "disk.example.com", Operator: "sample-csi-driver-operator", Prefix: "sample-csi-driver", ConditionPrefix: "SampleDisk",
		Platform: configv1.GCPPlatformType, DaemonSet: "sample-node", Deployment: "sample-controller",
		Assets:   fstest.MapFS{"assets/controller.yaml": {Data: []byte("image: ${DRIVER_IMAGE}")}},
		Payload:  &driver.Payload{Title: "Sample Disk", Variable: "SAMPLE_DRIVER"},
		Sidecars: driver.BlockSidecars(driver.BlockOptions{}),
		Credentials: []driver.Credentials{
			{Secret: "of-the-release", Payload: true}, {Secret: "of-the-operator"},
		},
	}
	want := Entry{
		Name: "disk.example.com", Title: "Sample Disk", Condition: "SampleDisk", Platform: configv1.GCPPlatformType,
		Operator: "sample-csi-driver-operator", Builtin: true, Image: "SAMPLE_DRIVER_OPERATOR_IMAGE",
		Images: map[string]string{
			"DRIVER_IMAGE": "SAMPLE_DRIVER_IMAGE", "PROVISIONER_IMAGE": "PROVISIONER_IMAGE", "ATTACHER_IMAGE": "ATTACHER_IMAGE",
			"RESIZER_IMAGE": "RESIZER_IMAGE", "SNAPSHOTTER_IMAGE": "SNAPSHOTTER_IMAGE", "KUBE_RBAC_PROXY_IMAGE": "KUBE_RBAC_PROXY_IMAGE",
			"NODE_DRIVER_REGISTRAR_IMAGE": "NODE_DRIVER_REGISTRAR_IMAGE", "LIVENESS_PROBE_IMAGE": "LIVENESS_PROBE_IMAGE",
		},
		Bindings: []Binding{{Namespace: Namespace, Role: "role"}}, Secrets: []Secret{{Namespace, "of-the-release"}},
		Workloads: []Workload{{"Deployment", Namespace, "sample-controller"}, {"DaemonSet", Namespace, "sample-node"}},
	}
	if diff := cmp.Diff(want, builtin(d)); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	// A driver in its own namespace, on a cloud that can lack its service.
	d.Namespace, d.Disabled = "own", func(driver.Config) string { return "" }
	d.Deployments, d.DaemonSets, d.Payload.Condition = []string{"sample-webhook"}, []string{"sample-mounter"}, "Sample"
	want.Namespace, want.Condition = "own", "Sample"
	want.Workloads = append(want.Workloads, Workload{"Deployment", "own", "sample-webhook"}, Workload{"DaemonSet", "own", "sample-mounter"})
	want.Bindings = append(want.Bindings, Binding{Namespace: "own", Role: "role"})
	want.Secrets[0].Namespace, want.Workloads[0].Namespace, want.Workloads[1].Namespace, want.MayBeDisabled = "own", "own", "own", true
	if diff := cmp.Diff(want, builtin(d)); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	d.Name = "ebs.csi.aws.com"
	if !builtin(d).Moves() {
		t.Error("its driver stays where OLM's operator ran it")
	}
	if predecessor := builtin(d).Predecessor; predecessor == nil || predecessor.Namespace != "openshift-aws-ebs-csi-driver" {
		t.Errorf("the operator that OLM installed is %+v", predecessor)
	}
}

// Manila's driver stays in its namespace, so the operator needs no permissions for a migration.
func TestADriverThatIsAdoptedWhereItIsDoesNotMove(t *testing.T) {
	at := slices.IndexFunc(All(), func(e Entry) bool { return e.Name == "manila.csi.openstack.org" })
	if manila := All()[at]; manila.Predecessor == nil || manila.Moves() || manila.Namespace != manila.Predecessor.Namespace {
		t.Errorf("%+v, moves %t", manila.Predecessor, manila.Moves())
	}
}
