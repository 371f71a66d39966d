package release_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/release"
)

const listed = `images:
  - name: operator
    image: quay.io/a/operator:v${VERSION}
    variable: OPERATOR_IMAGE
  - name: sidecar
    image: registry.k8s.io/sig/sidecar:v1
packaging:
  - name: bundle
    image: quay.io/a/bundle:v${VERSION}
`

func TestOnlyOurOwnImagesMove(t *testing.T) {
	moved := release.Relocate(listed, "localhost:5000/me")
	want := strings.ReplaceAll(listed, "quay.io/a", "localhost:5000/me")
	if diff := cmp.Diff(want, moved); diff != "" {
		t.Error(diff)
	}
}

func TestADigestIsWrittenOnceAndReplaced(t *testing.T) {
	version, err := release.ParseVersion("5.3.0")
	if err != nil {
		t.Fatal(err)
	}
	found, err := release.Parse([]byte(listed), version)
	if err != nil {
		t.Fatal(err)
	}
	text := listed
	for _, sum := range []string{"sha256:" + strings.Repeat("0", 64), "sha256:" + digest} {
		if text, err = found.WithDigest(text, "operator", sum); err != nil {
			t.Fatal(err)
		}
	}
	again, err := release.Parse([]byte(text), version)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Images[0].PullSpec(); got != "quay.io/a/operator@sha256:"+digest || again.Images[0].Variable == "" {
		t.Errorf("%s in\n%s", got, text)
	}
	if _, err := found.WithDigest(text, "nobody", digest); err == nil {
		t.Error("an image that is not listed has a digest")
	}
	if _, err := found.WithDigest("images: []\n", "operator", digest); err == nil || !strings.Contains(err.Error(), "the next line must be") {
		t.Errorf("error %v", err)
	}
}

// Images of others, and bases, keep their paths, tags and digests. Ours stay where they are.
func TestImagesOfOthersGetAnotherRegistry(t *testing.T) {
	const text = "  - name: a\n    image: quay.io/ours/a:v${VERSION}\n  - name: b\n    image: registry.k8s.io/sig/b:v1\n    digest: v1@sha256:1\n"
	const want = "  - name: a\n    image: quay.io/ours/a:v${VERSION}\n  - name: b\n    image: copies.example:5000/x/sig/b:v1\n    digest: v1@sha256:1\n"
	if got := release.RelocateOthers(text, "copies.example:5000/x"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
