package olm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// openshiftAPI is the module that has the CRD of ClusterCSIDrivers. clusterCSIDrivers is the CRD's file in this module.
const (
	openshiftAPI      = "github.com/openshift/api"
	clusterCSIDrivers = "payload-manifests/crds/0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml"
)

// CheckDriverName returns an error if the CRD does not allow a ClusterCSIDriver with this name. The CRD is the one of openshift/api, in the
// version that the module in the folder requires.
func CheckDriverName(ctx context.Context, folder, name string) error {
	names, err := DriverNames(ctx, folder)
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("%s: no ClusterCSIDriver may have this name. The CRD in %s allows only %s. Ask the maintainers of this module to add "+
			"the name, then raise the module's version in go.mod", name, openshiftAPI, strings.Join(names, ", "))
	}
	return nil
}

// DriverNames returns the names that the CRD of ClusterCSIDrivers allows. The CRD is in the module openshift/api, in the version that the module in
// the folder requires.
func DriverNames(ctx context.Context, folder string) ([]string, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", openshiftAPI)
	problems := &bytes.Buffer{}
	command.Dir, command.Stderr = folder, problems
	module, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("find the CRD of ClusterCSIDrivers: %s: %w: %s", command, err, problems)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), filepath.FromSlash(clusterCSIDrivers)))
	if err != nil {
		return nil, fmt.Errorf("read the CRD of ClusterCSIDrivers: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		return nil, fmt.Errorf("read the CRD of ClusterCSIDrivers: %w", err)
	}
	var names []string
	for _, version := range crd.Spec.Versions {
		for _, allowed := range version.Schema.OpenAPIV3Schema.Properties["metadata"].Properties["name"].Enum {
			var name string
			if err := json.UnmarshalCaseSensitivePreserveInts(allowed.Raw, &name); err != nil {
				return nil, fmt.Errorf("read the CRD of ClusterCSIDrivers: %w", err)
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s does not list the names of drivers any more", clusterCSIDrivers)
	}
	return names, nil
}
