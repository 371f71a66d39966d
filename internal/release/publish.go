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

// WithDigest returns the text of ImagesFile with this digest of an image. Before the digest, it writes the tag that the image has in this
// release.
func (r Release) WithDigest(text, name, digest string) (string, error) {
	image, err := r.Find(name)
	if err != nil {
		return "", err
	}
	entry := regexp.MustCompile(`(?m)^(  - name: ` + regexp.QuoteMeta(name) + `\n    image: \S+\n)(?:    digest: \S+\n)?`)
	if !entry.MatchString(text) {
		return "", fmt.Errorf("%s: the lines name and image of %s do not follow each other", ImagesFile, name)
	}
	return entry.ReplaceAllString(text, "${1}    digest: "+image.tag()+"@"+digest+"\n"), nil
}

// Repository returns the pull spec without its tag.
func (i Image) Repository() string { return i.Image[:strings.LastIndex(i.Image, ":")] }
