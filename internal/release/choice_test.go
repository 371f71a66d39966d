package release_test

import (
	"os"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/csi-operators/csi-operators/internal/release"
)

const choices = `driverImage: upstream
images:
  - name: driver
    image: public.example.com/driver:v3
    choice: upstream
    variable: DRIVER_IMAGE
  - name: driver
    image: example.com/a/driver:v${VERSION}
    choice: built
    variable: DRIVER_IMAGE
packaging:
  - name: bundle
    image: example.com/a/bundle:v${VERSION}
`

func chosen(t *testing.T, text, choice string) (string, release.Release) {
	t.Helper()
	text, err := release.Choose(text, choice)
	if err != nil {
		t.Fatal(err)
	}
	found, err := release.Parse([]byte(text), semver.MustParse("5.3.0"))
	if err != nil {
		t.Fatal(err)
	}
	return text, found
}

func TestAReleaseHasTheChosenImageOfTheDriver(t *testing.T) {
	for choice, want := range map[string]string{"upstream": "public.example.com/driver:v3", "built": "example.com/a/driver:v5.3.0"} {
		text, found := chosen(t, choices, choice)
		if len(found.Images) != 1 || found.Images[0].PullSpec() != want || len(found.NotChosen) != 1 {
			t.Errorf("%s: images %v, and not chosen %v", choice, found.Images, found.NotChosen)
		}
		if built, err := found.FindBuilt("driver"); err != nil || built.Image != "example.com/a/driver:v5.3.0" {
			t.Errorf("%s: we build %v, %v", choice, built, err)
		}
		// A release needs the digest of the image that it has, and gets it at this image.
		if err := found.CheckDigests(); err == nil || !strings.Contains(err.Error(), "driver: digest: version 5.3.0 can't be released") {
			t.Errorf("%s: error %v", choice, err)
		}
		text, err := found.WithDigest(text, "driver", "sha256:"+digest)
		if err != nil {
			t.Fatal(err)
		}
		again, err := release.Parse([]byte(text), found.Version)
		if err != nil {
			t.Fatal(err)
		}
		if again.Images[0].Digest != "sha256:"+digest || again.NotChosen[0].Digest != "" {
			t.Errorf("%s: the digest went to another image:\n%s", choice, text)
		}
		if err := again.CheckDigests(); err != nil {
			t.Errorf("%s: %v", choice, err)
		}
	}
}

func TestAChoiceThatIsNoneIsNamed(t *testing.T) {
	for name, example := range map[string]struct{ from, to, want string }{
		"a typing error":      {"driverImage: upstream", "driverImage: upstreams", `driverImage: no image has choice "upstreams": use one of upstream, built`},
		"no choice":           {"driverImage: upstream\n", "", `driverImage: no image has choice ""`},
		"an image twice":      {"choice: built", "choice: upstream", "images[1].name: two images are named driver"},
		"a bad pull spec":     {"a/driver:v${VERSION}", "a/driver", "images[1] (driver): image:"},
		"a choice of bundles": {"bundle:v${VERSION}", "bundle:v${VERSION}\n    choice: built", "packaging[0].choice: only entries of list images may have a choice"},
	} {
		_, err := release.Parse([]byte(strings.Replace(choices, example.from, example.to, 1)), semver.MustParse("5.3.0"))
		if err == nil || !strings.Contains(err.Error(), example.want) {
			t.Errorf("%s: error %v, want %q", name, err, example.want)
		}
	}
	if _, err := release.Choose(choices, "mine"); err == nil || !strings.Contains(err.Error(), "DRIVER=mine: set DRIVER to upstream or built") {
		t.Errorf("error %v", err)
	}
	if _, err := release.Choose("images: []\n", "built"); err == nil || !strings.Contains(err.Error(), "driverImage is missing") {
		t.Errorf("error %v", err)
	}
}

func TestTheRepositoryHasBothImagesOfTheDriver(t *testing.T) {
	text, err := os.ReadFile("../../" + release.ImagesFile)
	if err != nil {
		t.Fatal(err)
	}
	for choice, own := range map[string]bool{release.DriverUpstream: false, release.DriverBuilt: true} {
		_, found := chosen(t, string(text), choice)
		if image, err := found.Find("aws-efs-csi-driver"); err != nil || image.Own != own || image.Variable != "DRIVER_IMAGE" {
			t.Errorf("%s: %+v, %v", choice, image, err)
		}
	}
}
