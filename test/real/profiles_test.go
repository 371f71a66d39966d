package real

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
)

// driverProfile is what the real driver says to the sidecars about itself, and where the stand-in says that it runs. It is in profileFile, in
// the folder of the driver.
type driverProfile struct {
	// Capabilities are those of the controller service, with the names of the specification.
	Capabilities []string `json:"capabilities"`
	// TopologyKey is the label with the zone of a node; empty if the driver knows no zones.
	TopologyKey string `json:"topologyKey,omitempty"`
	// NodeTopologyKeys are further labels that the driver gives to nodes with their zone, and not to volumes.
	NodeTopologyKeys []string `json:"nodeTopologyKeys,omitempty"`
	// ByVariable says that the driver has no flag for where it listens, and reads variable CSI_ENDPOINT itself.
	ByVariable bool `json:"byVariable,omitempty"`
	// Ports are those of metrics that no flag names.
	Ports []int `json:"ports,omitempty"`
	// InTree is the in-tree plugin of Kubernetes that the driver replaces.
	InTree inTree `json:"inTree,omitzero"`
	// Programs are what the containers of the driver accept, unless testdata/flags.yaml has them.
	Programs []accepted `json:"programs,omitempty"`

	node, zone string
}

// inTree is an in-tree plugin. Kubernetes translates its volumes for the driver, and back.
type inTree struct {
	// Provisioner is the name in StorageClasses.
	Provisioner string `json:"provisioner,omitempty"`
	// Handle is the form of IDs that an in-tree PersistentVolume can hold, with %s for what is unique.
	Handle string `json:"handle,omitempty"`
	// Path is the form of the paths that in-tree PersistentVolumes hold in place of the ID, with %s for the ID.
	Path string `json:"path,omitempty"`
	// Node is the form of the IDs of nodes, with %s for the name. Kubernetes completes the ID of an in-tree volume with parts of it.
	Node string `json:"node,omitempty"`
	// Zone is a further label of nodes with their zone. Kubernetes looks for it when it translates a PersistentVolume.
	Zone string `json:"zone,omitempty"`
	// Region is what Kubernetes takes for the region of the node's zone. It keeps pods with in-tree volumes in nodes of that region.
	Region string `json:"region,omitempty"`
}

// profileFile is where a driver's profile is, from the root of the repository.
func profileFile(folder string) string { return "internal/driver/" + folder + "/testdata/real.yaml" }

// readProfiles reads the profiles of the drivers that are rendered. A driver without one is an error that names the file.
func readProfiles(variants map[string][]*variant) (map[string]driverProfile, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	profiles := map[string]driverProfile{}
	var problems []error
	for folder := range variants {
		text, err := fs.ReadFile(os.DirFS(root), filepath.ToSlash(profileFile(folder)))
		profile := driverProfile{}
		if err == nil {
			err = yaml.UnmarshalStrict(text, &profile)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("driver %s: %s must say what its controller service can do, from its source: %w",
				folder, profileFile(folder), err))
		}
		for i := range profile.Programs {
			profile.Programs[i].own(folder)
		}
		profiles[folder] = profile
	}
	return profiles, errors.Join(problems...)
}
