package olm

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/blang/semver/v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
)

// The places of a bundle's sources, from the root of the repository.
const (
	templateFile  = "config/manifests/clusterserviceversion.yaml"
	iconFile      = "config/manifests/icon.svg"
	namespaceFile = "config/manifests/namespace.yaml"
	managerFile   = "config/manager/manager.yaml"
	roleFile      = "config/rbac/role.yaml"
	samplesFolder = "config/samples"

	crdFolder        = "config/crd"
	monitoringFolder = "config/prometheus"
	roleFolder       = "config/rbac"
	// consoleFolder has objects that the console shows to users: downloads, quick starts and samples.
	consoleFolder = "config/console"
)

// Annotations with values that come from other files.
const (
	examplesAnnotation  = "alm-examples"
	initAnnotation      = "operatorframework.io/initialization-resource"
	suggestedAnnotation = "operatorframework.io/suggested-namespace"
	namespaceAnnotation = "operatorframework.io/suggested-namespace-template"
	skipRangeAnnotation = "olm.skipRange"
	propertyAnnotation  = "olm.properties"
)

const header = "# Made by \"make bundle\". Do not edit.\n"

// Files has the contents of the files in a folder. The key is the path from the folder, with slashes.
type Files map[string][]byte

// Generate makes the bundle of a package.
func Generate(repository fs.FS, r release.Release, p Package) (Files, error) {
	source := source{repository: repository, release: r, pkg: p}
	csv, err := source.csv()
	if err != nil {
		return nil, err
	}
	files := Files{}
	if err := files.add("manifests/"+p.Name+".clusterserviceversion.yaml", csv); err != nil {
		return nil, err
	}
	if err := source.addManifests(files); err != nil {
		return nil, err
	}
	return files, files.add("metadata/annotations.yaml", map[string]any{"annotations": p.annotations(r.Version)})
}

// annotations returns the annotations in the bundle's folder, which are also the labels of the bundle's image. The annotations of a release name the
// default channel, Stable. The annotations of a preview name no default channel, because a preview is not in channel Stable.
func (p Package) annotations(version semver.Version) map[string]string {
	const prefix = "operators.operatorframework.io.bundle."
	found := map[string]string{
		prefix + "mediatype.v1": "registry+v1",
		prefix + "manifests.v1": "manifests/",
		prefix + "metadata.v1":  "metadata/",
		prefix + "package.v1":   p.Name,
		prefix + "channels.v1":  strings.Join(channels(version), ","),
	}
	if !release.IsPreview(version) {
		found[prefix+"channel.default.v1"] = Stable
	}
	return found
}

// add adds an object as a YAML file. If the file already exists, add returns an error.
func (f Files) add(name string, object any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, taken := f[name]; taken {
		return fmt.Errorf("%s: two objects have this file", name)
	}
	f[name] = append([]byte(header), text...)
	return nil
}

// source reads the sources of a bundle.
type source struct {
	repository fs.FS
	release    release.Release
	pkg        Package
}

func (s source) csv() (*ClusterServiceVersion, error) {
	csv := &ClusterServiceVersion{}
	if err := s.read(templateFile, csv); err != nil {
		return nil, err
	}
	csv.Spec.DisplayName, csv.Spec.Description = s.pkg.Title, s.pkg.Preface+csv.Spec.Description
	if release.IsPreview(s.release.Version) {
		csv.Spec.Maturity = "beta"
	}
	icon, err := fs.ReadFile(s.repository, iconFile)
	if err != nil {
		return nil, fmt.Errorf("icon: %w", err)
	}
	csv.Spec.Icon = []Icon{{Data: base64.StdEncoding.EncodeToString(icon), MediaType: "image/svg+xml"}}
	for _, image := range s.release.Images {
		csv.Spec.RelatedImages = append(csv.Spec.RelatedImages, RelatedImage{Name: image.Name, Image: image.PullSpec()})
	}
	var problems [3]error
	csv.Spec.Install.Strategy = "deployment"
	csv.Spec.Install.Spec.Deployments, problems[0] = s.deployments()
	problems[1] = s.grant(&csv.Spec.Install.Spec)
	problems[2] = s.annotate(csv.Metadata.Annotations)
	return csv, errors.Join(problems[:]...)
}

// deployments returns the Deployment of the operator. It adds the images to the environment of the operator's containers.
func (s source) deployments() ([]Deployment, error) {
	var manager appsv1.Deployment
	if err := s.read(managerFile, &manager); err != nil {
		return nil, err
	}
	for i := range manager.Spec.Template.Spec.Containers {
		container := &manager.Spec.Template.Spec.Containers[i]
		for _, image := range s.release.Images {
			if image.Variable != "" {
				container.Env = append(container.Env, corev1.EnvVar{Name: image.Variable, Value: image.PullSpec()})
			}
		}
	}
	return []Deployment{{Name: manager.Name, Label: manager.Labels, Spec: manager.Spec}}, nil
}

// grant writes the rules of the operator's roles into the ClusterServiceVersion, as permissions.
func (s source) grant(install *InstallSpec) error {
	roles, err := Roles(s.repository)
	if err != nil {
		return err
	}
	install.ClusterPermissions = []Permission{{ServiceAccountName: roles.Account, Rules: roles.Cluster}}
	install.Permissions = []Permission{{ServiceAccountName: roles.Account, Rules: roles.Namespaced}}
	return nil
}

// annotate adds annotations with the examples, and with objects that the console creates or suggests.
func (s source) annotate(annotations map[string]string) error {
	examples, err := s.objects(samplesFolder)
	if err != nil {
		return err
	}
	namespace := map[string]any{}
	if err := s.read(namespaceFile, &namespace); err != nil {
		return err
	}
	encode := func(name string, object any) {
		text, failure := json.MarshalIndent(object, "", "  ")
		err = errors.Join(err, failure)
		annotations[name] = string(text)
	}
	if s.pkg.Suffix == "" {
		// The bridge, which has the name of the community's package, suggests no namespace. Its users stay in the namespace of the community's operator.
		annotations[suggestedAnnotation] = s.pkg.Namespace
		encode(namespaceAnnotation, namespace)
	}
	shown := []map[string]any{}
	for _, example := range examples {
		if example.GetKind() == "ClusterCSIDriver" {
			// With this annotation, the console offers to create a ClusterCSIDriver. The ClusterCSIDriver can't be in the annotation with the other examples.
			// Validators refuse examples of a kind that the bundle does not own.
			encode(initAnnotation, example.Object)
			continue
		}
		shown = append(shown, example.Object)
	}
	encode(examplesAnnotation, shown)
	return err
}

// addManifests adds the objects other than the operator: CRDs, roles for users, metrics, alerts, and objects for the console. It removes their
// namespaces, because OLM sets the namespace.
func (s source) addManifests(files Files) error {
	for _, folder := range s.pkg.Manifests {
		objects, err := s.objects(folder)
		if err != nil {
			return err
		}
		for i := range objects {
			object := &objects[i]
			if folder == roleFolder && !strings.Contains(object.GetName(), "sharedvolume") {
				// The ClusterServiceVersion has the operator's own RBAC.
				continue
			}
			object.SetNamespace("")
			kind := object.GroupVersionKind()
			name := fmt.Sprintf("%s_%s.yaml", object.GetName(), strings.ToLower(kind.Kind))
			if kind.Kind == "CustomResourceDefinition" {
				name = object.GetName() + ".crd.yaml"
			}
			if err := files.add(path.Join("manifests", name), object.Object); err != nil {
				return err
			}
		}
	}
	return nil
}
