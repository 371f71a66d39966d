package olm_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
)

// history is the catalog of a package after some releases.
func history(t *testing.T, p olm.Package, versions ...string) olm.Files {
	t.Helper()
	repository := os.DirFS(root)
	catalog := olm.Files{}
	for _, text := range versions {
		version, err := semver.Parse(text)
		must(t, err)
		current, err := release.LoadAt(repository, version)
		must(t, err)
		bundle, err := olm.Generate(repository, current, p)
		must(t, err)
		must(t, olm.AddToCatalog(catalog, bundle, current, p))
	}
	return catalog
}

func TestEveryReleaseLeadsToTheNewest(t *testing.T) {
	for _, p := range olm.Packages() {
		catalog := history(t, p, "5.3.0", "5.3.1", "5.3.12", "5.4.0")
		if err := olm.CheckCatalog(catalog, p); err != nil {
			t.Errorf("package %s:\n%v", p.Name, err)
		}
		// The same version once more is no new one.
		again := history(t, p, "5.3.0", "5.3.1", "5.3.12", "5.4.0", "5.4.0")
		if !maps.EqualFunc(catalog, again, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Errorf("package %s: making a version twice changes the catalog", p.Name)
		}
	}
}

func TestACatalogWithADeadEndIsRefused(t *testing.T) {
	own, bridge := olm.Packages()[0], olm.Packages()[1]
	histories := map[string]olm.Files{}
	for _, p := range olm.Packages() {
		histories[p.Name] = history(t, p, "5.3.0", "5.3.1", "5.3.2")
	}
	const range532 = "skipRange: '>=0.0.1 <5.3.2'"
	for name, example := range map[string]struct {
		p              olm.Package
		file           string
		from, to, want string
	}{
		"range begins late": {
			own, "channels/stable.yaml", ">=0.0.1", ">=5.0.0", "upgrades from aws-efs-csi-driver-operator.v4.16.0-202410111039 end at",
		},
		"community is left behind": {
			bridge, "channels/stable.yaml", ">=0.0.1", ">=5.0.0", "upgrades from aws-efs-operator.v0.0.6 end at",
		},
		"no range at all": {own, "channels/stable.yaml", range532, "", `entries: aws-efs-csi-driver-operator.v5.3.2: skipRange: "" is no range`},
		"range has itself": {
			own, "channels/stable.yaml", range532, "skipRange: '>=0.0.1 <=5.3.2'", `skipRange: ">=0.0.1 <=5.3.2" includes version 5.3.2 or a later one`,
		},
		"range has later ones": {own, "channels/stable.yaml", range532, "skipRange: '>=5.3.3'", "includes version 5.3.2 or a later one"},
		"replaces nothing":     {own, "channels/stable.yaml", "  replaces: aws-efs-csi-driver-operator.v5.3.1\n", "", "v5.3.2: replaces: it is \"\", want the version before"},
		"replaces a stranger": {
			own, "channels/stable.yaml", "replaces: aws-efs-csi-driver-operator.v5.3.1", "replaces: aws-efs-csi-driver-operator.v5.0.7",
			`replaces: it is "aws-efs-csi-driver-operator.v5.0.7", want the version before, "aws-efs-csi-driver-operator.v5.3.1"`,
		},
		"version is left out": {
			own, "channels/stable.yaml", "- name: aws-efs-csi-driver-operator.v5.3.0\n  skipRange: '>=0.0.1 <5.3.0'\n", "",
			"v5.3.0: the channel does not have the bundle",
		},
		"version that is not there": {
			own, "channels/stable.yaml", "- name: aws-efs-csi-driver-operator.v5.3.0\n", "- name: aws-efs-csi-driver-operator.v5.0.0\n",
			"v5.0.0: bundles/ has no bundle of that name for channel stable",
		},
		"misspelt field": {own, "channels/stable.yaml", "skipRange:", "skiprange:", `channels/stable.yaml: unknown field "entries[0].skiprange"`},
		"other channel":  {own, "channels/stable.yaml", "name: stable", "name: fast", `channels/stable.yaml: it is channel "fast" of package "aws-efs-csi-driver-operator", want "stable"`},
		"other package":  {own, "package.yaml", "name: aws-efs-csi-driver-operator", "name: efs", `package.yaml: the package is "efs"`},
		"no picture":     {own, "package.yaml", "base64data: PHN2", "base64data: P%N2", "package.yaml: icon.base64data"},
		"other version":  {own, "bundles/v5.3.1.yaml", "    version: 5.3.1\n", "    version: 5.3.3\n", `bundles/v5.3.1.yaml: this is bundle "aws-efs-csi-driver-operator.v5.3.1"`},
		"no version":     {own, "bundles/v5.3.1.yaml", "    version: 5.3.1\n", "", "bundles/v5.3.1.yaml: properties: the package's version is missing or invalid"},
		"image is missing": {
			own, "bundles/v5.3.1.yaml", "\nimage: quay.io/csi-operators/aws-efs-csi-driver-operator-bundle:v5.3.1", "", `bundles/v5.3.1.yaml: image: "" is missing`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			catalog := maps.Clone(histories[example.p.Name])
			text := string(catalog[example.file])
			if !strings.Contains(text, example.from) {
				t.Fatalf("%s has no %q:\n%s", example.file, example.from, text)
			}
			catalog[example.file] = []byte(strings.ReplaceAll(text, example.from, example.to))
			err := olm.CheckCatalog(catalog, example.p)
			if err == nil || !strings.Contains(err.Error(), example.want) {
				t.Errorf("error: %v\nwant %q", err, example.want)
			}
		})
	}
}

// An administrator can change the channel in both directions. A preview stays until a newer version comes.
func TestPreviewsHaveAChannelOfTheirOwn(t *testing.T) {
	for _, p := range olm.Packages() {
		catalog := history(t, p, "5.3.0", "5.4.0-preview.1", "5.4.0-preview.2")
		must(t, olm.CheckCatalog(catalog, p))
		later := history(t, p, "5.3.0", "5.4.0-preview.1", "5.4.0-preview.2", "5.4.0", "5.5.0-preview.1")
		must(t, olm.CheckCatalog(later, p))
		for _, example := range []struct {
			catalog            olm.Files
			channel, from, end string
		}{
			{catalog, olm.Preview, "5.3.0", "5.4.0-preview.2"},
			{catalog, olm.Preview, "5.4.0-preview.1", "5.4.0-preview.2"},
			{catalog, olm.Stable, "5.3.0", "5.3.0"},
			{catalog, olm.Stable, "5.4.0-preview.1", "5.4.0-preview.1"},
			{later, olm.Stable, "5.3.0", "5.4.0"},
			{later, olm.Stable, "5.4.0-preview.1", "5.4.0"},
			{later, olm.Preview, "5.4.0-preview.1", "5.5.0-preview.1"},
		} {
			version, end := p.Version(semver.MustParse(example.from)), p.CSVName(semver.MustParse(example.end))
			got, err := olm.Upgrade(example.catalog, p, example.channel, p.CSVName(semver.MustParse(example.from)), version)
			if err != nil || got != end {
				t.Errorf("channel %s of %s, from %s: %s (%v), want %s", example.channel, p.Name, version, got, err, end)
			}
		}
		if strings.Contains(string(catalog[olm.ChannelFile(olm.Stable)]), "5.4.0") {
			t.Errorf("package %s: channel stable has a preview", p.Name)
		}
		first := history(t, p, "5.3.0-preview.1")
		must(t, olm.CheckCatalog(first, p))
		if text := string(first["package.yaml"]); !strings.Contains(text, "defaultChannel: preview") {
			t.Errorf("package %s has only a preview, and suggests another channel:\n%s", p.Name, text)
		}
	}
}

// Who makes an upgrade that needs a step in between starts the range there; OLM then takes that step.
func TestAStepInBetweenIsTaken(t *testing.T) {
	p := olm.Packages()[0]
	catalog := history(t, p, "5.3.0", "5.3.1", "5.3.2")
	catalog["channels/stable.yaml"] = []byte(strings.Replace(string(catalog["channels/stable.yaml"]), "'>=0.0.1 <5.3.2'", "'>=5.3.1 <5.3.2'", 1))
	must(t, olm.CheckCatalog(catalog, p))
}

func TestACatalogHasOneFilePerVersion(t *testing.T) {
	catalog := history(t, olm.Packages()[1], "5.3.0", "5.3.1")
	want := []string{
		"bundles/v5.3.0-bridge.yaml", "bundles/v5.3.1-bridge.yaml", "channels/preview.yaml", "channels/stable.yaml", "package.yaml",
	}
	if got := slices.Sorted(maps.Keys(catalog)); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files %v, want %v", got, want)
	}
}
