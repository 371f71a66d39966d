// Package release reads the version and the images of a release.
package release

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"sigs.k8s.io/yaml"
)

// The paths of the files that describe a release, from the root of the repository.
const (
	VersionFile = "VERSION"
	ImagesFile  = "images/images.yaml"
)

// Release is one version of the product.
type Release struct {
	Version semver.Version
	// Images are the images that OLM brings into a cluster. Packaging has the images of bundles, of catalogs and of the plugin, and base images that we
	// build. Payload has the images of programs of an OpenShift release. Neither a bundle nor a mirror of the catalog names the images in Payload.
	Images, Packaging, Payload []Image
	// NotChosen are the images that field driverImage of ImagesFile excludes from the release.
	NotChosen []Image
	// Bases are the images on which the build of other images is based. A base is no part of the release.
	Bases []Image
}

// Image is one image in ImagesFile.
type Image struct {
	Name string `json:"name"`
	// Image is the pull spec, with a tag.
	Image string `json:"image"`
	// Digest is "sha256:" and 64 hexadecimal digits. It overrides the tag. In the file, the tag stands before the digest, as in "v1.0.0@sha256:...". If
	// this tag differs from the tag in Image, the digest is stale, and Parse refuses it.
	Digest string `json:"digest,omitempty"`
	// Own means that we build the image for each release.
	Own bool `json:"-"`
	// Variable is the operator's environment variable for the image. It is empty if no pod gets the image.
	Variable string `json:"variable,omitempty"`
	// Argument is the name of a base image's build argument in Containerfiles. It is empty for all other images.
	Argument string `json:"argument,omitempty"`
	// Choice, if set, is a value of field driverImage. The release has this image only if driverImage has this value.
	Choice string `json:"choice,omitempty"`
}

// imageList has the content of ImagesFile.
type imageList struct {
	DriverImage string `json:"driverImage,omitempty"`

	Images    []Image `json:"images"`
	Packaging []Image `json:"packaging"`
	Payload   []Image `json:"payload,omitempty"`
	Bases     []Image `json:"bases,omitempty"`
}

// Load reads the release of a repository. An error names the file and the field.
func Load(repository fs.FS) (Release, error) {
	text, err := fs.ReadFile(repository, VersionFile)
	if err != nil {
		return Release{}, fmt.Errorf("version of the release: %w", err)
	}
	version, err := ParseVersion(strings.TrimSpace(string(text)))
	if err != nil {
		return Release{}, fmt.Errorf("%s: %w", VersionFile, err)
	}
	return LoadAt(repository, version)
}

// LoadAt does the same as Load, for a version that the repository does not have yet.
func LoadAt(repository fs.FS, version semver.Version) (Release, error) {
	text, err := fs.ReadFile(repository, ImagesFile)
	if err != nil {
		return Release{Version: version}, fmt.Errorf("images of the release: %w", err)
	}
	return Parse(text, version)
}

// Parse reads a text in the format of ImagesFile, and fills in the version.
func Parse(text []byte, version semver.Version) (Release, error) {
	found := Release{Version: version}
	var list imageList
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return found, fmt.Errorf("%s: %w", ImagesFile, err)
	}
	others, err := list.choose()
	if err := errors.Join(err, list.check()); err != nil {
		return found, err
	}
	var problems [5]error
	found.Images, problems[0] = expand(list.Images, found.Version)
	found.Packaging, problems[1] = expand(list.Packaging, found.Version)
	found.Payload, problems[2] = expand(list.Payload, found.Version)
	found.Bases, problems[3] = expand(list.Bases, found.Version)
	found.NotChosen, problems[4] = expand(others, found.Version)
	return found, errors.Join(problems[:]...)
}

// preview is the first part of a preview's suffix. A number follows.
const preview = "preview"

// ParseVersion reads the version of a release. It accepts 5.3.0, and 5.3.0-preview.1 for a preview. It refuses all other suffixes, because other code
// appends suffixes to a version.
func ParseVersion(text string) (semver.Version, error) {
	const want = "is not a version like 5.3.0 or 5.3.0-preview.1"
	version, err := semver.Parse(text)
	if err != nil {
		return version, fmt.Errorf("%q %s: %w", text, want, err)
	}
	final := len(version.Pre) == 0
	if (!final && !IsPreview(version)) || len(version.Build) > 0 {
		return version, fmt.Errorf("%q %s: a release has no other suffix", text, want)
	}
	return version, nil
}

// IsPreview reports whether a release is a preview, which clusters get only from the channel for previews.
func IsPreview(version semver.Version) bool {
	return len(version.Pre) == 2 && version.Pre[0].VersionStr == preview && version.Pre[1].IsNum
}

func (l imageList) check() error {
	var problems []error
	names, variables := map[string]bool{}, map[string]bool{}
	if len(l.Images) == 0 || len(l.Packaging) == 0 {
		problems = append(problems, fmt.Errorf("%s: it needs entries in images and in packaging", ImagesFile))
	}
	for _, list := range []struct {
		name   string
		images []Image
	}{{"images", l.Images}, {"packaging", l.Packaging}, {"payload", l.Payload}, {"bases", l.Bases}} {
		for i, image := range list.images {
			where := fmt.Sprintf("%s: %s[%d]", ImagesFile, list.name, i)
			switch {
			case image.Name == "":
				problems = append(problems, fmt.Errorf("%s.name: it is missing", where))
			case names[image.Name]:
				problems = append(problems, fmt.Errorf("%s.name: two images are named %s", where, image.Name))
			}
			if image.Variable != "" && variables[image.Variable] {
				problems = append(problems, fmt.Errorf("%s.variable: two images have variable %s", where, image.Variable))
			}
			if image.Choice != "" && list.name != "images" {
				problems = append(problems, fmt.Errorf("%s.choice: only entries of list images may have a choice", where))
			}
			if (image.Argument != "") != (list.name == "bases") {
				problems = append(problems, fmt.Errorf("%s.argument: it is %q: entries of list bases must have an argument, and other entries must not",
					where, image.Argument))
			}
			names[image.Name], variables[image.Variable] = true, true
			if err := image.check(); err != nil {
				problems = append(problems, fmt.Errorf("%s (%s): %w", where, image.Name, err))
			}
		}
	}
	return errors.Join(problems...)
}

// check refuses a pull spec that no container engine can pull. It also refuses tag latest, which can name another image tomorrow.
func (i Image) check() error {
	pullSpec := regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+:([A-Za-z0-9_.-]|\$\{VERSION\})+$`)
	switch {
	case !pullSpec.MatchString(i.Image):
		return fmt.Errorf("image: %q is not a pull spec with registry, repository and tag", i.Image)
	case strings.HasSuffix(i.Image, ":latest"):
		return fmt.Errorf("image: %q can change after the release: use the tag of a version", i.Image)
	case i.Digest != "" && !regexp.MustCompile(`^[A-Za-z0-9_.-]+@sha256:[0-9a-f]{64}$`).MatchString(i.Digest):
		return fmt.Errorf("digest: %q must be the tag of the image, then @sha256: and 64 hexadecimal digits", i.Digest)
	default:
		return nil
	}
}

// expand fills in the version. It refuses a digest that belongs to another tag.
func expand(images []Image, version semver.Version) ([]Image, error) {
	var found []Image
	var problems []error
	for _, image := range images {
		image.Own = strings.Contains(image.Image, "${VERSION}")
		image.Image = strings.ReplaceAll(image.Image, "${VERSION}", version.String())
		if image.Digest != "" {
			tag, digest, _ := strings.Cut(image.Digest, "@")
			if tag != image.tag() {
				problems = append(problems, fmt.Errorf("%s: %s: digest: it is the digest of tag %s, but the image has tag %s: write %s",
					ImagesFile, image.Name, tag, image.tag(), image.lookUp()))
			}
			image.Digest = digest
		}
		found = append(found, image)
	}
	return found, errors.Join(problems...)
}

func (i Image) tag() string { return i.Image[strings.LastIndex(i.Image, ":")+1:] }

// lookUp returns a text that says how to find the right value of field digest.
func (i Image) lookUp() string {
	return fmt.Sprintf("%s@ followed by the output of \"skopeo inspect --format '{{.Digest}}' docker://%s\"", i.tag(), i.Image)
}

// PullSpec returns the image as a pod or a mirror names it. It names the digest of the image. If no digest is known, it names the tag.
func (i Image) PullSpec() string {
	if i.Digest == "" {
		return i.Image
	}
	return i.Image[:strings.LastIndex(i.Image, ":")] + "@" + i.Digest
}

// CheckDigests refuses a release whose pods or builds name an image by its tag, because a tag can move to another image.
func (r Release) CheckDigests() error {
	var problems []error
	for _, image := range slices.Concat(r.Images, r.Bases) {
		if image.Digest == "" {
			problems = append(problems, fmt.Errorf("%s: %s: digest: version %s can't be released without a digest: write %s",
				ImagesFile, image.Name, r.Version, image.lookUp()))
		}
	}
	return errors.Join(problems...)
}

// WithoutOwnDigests removes the digests of our own images from the text of ImagesFile. Each of these digests belongs to only one version.
func WithoutOwnDigests(text string) string {
	own := false
	var kept []string
	for _, line := range strings.SplitAfter(text, "\n") {
		field := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- "))
		switch {
		case strings.HasPrefix(field, "image:"):
			own = strings.Contains(field, "${VERSION}")
		case own && strings.HasPrefix(field, "digest:"):
			continue
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "")
}

// All returns the images of all lists except the bases.
func (r Release) All() []Image { return slices.Concat(r.Images, r.Packaging, r.Payload) }

// Find returns the image with this name.
func (r Release) Find(name string) (Image, error) {
	for _, image := range r.All() {
		if image.Name == name {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("%s has no image named %s", ImagesFile, name)
}

// FindBase returns the base with this name.
func (r Release) FindBase(name string) (Image, error) {
	for _, image := range r.Bases {
		if image.Name == name {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("%s has no base named %s", ImagesFile, name)
}
