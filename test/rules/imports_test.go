// Package rules checks what the tree must look like, so that no reviewer has to.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

const module = "github.com/csi-operators/csi-operators/"

// goPackage is what "go list" says of a package.
type goPackage struct {
	ImportPath string
	Imports    []string
}

// table is the one in ARCHITECTURE.md, between its head and the first line that is not of it.
const (
	tableFile = "ARCHITECTURE.md"
	tableHead = "| Folder | What it is | May import of ours |"
)

// rules says which packages of ours a package may import, by its folder, or by the beginning of several: one that ends with a slash.
type rules map[string][]string

// imports reads the rules. A folder is written as it is, with a name in angle brackets for each of several. What may be imported is "nothing",
// "anything", "anything in" some folders, or packages; those in internal and in internal/controller by what comes then.
func imports(t *testing.T, packages []goPackage) rules {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, tableFile))
	env.Must(t, err)
	_, rest, found := strings.Cut(string(text), tableHead+"\n|---|---|---|\n")
	if !found {
		t.Fatalf("%s has no table %q", tableFile, tableHead)
	}
	known := map[string]bool{}
	for _, pkg := range packages {
		known[strings.TrimPrefix(pkg.ImportPath, module)] = true
	}
	read := rules{}
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			break
		}
		for _, folder := range names(cells[0]) {
			read[folder] = mayImport(t, folder, strings.TrimSpace(cells[2]), known)
		}
	}
	return read
}

// names are what a cell has in backticks. A name in angle brackets stands for any.
func names(cell string) []string {
	var found []string
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		name, _, _ := strings.Cut(match[1], "<")
		found = append(found, name)
	}
	return found
}

// mayImport resolves the third cell of a row.
func mayImport(t *testing.T, folder, cell string, known map[string]bool) []string {
	t.Helper()
	switch {
	case cell == "" || cell == "nothing":
		return nil
	case cell == "anything":
		return []string{"api/", "internal/", "pkg/", "test/"}
	case strings.HasPrefix(cell, "anything in "):
		var folders []string
		for _, name := range names(cell) {
			folders = append(folders, name+"/")
		}
		return folders
	}
	var allowed []string
	for _, name := range names(cell) {
		resolved := ""
		for _, candidate := range []string{name, "internal/" + name, "internal/controller/" + name} {
			if known[candidate] || strings.HasSuffix(name, "/") && known[strings.TrimSuffix(candidate, "/")] {
				resolved = candidate
			}
		}
		if resolved == "" {
			t.Errorf("%s: the row of %s names %s, which is no package", tableFile, folder, name)
		}
		allowed = append(allowed, resolved)
	}
	if len(allowed) == 0 {
		t.Errorf("%s: the row of %s says %q: write \"nothing\", \"anything\", or packages in backticks", tableFile, folder, cell)
	}
	return allowed
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	packages := list(t)
	if len(packages) < 10 {
		t.Fatalf("go list found %d packages", len(packages))
	}
	allowed := imports(t, packages)
	for _, pkg := range packages {
		if row := allowed.row(strings.TrimPrefix(pkg.ImportPath, module)); row == "" {
			t.Errorf("%s has no row for %s", tableFile, pkg.ImportPath)
		}
		for _, imported := range pkg.Imports {
			if problem := allowed.check(pkg.ImportPath, imported); problem != "" {
				t.Errorf("%s imports %s: %s", pkg.ImportPath, imported, problem)
			}
		}
	}
}

// What talks to vCenters is large: of the programs, only the one that does has it.
func TestOneProgramTalksToVCenters(t *testing.T) {
	imported := map[string][]string{}
	for _, pkg := range list(t) {
		imported[strings.TrimPrefix(pkg.ImportPath, module)] = pkg.Imports
	}
	var reaches func(folder string, seen map[string]bool) bool
	reaches = func(folder string, seen map[string]bool) bool {
		seen[folder] = true
		return slices.ContainsFunc(imported[folder], func(path string) bool {
			next, ours := strings.CutPrefix(path, module)
			return strings.HasPrefix(path, "github.com/vmware/govmomi") || ours && !seen[next] && reaches(next, seen)
		})
	}
	var found []string
	for folder := range imported {
		if strings.HasPrefix(folder, "cmd/") && reaches(folder, map[string]bool{}) {
			found = append(found, folder)
		}
	}
	if !slices.Equal(found, []string{"cmd/csi-driver-operator"}) {
		t.Errorf("govmomi is in %v", found)
	}
}

func TestTheRulesCatchWhatIsForbidden(t *testing.T) {
	allowed := imports(t, list(t))
	for from, to := range map[string]string{
		"internal/kube/apply":                  module + "internal/kube/status",
		"internal/driver/awsefs":               module + "internal/kube/manifest",
		"internal/controller/clustercsidriver": module + "internal/driver/awsefs",
		"internal/controller/sharedvolume":     module + "internal/controller/clustercsidriver",
		"internal/operator/manager":            module + "test/env",
		"internal/kube/status":                 "k8s.io/kubernetes/pkg/apis/core",
		"cmd/aws-efs-csi-driver-operator":      module + "devcluster/internal/cluster",
		"internal/controller/storage":          module + "pkg/efscleanup",
		"pkg/efscleanup":                       module + "internal/plugin/efs/create",
		"internal/cloud/aws":                   module + "pkg/efscleanup",
		"internal/plugin/efs":                  module + "internal/operator/manager",
		"internal/release/image":               module + "internal/release",
		"hack/images":                          module + "internal/operator/manager",
		"internal/driver/catalogue":            module + "internal/driver/awsebs",
		"cmd/cluster-storage-operator":         module + "test/env",
		"internal/release/olm":                 module + "internal/release/payload",
		"internal/release/payload":             module + "internal/driver/awsebs",
	} {
		if allowed.check(module+from, to) == "" {
			t.Errorf("%s may import %s", from, to)
		}
	}
}

// check returns why an import is forbidden, or "".
func (r rules) check(from, to string) string {
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
	row := r.row(from)
	for _, prefix := range r[row] {
		if target == prefix || (strings.HasSuffix(prefix, "/") && strings.HasPrefix(target, prefix)) {
			return ""
		}
	}
	return fmt.Sprintf("by the row of %s in the table of %s, it may import nothing of ours but %q", row, tableFile, r[row])
}

// row is the one that counts for a package: the longest that matches.
func (r rules) row(from string) string {
	longest := ""
	for prefix := range r {
		matches := from == prefix || (strings.HasSuffix(prefix, "/") && strings.HasPrefix(from, prefix))
		if matches && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return longest
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
