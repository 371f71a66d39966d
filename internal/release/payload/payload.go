// Package payload generates the manifests of this repository's part of an OpenShift release. The cluster-version operator applies the manifests
// in the order of their names.
//
// It derives roles, CredentialsRequests and images from the catalogue and the drivers. The rest is in assets.
package payload

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/manifest"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/release/levels"
)

//go:embed assets
var embedded embed.FS

const (
	header = "# Made by make manifests. Do not change it here.\n"
	// Folder is the folder with the manifests, from the root of the repository.
	Folder = "manifests"
	// ReferencesFile is the file that tells the build of a release which images to replace.
	ReferencesFile = "image-references"
	// Version is the placeholder for the release's version.
	Version = "0.0.1-snapshot"

	deleteAnnotation     = "release.openshift.io/delete"
	capabilityAnnotation = "capability.openshift.io/name"
	profilePrefix        = "include.release.openshift.io/"
)

// Profiles are kinds of clusters.
const (
	selfManaged = "self-managed-high-availability"
	singleNode  = "single-node-developer"
	ibmManaged  = "ibm-cloud-managed"
)

// Prefixes of the files' names, with the run levels. When all objects of one run level exist, the cluster-version operator continues with the next
// run level.
const (
	shared     = "0000_49_cluster-storage-operator_"
	usual      = "0000_50_cluster-storage-operator_"
	monitoring = "0000_90_cluster-storage-operator_"
)

// Release has everything from which the manifests are made.
type Release struct {
	Scheme *runtime.Scheme
	// Entries are the catalogue entries of all drivers that a cluster can have. Drivers are the drivers of this repository.
	Entries []catalogue.Entry
	Drivers []driver.Driver
	// Images are the images of ImagesFile.
	Images []Image
}

// file is one manifest.
type file struct {
	name       string
	profiles   []string
	capability string
	objects    []client.Object
}

// Files returns the manifests, by the names of their files. The names have no folder.
func (r Release) Files() (map[string][]byte, error) {
	files, err := r.files()
	if err != nil {
		return nil, err
	}
	made := map[string][]byte{}
	for _, one := range files {
		if made[one.name], err = one.text(); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", one.name, err)
		}
	}
	made[ReferencesFile], err = references(r.images())
	return made, err
}

func (r Release) files() ([]file, error) {
	files, err := r.fixed()
	if err != nil {
		return nil, err
	}
	requests, err := r.requests()
	if err != nil {
		return nil, err
	}
	levels, err := r.serviceLevels()
	if err != nil {
		return nil, err
	}
	roles, err := r.roles()
	if err != nil {
		return nil, err
	}
	deployments, err := r.deployments()
	return slices.Concat(files, levels, requests, roles, deployments), err
}

func allProfiles() []string { return []string{selfManaged, singleNode, ibmManaged} }

// fixed returns the manifests that do not depend on the catalogue, the drivers or the images.
func (r Release) fixed() ([]file, error) {
	var files []file
	for _, one := range []struct {
		level, asset string
		values       manifest.Values
		suffix       string
		// credentials means that the manifest also needs the capability of the cloud-credential-operator.
		credentials bool
	}{
		{level: shared, asset: "release/01_namespace.yaml"},
		{level: usual, asset: "release/02_csi-drivers-namespace.yaml"},
		{level: usual, asset: "release/05_volumepopulators.yaml"},
		{level: usual, asset: "release/06_storage.yaml"},
		{level: usual, asset: "release/07_service-account.yaml"},
		{level: usual, asset: "release/08_former-rbac.yaml"},
		{level: usual, asset: "release/08_shared-roles.yaml"},
		{level: usual, asset: "release/09_metrics-service.yaml"},
		{level: usual, asset: "release/09_network-policies.yaml", values: namespace(catalogue.OperatorNamespace)},
		{level: usual, asset: "release/09_network-policies.yaml", values: namespace(catalogue.Namespace), suffix: "-csi-drivers"},
		{level: usual, asset: "release/09_network-policies-of-drivers.yaml"},
		{level: usual, asset: "release/11_cluster-operator.yaml"},
		{level: usual, asset: "release/12_former.yaml"},
		{level: usual, asset: "release/12_former-credentials.yaml", credentials: true},
		{level: usual, asset: "release/13_namespace-labels.yaml"},
		{level: monitoring, asset: "monitoring/01_prometheus-rbac.yaml", values: namespace(catalogue.OperatorNamespace)},
		{level: monitoring, asset: "monitoring/01_prometheus-rbac.yaml", values: namespace(catalogue.Namespace), suffix: "-csi-drivers"},
		{level: monitoring, asset: "monitoring/02_former-alerts.yaml"},
		{level: monitoring, asset: "monitoring/02_service-monitor.yaml"},
		{level: monitoring, asset: "monitoring/03_alerts.yaml"},
		{level: monitoring, asset: "monitoring/10_default-deny.yaml"},
	} {
		objects, err := r.load(one.asset, one.values)
		if err != nil {
			return nil, err
		}
		base := one.asset[strings.Index(one.asset, "/")+1:]
		next := file{
			name:     one.level + strings.TrimSuffix(base, ".yaml") + one.suffix + ".yaml",
			profiles: allProfiles(), capability: string(configv1.ClusterVersionCapabilityStorage), objects: objects,
		}
		switch {
		case one.level == shared:
			next.capability = ""
		case one.credentials:
			next.capability += "+" + string(configv1.ClusterVersionCapabilityCloudCredential)
		}
		files = append(files, next)
	}
	return files, nil
}

// serviceLevels returns the rules for the service levels of the drivers, and their dashboard.
func (r Release) serviceLevels() ([]file, error) {
	var names []string
	for i := range r.Drivers {
		names = append(names, r.Drivers[i].Name)
	}
	dashboard, err := levels.Console()
	if err != nil {
		return nil, err
	}
	rules := levels.Payload(names, catalogue.OperatorNamespace).Rules()
	storage := string(configv1.ClusterVersionCapabilityStorage)
	return []file{
		{name: usual + "14_service-levels-dashboard.yaml", profiles: allProfiles(), capability: storage, objects: []client.Object{dashboard}},
		{name: monitoring + "03_service-levels.yaml", profiles: allProfiles(), capability: storage, objects: []client.Object{rules}},
	}, nil
}

func namespace(name string) manifest.Values { return manifest.Values{"NAMESPACE": name} }

// load reads one asset.
func (r Release) load(name string, values manifest.Values) ([]client.Object, error) {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		return nil, fmt.Errorf("assets: %w", err)
	}
	return manifest.LoadFile(assets, name, values, r.Scheme)
}

// deployments returns the Deployments of the cluster-storage-operator. There is one more Deployment for clusters with an external control plane,
// because these have no control-plane nodes on which the operator could run.
func (r Release) deployments() ([]file, error) {
	found, err := variables(r.Entries, r.images())
	if err != nil {
		return nil, err
	}
	var own string
	for _, image := range r.Images {
		if image.Name == catalogue.Operator {
			own = image.Image
		}
	}
	var files []file
	for _, one := range []struct {
		suffix   string
		profiles []string
	}{{"", []string{selfManaged, singleNode}}, {"-" + ibmManaged, []string{ibmManaged}}} {
		objects, err := r.load("release/10_deployment.yaml", manifest.Values{"IMAGE": own})
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			deployment, ok := object.(*appsv1.Deployment)
			if !ok {
				return nil, fmt.Errorf("asset 10_deployment.yaml: %T is not a Deployment", object)
			}
			pod := &deployment.Spec.Template.Spec
			for _, name := range sorted(found) {
				pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: name, Value: found[name]})
			}
			if one.suffix != "" {
				pod.Affinity = nil
				openshift.OpenEgress(deployment.Spec.Template.Labels, configv1.ExternalTopologyMode)
			}
		}
		files = append(files, file{
			name: usual + "10_deployment" + one.suffix + ".yaml", profiles: one.profiles,
			capability: string(configv1.ClusterVersionCapabilityStorage), objects: objects,
		})
	}
	return files, nil
}

// text returns the content of the file, without the comments of the assets. Developers read the comments in the assets.
func (f file) text() ([]byte, error) {
	stream := bytes.NewBufferString(header)
	for _, object := range f.objects {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for _, profile := range f.profiles {
			annotations[profilePrefix+profile] = "true"
		}
		if f.capability != "" {
			annotations[capabilityAnnotation] = f.capability
		}
		object.SetAnnotations(annotations)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("convert %s: %w", object.GetName(), err)
		}
		if _, reports := object.(*configv1.ClusterOperator); !reports {
			delete(fields, "status")
		}
		text, err := yaml.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", object.GetName(), err)
		}
		stream.WriteString("---\n")
		stream.Write(text)
	}
	return stream.Bytes(), nil
}
