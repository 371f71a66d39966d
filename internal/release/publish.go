package release

import (
	"fmt"
	"regexp"
	"strings"
)

// Relocate moves our own images to another registry in the text of ImagesFile.
func Relocate(text, registry string) string {
	own := regexp.MustCompile(`(?m)^(    image: )\S+(/[^/\s]+:\S*\$\{VERSION\})$`)
	return own.ReplaceAllString(text, "${1}"+strings.ReplaceAll(registry, "$", "$$")+"${2}")
}

// WithDigest writes the digest of an image into the text of ImagesFile, with the tag that it has in this release.
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

// Repository is the pull spec without its tag.
func (i Image) Repository() string { return i.Image[:strings.LastIndex(i.Image, ":")] }
