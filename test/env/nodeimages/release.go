package nodeimages

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
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
		if described.Name != env.OperatorName && described.Name != "aws-efs-node-health" {
			image, err = Program(described.Name)
		}
		images[described.PullSpec()] = image
		problems = append(problems, err)
	}
	return images, errors.Join(problems...)
}

// sidecar is a program beside drivers. Operators have its image in a variable.
type sidecar struct{ variable, image, program string }

// sidecars have a program each, which nodeimages.Program finds.
func sidecars() []sidecar {
	return []sidecar{
		{"KUBE_RBAC_PROXY_IMAGE", "kube-rbac-proxy", "kube-rbac-proxy"},
		{"NODE_DRIVER_REGISTRAR_IMAGE", "csi-node-driver-registrar", "csi-node-driver-registrar"},
		{"LIVENESS_PROBE_IMAGE", "csi-livenessprobe", "livenessprobe"},
		{"PROVISIONER_IMAGE", "csi-external-provisioner", "csi-provisioner"},
		{"ATTACHER_IMAGE", "csi-external-attacher", "csi-attacher"},
		{"RESIZER_IMAGE", "csi-external-resizer", "csi-resizer"},
		{"SNAPSHOTTER_IMAGE", "csi-external-snapshotter", "csi-snapshotter"},
	}
}

// Payload are the images of a release of OpenShift that all clusters need, by the names that env.ReleaseImage gives them.
func Payload(version, zone string) (Images, error) {
	return payload(version, zone, func(catalogue.Entry) bool { return true })
}

// PlatformPayload are those of Payload that a cluster of the platform needs.
func PlatformPayload(version, zone, platform string) (Images, error) {
	return payload(version, zone, func(entry catalogue.Entry) bool { return string(entry.Platform) == platform })
}

func payload(version, zone string, wanted func(catalogue.Entry) bool) (Images, error) {
	images := Images{}
	var problems []error
	for name, create := range recipes(zone, wanted) {
		image, err := create()
		images[env.ReleaseImage(name, version)] = image
		problems = append(problems, err)
	}
	return images, errors.Join(problems...)
}

// PayloadOfOthers are the images of PlatformPayload that this repository does not make, by their names in the release.
func PayloadOfOthers(zone, platform string) (Images, error) {
	images := Images{}
	var problems []error
	for name, create := range recipes(zone, func(entry catalogue.Entry) bool { return string(entry.Platform) == platform }) {
		if name == env.CSO || name == env.DriverOperator {
			continue
		}
		image, err := create()
		images[name] = image
		problems = append(problems, err)
	}
	return images, errors.Join(problems...)
}

// recipes make the images of a release for the drivers that are wanted, by their names in the release. The drivers are recorders whose volumes are in a
// zone. Images that are missing here are those of operators that this repository does not make, and of their drivers.
func recipes(zone string, wanted func(catalogue.Entry) bool) map[string]func() (v1.Image, error) {
	product := func(name string) func() (v1.Image, error) { return func() (v1.Image, error) { return Product(name) } }
	found := map[string]func() (v1.Image, error){env.CSO: product(env.CSO)}
	variables := map[string]bool{}
	for _, entry := range catalogue.All() {
		of := folder(entry.Name)
		if of == "" || !wanted(entry) {
			continue
		}
		for variable := range entry.Images {
			variables[variable] = true
		}
		found[env.DriverOperator] = product(env.DriverOperator)
		found[releaseNames()[of]] = func() (v1.Image, error) { return Driver(of, zone) }
	}
	for _, one := range sidecars() {
		if variables[one.variable] {
			found[one.image] = func() (v1.Image, error) { return Program(one.program) }
		}
	}
	for _, one := range helpers() {
		if variables[one.variable] {
			found[one.image] = func() (v1.Image, error) { return Recorder(one.Recording) }
		}
	}
	return found
}

// folder is that of a driver of this repository; empty for drivers of others.
func folder(csi string) string {
	for folder, name := range Drivers() {
		if name == csi {
			return folder
		}
	}
	return ""
}

// releaseNames are the names of the drivers' images in a release, by the drivers' folders.
func releaseNames() map[string]string {
	return map[string]string{
		"awsebs": "aws-ebs-csi-driver", "azuredisk": "azure-disk-csi-driver", "azurefile": "azure-file-csi-driver", "gcppd": "gcp-pd-csi-driver",
		"cinder": "openstack-cinder-csi-driver", "manila": "csi-driver-manila", "vsphere": "vsphere-csi-driver",
	}
}

// helper is a program in the pods of drivers that is no driver of ours.
type helper struct {
	variable, image string
	Recording
}

func helpers() []helper {
	return []helper{
		{"MANILA_NFS_DRIVER_IMAGE", "csi-driver-nfs", Recording{Name: "nfs.csi.k8s.io", Capabilities: []string{"CREATE_DELETE_VOLUME"}}},
		// It is no driver.
		{"VMWARE_VSPHERE_SYNCER_IMAGE", "vsphere-csi-driver-syncer", Recording{Metrics: []string{"127.0.0.1:2113", ":8443"}}},
	}
}

// Golden are the images that the golden files name, by the names that Renamed gives them.
func Golden(zone string) (Images, error) {
	images := Images{}
	var problems []error
	add := func(name string, image v1.Image, err error) {
		images[Renamed("registry.example/"+name+":v1", "")] = image
		problems = append(problems, err)
	}
	for _, one := range sidecars() {
		image, err := Program(one.program)
		add(one.variable, image, err)
	}
	// EFS has its images from a bundle, and names of its own.
	for name, program := range map[string]string{
		"driver": "aws-efs-csi-driver", "provisioner": "csi-provisioner", "registrar": "csi-node-driver-registrar", "livenessprobe": "livenessprobe",
		"kube-rbac-proxy": "kube-rbac-proxy",
	} {
		image, err := Program(program)
		add(name, image, err)
	}
	health, err := Product("aws-efs-node-health")
	add("node-health", health, err)
	for folder := range Drivers() {
		image, err := Driver(folder, zone)
		images[Renamed(driverImage, folder)] = image
		problems = append(problems, err)
	}
	for _, one := range helpers() {
		image, err := Recorder(one.Recording)
		add(one.variable, image, err)
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
	// NodeTopologyKeys are further labels with the zone that nodes get, and volumes do not.
	NodeTopologyKeys []string `json:"nodeTopologyKeys"`
}

// Driver is the image that takes the place of a driver which is not served as a module. Its volumes are in a zone; without one, and without a driver
// that knows zones, they are everywhere.
func Driver(folder, zone string) (v1.Image, error) {
	of, err := recording(folder, zone)
	if err != nil {
		return nil, err
	}
	return Recorder(of)
}

// Keeping is what Driver is, by its name in a release, but keeps what pods write to volumes. All of it is on one real node, at an address IP:PORT where
// the driver's pods may listen. Drivers of disks have disks, and all others have folders.
func Keeping(folder, zone, version, address string) (Images, error) {
	of, err := recording(folder, zone)
	if err != nil {
		return nil, err
	}
	of.Share, of.Disks = address, slices.Contains(of.Capabilities, "PUBLISH_UNPUBLISH_VOLUME")
	made, err := Recorder(of)
	if err != nil {
		return nil, err
	}
	if folder != efsFolder {
		return Images{env.ReleaseImage(releaseNames()[folder], version): made}, nil
	}
	root, err := env.Root()
	if err != nil {
		return nil, err
	}
	current, err := release.Load(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	for _, described := range current.Images {
		if described.Name == "aws-efs-csi-driver" {
			return Images{described.PullSpec(): made}, nil
		}
	}
	return nil, errors.New("the bundle names no image of the EFS driver")
}

// efsFolder is that of the driver which has its images from a bundle.
const efsFolder = "awsefs"

// recording is what the profile of a driver says about it.
func recording(folder, zone string) (Recording, error) {
	root, err := env.Root()
	if err != nil {
		return Recording{}, err
	}
	text, err := os.ReadFile(filepath.Join(root, "internal/driver", folder, "testdata/real.yaml"))
	if err != nil {
		return Recording{}, err
	}
	var found profile
	if err := yaml.Unmarshal(text, &found); err != nil {
		return Recording{}, fmt.Errorf("profile of %s: %w", folder, err)
	}
	of := Recording{Name: Drivers()[folder], Capabilities: found.Capabilities}
	if folder == efsFolder {
		of.Name = "efs.csi.aws.com"
	}
	if found.TopologyKey != "" && zone != "" {
		of.Topology = found.TopologyKey + "=" + zone
		for _, key := range found.NodeTopologyKeys {
			of.Topology += "," + key + "=" + zone
		}
	}
	if folder == "vsphere" {
		of.Metrics = []string{"127.0.0.1:2112"}
	}
	return of, nil
}

// Join are all of several images. The same name stands for the same image in each.
func Join(all ...Images) Images {
	joined := Images{}
	for _, images := range all {
		maps.Copy(joined, images)
	}
	return joined
}
