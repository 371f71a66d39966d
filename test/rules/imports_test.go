// Package rules checks what the tree must look like, so that no reviewer has to.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

const module = "github.com/csi-operators/csi-operators/"

// goPackage is what "go list" tells of a package.
type goPackage struct {
	ImportPath string
	Imports    []string
}

// allowed says which packages of ours a package may import; the longest prefix counts. Packages that are not listed
// may import nothing of ours.
func allowed() map[string][]string {
	return map[string][]string{
		"internal/manager": {"api/v1alpha1", "internal/cloudcredential/v1", "internal/snapshot/v1", "internal/tlsprofile"},
		"internal/driver":  {"internal/manifest", "internal/cloudcredential/v1", "internal/snapshot/v1", "internal/tlsprofile"},
		// One driver is data for package driver and knows nothing else but API types.
		"internal/driver/": {"internal/driver", "internal/cloudcredential/v1"},
		// What tests of drivers have in common.
		"internal/driver/golden": {"internal/driver", "internal/golden", "internal/manager", "internal/tlsprofile"},
		// The drivers of a cluster are data as well.
		"internal/catalogue": {"internal/manifest", "internal/tlsprofile"},
		"internal/controller/clustercsidriver": {
			"internal/apply", "internal/cloudcredential/v1", "internal/driver", "internal/snapshot/v1", "internal/status", "internal/tlsprofile",
			"internal/volume",
		},
		"internal/controller/storage":      {"internal/apply", "internal/catalogue", "internal/status", "internal/tlsprofile", "internal/volume"},
		"internal/controller/filesystem":   {"internal/aws", "internal/driver", "internal/status"},
		"internal/controller/sharedvolume": {"api/v1alpha1", "internal/apply", "internal/aws", "internal/manifest", "internal/status"},
		// What is shipped, and how. No program of the product knows it.
		"internal/olm": {"internal/release"},
		// What other modules may call, and what uses it. Neither knows a cluster.
		"pkg/efscleanup":     {"internal/aws"},
		"internal/efscreate": {"internal/aws", "pkg/efscleanup"},
		// What the operators have in common.
		"internal/program": {"internal/controller/clustercsidriver", "internal/driver", "internal/manager"},
		// Only programs join things.
		"cmd/":  {"internal/", "api/"},
		"hack/": {"internal/olm"},
		"test/": {"internal/", "api/", "pkg/", "test/env"},
		// What deletes file systems is in no operator's image.
		"cmd/efs": {"internal/aws", "internal/efscreate", "pkg/efscleanup"},
		// Programs for the developer: they join what makes a release.
		"hack/images": {"internal/image", "internal/release"},
		// What a cluster's release has of this repository. No program of the product knows it.
		"internal/payload": {"internal/catalogue", "internal/controller/clustercsidriver", "internal/driver", "internal/manifest"},
		"hack/payload":     {"internal/catalogue", "internal/driver", "internal/driver/", "internal/manager", "internal/payload"},
		// It reads the tree as text: the list of ports may have changed since it was compiled.
		"hack/new-driver": {},
	}
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	packages := list(t)
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages", len(packages))
	}
	for _, pkg := range packages {
		for _, imported := range pkg.Imports {
			if problem := check(pkg.ImportPath, imported); problem != "" {
				t.Errorf("%s imports %s: %s", pkg.ImportPath, imported, problem)
			}
		}
	}
}

func TestTheRulesCatchWhatIsForbidden(t *testing.T) {
	for from, to := range map[string]string{
		"internal/apply":                       module + "internal/status",
		"internal/driver/awsefs":               module + "internal/manifest",
		"internal/controller/clustercsidriver": module + "internal/driver/awsefs",
		"internal/controller/sharedvolume":     module + "internal/controller/clustercsidriver",
		"internal/manager":                     module + "test/env",
		"internal/status":                      "k8s.io/kubernetes/pkg/apis/core",
		"cmd/aws-efs-csi-driver-operator":      module + "devcluster/internal/cluster",
		"internal/controller/storage":          module + "pkg/efscleanup",
		"pkg/efscleanup":                       module + "internal/efscreate",
		"internal/aws":                         module + "pkg/efscleanup",
		"cmd/efs":                              module + "internal/manager",
		"internal/image":                       module + "internal/release",
		"hack/images":                          module + "internal/manager",
		"internal/catalogue":                   module + "internal/driver",
		"cmd/cluster-storage-operator":         module + "test/env",
		"internal/olm":                         module + "internal/payload",
		"internal/payload":                     module + "internal/driver/awsebs",
	} {
		if check(module+from, to) == "" {
			t.Errorf("%s may import %s", from, to)
		}
	}
}

// check returns why an import is forbidden, or "".
func check(from, to string) string {
	if strings.HasPrefix(to, "k8s.io/kubernetes") || strings.HasPrefix(to, module+"devcluster") {
		return "the product does not link the control plane"
	}
	target, ours := strings.CutPrefix(to, module)
	if !ours {
		return ""
	}
	from = strings.TrimPrefix(from, module)
	if from == target {
		return ""
	}
	for _, prefix := range rulesFor(from) {
		if target == prefix || (strings.HasSuffix(prefix, "/") && strings.HasPrefix(target, prefix)) {
			return ""
		}
	}
	return "it may import nothing of ours but " + strings.Join(rulesFor(from), ", ")
}

func rulesFor(from string) []string {
	longest := ""
	for prefix := range allowed() {
		matches := from == prefix || (strings.HasSuffix(prefix, "/") && strings.HasPrefix(from, prefix))
		if matches && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return allowed()[longest]
}

func list(t *testing.T) []goPackage {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	command.Dir = root
	output, err := command.Output()
	env.Must(t, err)
	var packages []goPackage
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var pkg goPackage
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return packages
		}
		env.Must(t, err)
		packages = append(packages, pkg)
	}
}
