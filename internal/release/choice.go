package release

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The possible images of the EFS driver. Field driverImage of ImagesFile names the image that a release has.
const (
	// DriverUpstream is the image that the authors of the driver publish.
	DriverUpstream = "upstream"
	// DriverBuilt is the image that images/aws-efs-csi-driver/Containerfile builds.
	DriverBuilt = "built"
)

// Choose returns the text of ImagesFile with the choice in field driverImage.
func Choose(text, choice string) (string, error) {
	if choice != DriverUpstream && choice != DriverBuilt {
		return "", fmt.Errorf("DRIVER=%s: set DRIVER to %s or %s", choice, DriverUpstream, DriverBuilt)
	}
	line := regexp.MustCompile(`(?m)^driverImage: .*$`)
	if !line.MatchString(text) {
		return "", fmt.Errorf("%s: field driverImage is missing", ImagesFile)
	}
	return line.ReplaceAllString(text, "driverImage: "+choice), nil
}

// choose removes the images that field driverImage excludes from the release, and returns the removed images.
func (l *imageList) choose() ([]Image, error) {
	var choices []string
	var kept, others []Image
	var problems []error
	for i, image := range l.Images {
		switch image.Choice {
		case "":
			kept = append(kept, image)
			continue
		case l.DriverImage:
			kept = append(kept, image)
		default:
			if err := image.check(); err != nil {
				problems = append(problems, fmt.Errorf("%s: images[%d] (%s): %w", ImagesFile, i, image.Name, err))
			}
			others = append(others, image)
		}
		choices = append(choices, image.Choice)
	}
	if (l.DriverImage != "" || len(choices) > 0) && !slices.Contains(choices, l.DriverImage) {
		problems = append(problems, fmt.Errorf("%s: driverImage: no image has choice %q: use one of %s",
			ImagesFile, l.DriverImage, strings.Join(choices, ", ")))
	}
	l.Images = kept
	return others, errors.Join(problems...)
}

// FindBuilt returns the image with this name that we build, even if the release has another image with this name.
func (r Release) FindBuilt(name string) (Image, error) {
	for _, image := range append(r.All(), r.NotChosen...) {
		if image.Name == name && image.Own {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("%s has no image named %s with ${VERSION} in its tag", ImagesFile, name)
}
