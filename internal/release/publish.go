package release

import (
	"fmt"
	"regexp"
	"strings"
)

// Relocate returns the text of ImagesFile with our own images in another registry.
func Relocate(text, registry string) string {
	own := regexp.MustCompile(`(?m)^(    image: )\S+(/[^/\s]+:\S*\$\{VERSION\})$`)
	return own.ReplaceAllString(text, "${1}"+strings.ReplaceAll(registry, "$", "$$")+"${2}")
}

// RelocateOthers returns the text of ImagesFile with all images that we do not build, and all bases, in another registry. Their paths stay. Their
// digests also stay, because a copy of an image has the same digest as the image.
func RelocateOthers(text, registry string) string {
	others := regexp.MustCompile(`(?m)^(    image: )[^/\s]+(/[^\s$]+)$`)
	return others.ReplaceAllString(text, "${1}"+strings.ReplaceAll(registry, "$", "$$")+"${2}")
}

// WithDigest returns the text of ImagesFile with a new digest of one image or base. Before the digest, it writes the tag that the image has in this
// release.
func (r Release) WithDigest(text, name, digest string) (string, error) {
	image, err := r.Find(name)
	if err != nil {
		if image, err = r.FindBase(name); err != nil {
			return "", err
		}
	}
	// Two images in the file can have the same name, if field driverImage chooses between them. So the code also compares the pull spec.
	entry := regexp.MustCompile(`(?m)^(  - name: ` + regexp.QuoteMeta(name) + `\n    image: (\S+)\n)(?:    digest: \S+\n)?`)
	found := false
	text = entry.ReplaceAllStringFunc(text, func(lines string) string {
		part := entry.FindStringSubmatch(lines)
		if strings.ReplaceAll(part[2], "${VERSION}", r.Version.String()) != image.Image {
			return lines
		}
		found = true
		return part[1] + "    digest: " + image.tag() + "@" + digest + "\n"
	})
	if !found {
		return "", fmt.Errorf("%s: after line \"name: %s\", the next line must be \"image:\"", ImagesFile, name)
	}
	return text, nil
}

// Repository returns the pull spec without its tag.
func (i Image) Repository() string { return i.Image[:strings.LastIndex(i.Image, ":")] }
