package release_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/release"
)

const images = `images:
  - {name: operator, image: "example.com/a/operator:v${VERSION}"}
  - {name: driver, image: "example.com:5000/driver:v1", digest: "v1@sha256:` + digest + `", variable: DRIVER_IMAGE}
packaging:
  - {name: bundle, image: "example.com/a/bundle:v${VERSION}"}
payload:
  - {name: program, image: "example.com/a/program:v${VERSION}"}
`

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func files(version, images string) fstest.MapFS {
	return fstest.MapFS{release.VersionFile: {Data: []byte(version)}, release.ImagesFile: {Data: []byte(images)}}
}

func TestAReleaseKnowsItsImages(t *testing.T) {
	found, err := release.Load(files("5.3.0\n", images))
	if err != nil {
		t.Fatal(err)
	}
	var specs []string
	for _, name := range []string{"operator", "driver", "bundle", "program"} {
		image, err := found.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, image.PullSpec())
	}
	want := []string{
		"example.com/a/operator:v5.3.0", "example.com:5000/driver@sha256:" + digest, "example.com/a/bundle:v5.3.0", "example.com/a/program:v5.3.0",
	}
	if diff := cmp.Diff(want, specs); diff != "" {
		t.Error(diff)
	}
	if _, err := found.Find("nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("error %v does not name the image", err)
	}
}

func TestWhatIsWrongWithAReleaseIsNamed(t *testing.T) {
	for name, example := range map[string]struct{ version, from, to, want string }{
		"no version":               {version: "", want: `VERSION: "" is not a version`},
		"version with suffix":      {version: "5.3.0-rc1", want: "a release has no other suffix"},
		"preview without number":   {version: "5.3.0-preview", want: "a release has no other suffix"},
		"preview with a word":      {version: "5.3.0-preview.b", want: "a release has no other suffix"},
		"preview with build":       {version: "5.3.0-preview.1+a", want: "a release has no other suffix"},
		"version of two parts":     {version: "5.3", want: `"5.3" is not a version`},
		"misspelt field":           {from: "variable:", to: "varialbe:", want: "varialbe"},
		"no name":                  {from: "name: driver, ", want: "images[1].name: it is missing"},
		"same name":                {from: "name: bundle", to: "name: driver", want: "packaging[0].name: two images are named driver"},
		"same name in payload":     {from: "name: program", to: "name: bundle", want: "payload[0].name: two images are named bundle"},
		"no tag":                   {from: "driver:v1", to: "driver", want: "images[1] (driver): image:"},
		"latest":                   {from: "driver:v1", to: "driver:latest", want: "can change after the release"},
		"short digest":             {from: digest, to: "0123", want: "images[1] (driver): digest:"},
		"a digest without its tag": {from: `"v1@sha`, to: `"sha`, want: "images[1] (driver): digest:"},
		"a digest of an older tag": {
			from: "driver:v1", to: "driver:v2", want: `images/images.yaml: driver: digest: it is the digest of tag v1, but the image has tag v2: write v2@ ` +
				`followed by the output of "skopeo inspect --format '{{.Digest}}' docker://example.com:5000/driver:v2"`,
		},
		"an argument": {from: "variable:", to: "argument:", want: "images[1].argument: it is "},
		"same variable": {
			from: `operator:v${VERSION}"`, to: `operator:v${VERSION}", variable: DRIVER_IMAGE`, want: "images[1].variable: two images have variable DRIVER_IMAGE",
		},
		"no packaging": {from: images[strings.Index(images, "packaging"):strings.Index(images, "payload")], want: "needs entries in images and in packaging"},
	} {
		t.Run(name, func(t *testing.T) {
			if example.from != "" {
				example.version = "5.3.0"
			}
			_, err := release.Load(files(example.version, strings.Replace(images, example.from, example.to, 1)))
			if err == nil || !strings.Contains(err.Error(), example.want) {
				t.Errorf("error is %v, want %q", err, example.want)
			}
		})
	}
}

func TestTheReleaseHasEveryImageThatTheDriverNeeds(t *testing.T) {
	found, err := release.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	efs := awsefs.Driver()
	given := map[string]string{}
	for _, image := range found.Images {
		given[image.Variable] = image.PullSpec()
	}
	delete(given, "")
	if err := efs.CheckImages(given, map[string]string{"WATCH_MOUNTS": "true"}); err != nil {
		t.Error(err)
	}
	if len(given) != len(efs.Images()) {
		t.Errorf("%d images have a variable, the driver reads %d", len(given), len(efs.Images()))
	}
}
