package payload

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

const (
	// ImagesFile is the file with the images of the release, from the root of the repository.
	ImagesFile = "images/payload.yaml"
	// builtinImage is the name of the image with the operator program for all drivers of this repository.
	builtinImage = "csi-driver-operator"
)

// Image is an image of a release.
type Image struct {
	// Name is the name of the image in the release. Image is a placeholder, which the build of the release replaces.
	Name  string `json:"name"`
	Image string `json:"image"`
	// Variable is the environment variable of the cluster-storage-operator for this image. It is empty if no variable has this image.
	Variable string `json:"variable,omitempty"`
}

// LoadImages reads ImagesFile of a repository.
func LoadImages(repository fs.FS) ([]Image, error) {
	text, err := fs.ReadFile(repository, ImagesFile)
	if err != nil {
		return nil, fmt.Errorf("images of the release: %w", err)
	}
	var list struct {
		Images []Image `json:"images"`
	}
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", ImagesFile, err)
	}
	return list.Images, nil
}

// images returns the images of ImagesFile, and the images of the drivers of this repository.
func (r Release) images() []Image {
	all := slices.Clone(r.Images)
	for _, d := range r.Drivers {
		if d.Payload != nil {
			name := cmp.Or(d.Payload.Image, d.Prefix)
			all = append(all, Image{Name: name, Image: "quay.io/openshift/origin-" + name + ":latest", Variable: d.Payload.DriverImage()})
		}
	}
	return all
}

// variables returns the environment variables that the catalogue entries need, with their images. variables returns an error if an image is missing,
// or if no entry needs the variable of an image.
func variables(entries []catalogue.Entry, images []Image) (map[string]string, error) {
	known, found := map[string]string{}, map[string]string{}
	names := map[string]string{}
	var problems []error
	for _, image := range images {
		if names[image.Name] != "" {
			problems = append(problems, fmt.Errorf("%s: two images are named %s", ImagesFile, image.Name))
		}
		if image.Variable != "" && known[image.Variable] != "" {
			problems = append(problems, fmt.Errorf("%s: two images have variable %s", ImagesFile, image.Variable))
		}
		names[image.Name], known[image.Variable] = image.Image, image.Image
	}
	for _, name := range []string{catalogue.Operator, builtinImage} {
		if names[name] == "" {
			problems = append(problems, fmt.Errorf("%s: there is no image %s", ImagesFile, name))
		}
	}
	for _, entry := range entries {
		if entry.Builtin {
			known[entry.Image] = names[builtinImage]
		}
		for _, variable := range entry.Variables() {
			if found[variable] = known[variable]; found[variable] == "" {
				problems = append(problems, fmt.Errorf("%s: no image is assigned to variable %s, which %s needs: add an image with this variable",
					ImagesFile, variable, entry.Name))
			}
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(known)) {
		if _, needed := found[variable]; !needed && variable != "" {
			problems = append(problems, fmt.Errorf("%s: no driver needs %s: remove it", ImagesFile, variable))
		}
	}
	return found, errors.Join(problems...)
}

// references returns the content of the file that tells a release build which images to replace.
func references(images []Image) ([]byte, error) {
	tags := make([]any, 0, len(images))
	for _, image := range images {
		tags = append(tags, map[string]any{"name": image.Name, "from": map[string]any{"kind": "DockerImage", "name": image.Image}})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "spec": map[string]any{"tags": tags},
	})
	if err != nil {
		return nil, fmt.Errorf("write the image references: %w", err)
	}
	return append([]byte(header), text...), nil
}
