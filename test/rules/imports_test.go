// Package rules checks what the tree must look like, so that no reviewer has to.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

const module = "github.com/csi-operators/csi-operators/"

// floors are the rooms, from what joins everything down to what knows nothing of ours. A room imports what stands below it, and its own folders;
// two rooms of one floor do not know each other.
var floors = [][]string{
	{"test", "hack", "cmd"}, {"internal/testing"}, {"internal/plugin", "internal/release", "internal/operator"}, {"internal/controller"},
	{"internal/driver", "pkg/efscleanup"}, {"internal/cloud", "internal/kube"}, {"api", "bundle"},
}

// siblings are folders of one room that do not know each other either: controllers, drivers and clouds.
var siblings = map[string][]string{
	"internal/controller/": {"clustercsidriver", "sharedvolume", "storage", "efshealth", "vspherehealth"},
	"internal/driver/":     {"awsebs", "awsefs", "azuredisk", "azurefile", "cinder", "gcppd", "manila", "vsphere"},
	"internal/cloud/":      {"aws", "efs", "openstack", "vsphere"},
}

// forbidden returns why a package may not import another one, or "".
func forbidden(from, to string) string {
	if strings.HasPrefix(to, "k8s.io/kubernetes") || strings.HasPrefix(to, module+"devcluster") {
		return "the product does not link the control plane"
	}
	to, ours := strings.CutPrefix(to, module)
	upper, room := floor(from)
	lower, other := floor(to)
	switch {
	case !ours:
	case room == "" || other == "":
		return "it is in no room"
	case strings.HasPrefix(other, "internal/testing") && room != "test" && room != other:
		return "only tests import what is for tests"
	case room != other && lower <= upper:
		return other + " does not stand below " + room
	case strings.HasPrefix(from, "internal/controller/") && child(to, "internal/driver/") != "" && !strings.HasPrefix(to, "internal/driver/catalogue"):
		return "a controller takes a driver as data"
	}
	for parent := range siblings {
		if one, another := child(from, parent), child(to, parent); one != "" && another != "" && one != another {
			return "siblings do not know each other"
		}
	}
	return ""
}

// floor is where the room of a folder is in floors, and the room.
func floor(folder string) (int, string) {
	for i, rooms := range floors {
		for _, room := range rooms {
			if folder == room || strings.HasPrefix(folder, room+"/") {
				return i, room
			}
		}
	}
	return 0, ""
}

// child is which of the siblings below a parent a folder belongs to, or "".
func child(folder, parent string) string {
	rest, _ := strings.CutPrefix(folder, parent)
	name, _, _ := strings.Cut(rest, "/")
	if rest == folder || !slices.Contains(siblings[parent], name) {
		return ""
	}
	return name
}

func TestPackagesImportOnlyWhatStandsBelow(t *testing.T) {
	packages := list(t)
	if len(packages) < 50 {
		t.Fatalf("go list found %d packages", len(packages))
	}
	for from, imports := range packages {
		for _, to := range imports {
			if why := forbidden(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
}

// Each line is a way in which a house falls apart.
func TestTheRuleCatchesWhatIsForbidden(t *testing.T) {
	for from, to := range map[string]string{
		"internal/kube/apply":                           module + "internal/driver",
		"internal/kube/status":                          module + "internal/cloud/aws",
		"internal/cloud/aws":                            module + "internal/kube/status",
		"internal/cloud/efs":                            module + "internal/cloud/aws",
		"internal/driver/awsefs":                        module + "internal/driver/awsebs",
		"internal/driver":                               module + "internal/controller/clustercsidriver/watch",
		"internal/controller/clustercsidriver":          module + "internal/driver/awsefs",
		"internal/controller/sharedvolume":              module + "internal/controller/clustercsidriver/nodes",
		"internal/controller/clustercsidriver/nodes":    module + "internal/plugin/survey",
		"internal/plugin/efs":                           module + "internal/operator/manager",
		"internal/release/image":                        module + "internal/plugin",
		"internal/operator/manager":                     module + "test/env",
		"internal/plugin":                               module + "internal/testing/canned",
		"hack/images":                                   module + "cmd/oc-storage",
		"cmd/cluster-storage-operator":                  module + "test/env",
		"cmd/aws-efs-csi-driver-operator":               module + "devcluster/internal/cluster",
		"internal/kube/apply/x":                         "k8s.io/kubernetes/pkg/apis/core",
		"internal/somewhere":                            module + "internal/kube",
		"pkg/efscleanup":                                module + "internal/plugin/efs/create",
		"api/v1alpha1":                                  module + "internal/kube/openshift",
		"internal/driver/catalogue":                     module + "internal/controller/storage",
		"internal/controller/vspherehealth":             module + "internal/controller/efshealth",
		"internal/controller/clustercsidriver/rbac":     module + "internal/controller/storage/olm",
		"internal/controller/sharedvolume/fair":         module + "internal/controller/storage",
		"internal/controller/clustercsidriver/derived":  module + "internal/operator",
		"internal/controller/clustercsidriver/pendingx": module + "internal/nowhere",
	} {
		if forbidden(from, to) == "" {
			t.Errorf("%s may import %s", from, to)
		}
	}
}

// What talks to vCenters is large, and so are the commands for people: of the programs, only the one that needs it has it.
func TestOneProgramHasWhatOnlyItNeeds(t *testing.T) {
	imported := list(t)
	for wanted, program := range map[string]string{
		"github.com/vmware/govmomi": "cmd/csi-driver-operator", module + "internal/plugin": "cmd/oc-storage", "github.com/spf13/cobra": "cmd/oc-storage",
	} {
		var found []string
		for folder := range imported {
			if strings.HasPrefix(folder, "cmd/") && reaches(imported, folder, map[string]bool{}, under(wanted)) {
				found = append(found, folder)
			}
		}
		if !slices.Equal(found, []string{program}) {
			t.Errorf("%s is in %v", wanted, found)
		}
	}
}

// under is true for imports below a path.
func under(path string) func(string) bool {
	return func(imported string) bool { return strings.HasPrefix(imported, path) }
}

// reaches is true if a package, or one of ours that it imports, has a wanted import. It marks the packages that it has seen.
func reaches(imported map[string][]string, folder string, seen map[string]bool, wanted func(string) bool) bool {
	seen[folder] = true
	return slices.ContainsFunc(imported[folder], func(path string) bool {
		next, ours := strings.CutPrefix(path, module)
		return wanted(path) || ours && !seen[next] && reaches(imported, next, seen, wanted)
	})
}

// Every live test links package env. With managers and the simulator of vCenters, each of these programs would have 900 packages instead of 530.
func TestWhatAllLiveTestsShareNeedsNeitherAManagerNorAVCenter(t *testing.T) {
	imported := list(t)
	for _, wanted := range []string{"sigs.k8s.io/controller-runtime", "sigs.k8s.io/controller-runtime/pkg/manager", "k8s.io/client-go/kubernetes"} {
		if reaches(imported, "test/env", map[string]bool{}, func(path string) bool { return path == wanted }) {
			t.Errorf("test/env imports %s", wanted)
		}
	}
	if reaches(imported, "test/env", map[string]bool{}, under("github.com/vmware/govmomi")) {
		t.Error("test/env imports what test/env/vcenters is for")
	}
}

// list returns the imports of each package of the module, by its folder.
func list(t *testing.T) map[string][]string {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	command.Dir = root
	output, err := command.Output()
	env.Must(t, err)
	found := map[string][]string{}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var one struct {
			ImportPath string
			Imports    []string
		}
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return found
		}
		env.Must(t, err)
		found[strings.TrimPrefix(one.ImportPath, module)] = one.Imports
	}
}
