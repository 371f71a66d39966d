package releases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The modules that have what a release brings. None of it is part of the repository.
const (
	openshiftModule  = "github.com/openshift/api"
	monitoringModule = "github.com/prometheus-operator/prometheus-operator"
	kubernetesModule = "k8s.io/client-go"
)

// download returns the folders of modules, each "path@version", after downloading what is missing.
func download(ctx context.Context, modules ...string) (map[string]string, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"mod", "download", "-json"}, modules...)...)
	// Outside of a module, none has to be required by it, and no go.sum is written.
	command.Dir = os.TempDir()
	problems := &bytes.Buffer{}
	command.Stderr = problems
	output, failure := command.Output()
	folders := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var one struct{ Path, Version, Dir, Error string }
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read what %s says: %w\n%s", command, err, problems)
		}
		if one.Error != "" {
			failure = errors.Join(failure, errors.New(one.Error))
		}
		folders[one.Path+"@"+one.Version] = one.Dir
	}
	if failure != nil {
		return nil, fmt.Errorf("download modules; the Go module proxy must be reachable once: %w\n%s", failure, problems)
	}
	for _, module := range modules {
		if folders[module] == "" {
			return nil, fmt.Errorf("go mod download says no folder for %s", module)
		}
	}
	return folders, nil
}

// crds are the wanted CRDs in folders of a module, as a self-managed cluster of a feature set has them.
func crds(module string, wanted []string, set string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	err := filepath.WalkDir(module, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skip(entry.Name())
		}
		if filepath.Ext(path) != ".yaml" {
			return nil
		}
		crd, err := readCRD(path, wanted, set)
		if crd != nil {
			found[crd.Name] = crd
		}
		return err
	})
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, name := range wanted {
		if found[name] == nil {
			err = errors.Join(err, fmt.Errorf("%s has no CRD %s for the feature set %s", module, name, set))
			continue
		}
		all = append(all, found[name])
	}
	return all, err
}

// skip leaves out folders with parts of CRDs, and with those of other purposes.
func skip(folder string) error {
	parts := []string{"zz_generated.featuregated-crd-manifests", "manual-override-crd-manifests", "tests", "test", "testdata", "vendor", "prometheus-operator-crd-full"}
	if slices.Contains(parts, folder) {
		return fs.SkipDir
	}
	return nil
}

// readCRD reads a file, if it has one of the CRDs for a feature set.
func readCRD(path string, wanted []string, set string) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	// To parse all is most of what these tests cost.
	names := slices.ContainsFunc(wanted, func(name string) bool { return bytes.Contains(text, []byte("name: "+name+"\n")) })
	if err != nil || !names || !bytes.Contains(text, []byte("kind: CustomResourceDefinition")) {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		// Patches of CRDs and files with several are not what is looked for.
		return nil, nil //nolint:nilerr // What is missing in the end is an error.
	}
	const annotation = "release.openshift.io/feature-set"
	sets, limited := crd.Annotations[annotation]
	profiles := slices.ContainsFunc(slices.Collect(maps.Keys(crd.Annotations)), func(key string) bool {
		return strings.HasPrefix(key, "include.release.openshift.io/")
	})
	switch {
	case crd.Kind != "CustomResourceDefinition", !slices.Contains(wanted, crd.Name):
		return nil, nil
	case limited && !slices.Contains(strings.Split(sets, ","), set):
		return nil, nil
	case profiles && crd.Annotations["include.release.openshift.io/self-managed-high-availability"] != "true":
		return nil, nil
	}
	return crd, nil
}
