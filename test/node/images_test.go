package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// drivers are the CSI names of the payload's drivers, by their folders.
func drivers() map[string]string {
	return map[string]string{
		"awsebs": "ebs.csi.aws.com", "azuredisk": "disk.csi.azure.com",
		"azurefile": "file.csi.azure.com", "cinder": "cinder.csi.openstack.org",
		"gcppd": "pd.csi.storage.gke.io", "manila": "manila.csi.openstack.org",
		"vsphere": "csi.vsphere.vmware.com",
	}
}

// bundled adds the images that the bundle of the EFS operator names.
func bundled(images nodeimages.Images) error {
	root, err := env.Root()
	if err != nil {
		return err
	}
	current, err := release.Load(os.DirFS(root))
	if err != nil {
		return err
	}
	var problems []error
	for _, described := range current.Images {
		name := described.Name
		image, err := nodeimages.Product(name)
		if name != env.OperatorName {
			image, err = nodeimages.Program(name)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		images[described.PullSpec()] = image
	}
	return errors.Join(problems...)
}

// golden adds the images that the golden files name. There, all drivers have images of the same name: see renamed.
func golden(images nodeimages.Images) error {
	var problems []error
	for name, program := range map[string]string{
		"PROVISIONER_IMAGE": "csi-provisioner", "ATTACHER_IMAGE": "csi-attacher", "RESIZER_IMAGE": "csi-resizer", "SNAPSHOTTER_IMAGE": "csi-snapshotter",
		"KUBE_RBAC_PROXY_IMAGE": "kube-rbac-proxy", "LIVENESS_PROBE_IMAGE": "livenessprobe", "NODE_DRIVER_REGISTRAR_IMAGE": "csi-node-driver-registrar",
		"driver": "aws-efs-csi-driver", "provisioner": "csi-provisioner", "registrar": "csi-node-driver-registrar", "livenessprobe": "livenessprobe",
		"kube-rbac-proxy": "kube-rbac-proxy",
	} {
		image, err := nodeimages.Program(program)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		images[renamed("registry.example/"+name+":v1", "")] = image
	}
	for folder := range drivers() {
		image, err := recorder(folder)
		if err != nil {
			return err
		}
		images[renamed("registry.example/DRIVER_IMAGE:v1", folder)] = image
	}
	for name, of := range map[string]nodeimages.Recording{
		"MANILA_NFS_DRIVER_IMAGE": {Name: "nfs.csi.k8s.io", Capabilities: []string{"CREATE_DELETE_VOLUME"}},
		// It is no driver.
		"VMWARE_VSPHERE_SYNCER_IMAGE": {Metrics: []string{"localhost:2113", ":8443"}},
	} {
		image, err := nodeimages.Recorder(of)
		if err != nil {
			return err
		}
		images[renamed("registry.example/"+name+":v1", "")] = image
	}
	return errors.Join(problems...)
}

// renamed is the name that an image has on the node. Golden files have names in capitals, which the kubelet refuses, and one name for the images of
// all drivers but EFS.
func renamed(image, folder string) string {
	if image == "registry.example/DRIVER_IMAGE:v1" {
		return "registry.example/" + folder + ":v1"
	}
	return strings.ToLower(image)
}

// profile is what a driver says about itself, as test/real reads it.
type profile struct {
	Capabilities []string `json:"capabilities"`
	TopologyKey  string   `json:"topologyKey"`
}

// recorder is the image that takes the place of a driver which is not served as a module.
func recorder(folder string) (v1.Image, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, "internal/driver", folder, "testdata/real.yaml"))
	if err != nil {
		return nil, err
	}
	var found profile
	if err := yaml.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("profile of %s: %w", folder, err)
	}
	of := nodeimages.Recording{Name: drivers()[folder], Capabilities: found.Capabilities}
	if found.TopologyKey != "" {
		of.Topology = found.TopologyKey + "=" + zone
	}
	if folder == "vsphere" {
		of.Metrics = []string{"localhost:2112"}
	}
	return nodeimages.Recorder(of)
}
