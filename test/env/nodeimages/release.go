package nodeimages

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/test/env"
)

// Drivers are the CSI names of the payload's drivers, by their folders.
func Drivers() map[string]string {
	return map[string]string{
		"awsebs": "ebs.csi.aws.com", "azuredisk": "disk.csi.azure.com",
		"azurefile": "file.csi.azure.com", "cinder": "cinder.csi.openstack.org",
		"gcppd": "pd.csi.storage.gke.io", "manila": "manila.csi.openstack.org",
		"vsphere": "csi.vsphere.vmware.com",
	}
}

// Bundled are the images that the bundle of the EFS operator names.
func Bundled() (Images, error) {
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	current, err := release.Load(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	images := Images{}
	var problems []error
	for _, described := range current.Images {
		image, err := Product(described.Name)
		if described.Name != env.OperatorName {
			image, err = Program(described.Name)
		}
		images[described.PullSpec()] = image
		problems = append(problems, err)
	}
	return images, errors.Join(problems...)
}

// Payload are the images of a release of OpenShift, by the names that env.ReleaseImage gives them. The drivers are recorders whose volumes are in a
// zone. Images that are missing here are those of operators that this repository does not make, and of their drivers.
func Payload(version, zone string) (Images, error) {
	images := Images{}
	var problems []error
	add := func(name string, image v1.Image, err error) {
		images[env.ReleaseImage(name, version)] = image
		problems = append(problems, err)
	}
	for _, name := range []string{env.CSO, env.DriverOperator} {
		image, err := Product(name)
		add(name, image, err)
	}
	for name, program := range map[string]string{
		"csi-external-attacher": "csi-attacher", "csi-external-provisioner": "csi-provisioner", "csi-external-resizer": "csi-resizer",
		"csi-external-snapshotter": "csi-snapshotter", "csi-node-driver-registrar": "csi-node-driver-registrar", "csi-livenessprobe": "livenessprobe",
		"kube-rbac-proxy": "kube-rbac-proxy",
	} {
		image, err := Program(program)
		add(name, image, err)
	}
	for name, folder := range map[string]string{
		"aws-ebs-csi-driver": "awsebs", "azure-disk-csi-driver": "azuredisk", "azure-file-csi-driver": "azurefile", "gcp-pd-csi-driver": "gcppd",
		"openstack-cinder-csi-driver": "cinder", "csi-driver-manila": "manila", "vsphere-csi-driver": "vsphere",
	} {
		image, err := Driver(folder, zone)
		add(name, image, err)
	}
	for name, of := range helpers() {
		image, err := Recorder(of)
		add(name, image, err)
	}
	return images, errors.Join(problems...)
}

// helpers are programs in the pods of drivers that are no drivers of ours.
func helpers() map[string]Recording {
	return map[string]Recording{
		"csi-driver-nfs": {Name: "nfs.csi.k8s.io", Capabilities: []string{"CREATE_DELETE_VOLUME"}},
		// It is no driver.
		"vsphere-csi-driver-syncer": {Metrics: []string{"localhost:2113", ":8443"}},
	}
}

// Golden are the images that the golden files name, by the names that Renamed gives them.
func Golden(zone string) (Images, error) {
	images := Images{}
	var problems []error
	for name, program := range map[string]string{
		"PROVISIONER_IMAGE": "csi-provisioner", "ATTACHER_IMAGE": "csi-attacher", "RESIZER_IMAGE": "csi-resizer", "SNAPSHOTTER_IMAGE": "csi-snapshotter",
		"KUBE_RBAC_PROXY_IMAGE": "kube-rbac-proxy", "LIVENESS_PROBE_IMAGE": "livenessprobe", "NODE_DRIVER_REGISTRAR_IMAGE": "csi-node-driver-registrar",
		"driver": "aws-efs-csi-driver", "provisioner": "csi-provisioner", "registrar": "csi-node-driver-registrar", "livenessprobe": "livenessprobe",
		"kube-rbac-proxy": "kube-rbac-proxy",
	} {
		image, err := Program(program)
		images[Renamed("registry.example/"+name+":v1", "")] = image
		problems = append(problems, err)
	}
	for folder := range Drivers() {
		image, err := Driver(folder, zone)
		images[Renamed(driverImage, folder)] = image
		problems = append(problems, err)
	}
	for name, helper := range map[string]string{
		"MANILA_NFS_DRIVER_IMAGE": "csi-driver-nfs", "VMWARE_VSPHERE_SYNCER_IMAGE": "vsphere-csi-driver-syncer",
	} {
		image, err := Recorder(helpers()[helper])
		images[Renamed("registry.example/"+name+":v1", "")] = image
		problems = append(problems, err)
	}
	return images, errors.Join(problems...)
}

// driverImage is what golden files call the driver's image.
const driverImage = "registry.example/DRIVER_IMAGE:v1"

// Renamed is the name on the node of an image of a golden file. Golden files have names in capitals, which a kubelet refuses, and one name for the
// images of all drivers but EFS.
func Renamed(image, folder string) string {
	if image == driverImage {
		return "registry.example/" + folder + ":v1"
	}
	return strings.ToLower(image)
}

// profile is what a driver says about itself, as test/real reads it.
type profile struct {
	Capabilities []string `json:"capabilities"`
	TopologyKey  string   `json:"topologyKey"`
}

// Driver is the image that takes the place of a driver which is not served as a module. Its volumes are in a zone; without one, and without a driver
// that knows zones, they are everywhere.
func Driver(folder, zone string) (v1.Image, error) {
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
	of := Recording{Name: Drivers()[folder], Capabilities: found.Capabilities}
	if found.TopologyKey != "" && zone != "" {
		of.Topology = found.TopologyKey + "=" + zone
	}
	if folder == "vsphere" {
		of.Metrics = []string{"localhost:2112"}
	}
	return Recorder(of)
}

// Join are all of several images. The same name stands for the same image in each.
func Join(all ...Images) Images {
	joined := Images{}
	for _, images := range all {
		maps.Copy(joined, images)
	}
	return joined
}
