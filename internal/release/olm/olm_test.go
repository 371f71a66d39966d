package olm_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
)

const root = "../../.."

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shipped is the bundle of a package as it is in the tree, and what it must agree with.
func shipped(t *testing.T, p olm.Package) (olm.Files, olm.Expected) {
	t.Helper()
	repository := os.DirFS(root)
	current, err := release.Load(repository)
	must(t, err)
	expected, err := olm.Expect(repository, current, p, olm.StoredFile)
	must(t, err)
	files, err := olm.ReadFiles(repository, path.Join(olm.Bundles, p.Name))
	must(t, err)
	return files, expected
}

func TestTheShippedBundlesAreRight(t *testing.T) {
	for _, p := range olm.Packages() {
		files, expected := shipped(t, p)
		if err := olm.Check(files, expected); err != nil {
			t.Errorf("package %s:\n%v", p.Name, err)
		}
		catalog, err := olm.ReadFiles(os.DirFS(root), path.Join(olm.Catalog, p.Name))
		must(t, err)
		if err := olm.CheckCatalog(catalog, p); err != nil {
			t.Errorf("catalog of %s:\n%v", p.Name, err)
		}
	}
}

// tree copies what bundles are made of, so that a test can change it.
func tree(t *testing.T) string {
	t.Helper()
	target := t.TempDir()
	for _, folder := range []string{"bundle", "config", "images"} {
		must(t, os.CopyFS(filepath.Join(target, folder), os.DirFS(filepath.Join(root, folder))))
	}
	text, err := os.ReadFile(filepath.Join(root, release.VersionFile))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(target, release.VersionFile), text, 0o600))
	return target
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// pinned is a tree whose version can be released: each image has a digest.
func pinned(t *testing.T) string {
	t.Helper()
	folder := tree(t)
	name := filepath.Join(folder, release.ImagesFile)
	text, err := os.ReadFile(name)
	must(t, err)
	text = regexp.MustCompile(`(?m)^ +digest: .*\n`).ReplaceAll(text, nil)
	version, err := os.ReadFile(filepath.Join(folder, release.VersionFile))
	must(t, err)
	text = regexp.MustCompile(`(?m)^ +image: .*:(.+)$`).ReplaceAll(text, []byte("$0\n    digest: $1@"+digest))
	text = bytes.ReplaceAll(text, []byte("digest: v${VERSION}@"), fmt.Appendf(nil, "digest: v%s@", bytes.TrimSpace(version)))
	must(t, os.WriteFile(name, text, 0o600))
	must(t, olm.Make(folder))
	return folder
}

// contents are all files of a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(folder), name)
		found[name] = string(text)
		return err
	}))
	return found
}

func TestMakingTheBundleAgainChangesNothing(t *testing.T) {
	folder := tree(t)
	before := contents(t, folder)
	must(t, olm.Make(folder))
	if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
		t.Errorf("run make bundle:\n%s", diff)
	}
}

func TestAReleaseAddsAVersionAndNothingElse(t *testing.T) {
	folder := pinned(t)
	before := contents(t, folder)
	must(t, olm.Release(folder, "5.3.7"))
	after := contents(t, folder)
	var added []string
	for name, text := range after {
		was, there := before[name]
		switch {
		case !there:
			added = append(added, name)
		case strings.Contains(name, "/bundles/") && was != text:
			t.Errorf("%s of an older release is changed", name)
		}
	}
	slices.Sort(added)
	want := []string{
		"bundle/catalog/aws-efs-csi-driver-operator/bundles/v5.3.7.yaml", "bundle/catalog/aws-efs-operator/bundles/v5.3.7-bridge.yaml",
	}
	if diff := cmp.Diff(want, added); diff != "" {
		t.Errorf("new files:\n%s", diff)
	}
	if len(after) != len(before)+len(want) {
		t.Errorf("%d files, want %d", len(after), len(before)+len(want))
	}
	for _, name := range []string{olm.Stable, olm.Preview} {
		channel := after["bundle/catalog/aws-efs-csi-driver-operator/"+olm.ChannelFile(name)]
		if !strings.Contains(channel, "- name: aws-efs-csi-driver-operator.v5.3.7\n  replaces: aws-efs-csi-driver-operator.v5.3.0\n") {
			t.Errorf("channel %s does not go on from the version before:\n%s", name, channel)
		}
	}
	if after[release.VersionFile] != "5.3.7\n" {
		t.Errorf("version %q", after[release.VersionFile])
	}
	// What the version before let in is what clusters hold now.
	if after[olm.StoredFile] != before["bundle/aws-efs-csi-driver-operator/manifests/sharedvolumes.aws-efs.managed.openshift.io.crd.yaml"] {
		t.Error("the stored CRD is not that of the version before")
	}
	must(t, olm.Make(folder))
	if diff := cmp.Diff(after, contents(t, folder)); diff != "" {
		t.Errorf("a release is not what make bundle makes:\n%s", diff)
	}
}

// Clusters hold what the released version lets in, also what that was the first to let in.
func TestAReleaseMayNotTakeBackWhatTheOneBeforeLetIn(t *testing.T) {
	folder := pinned(t)
	must(t, olm.Release(folder, "5.3.7"))
	edit(t, folder, "config/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml", "maxLength: 32768", "maxLength: 3")
	const want = "status.conditions[].message has a lower maxLength, 3"
	if err := olm.Make(folder); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error: %v\nwant %q", err, want)
	}
}

func TestAReleaseDoesNotShipTheImagesOfTheOneBefore(t *testing.T) {
	folder := pinned(t)
	must(t, olm.Release(folder, "5.3.7"))
	current, err := release.Load(os.DirFS(folder))
	must(t, err)
	for _, image := range slices.Concat(current.All(), current.Bases) {
		// Upstream's image stays what it is.
		if (image.Digest == "") != image.Own {
			t.Errorf("%s has digest %q, and is ours: %t", image.Name, image.Digest, image.Own)
		}
	}
	before, err := os.ReadFile(filepath.Join(root, release.ImagesFile))
	must(t, err)
	after, err := os.ReadFile(filepath.Join(folder, release.ImagesFile))
	must(t, err)
	if without := regexp.MustCompile(`(?m)^ +digest: .*\n`); without.ReplaceAllString(string(before), "") != without.ReplaceAllString(string(after), "") {
		t.Errorf("more than digests has changed:\n%s", after)
	}
}

// Tags can be moved: what has no digest may be another image tomorrow.
func TestAVersionWithoutDigestsIsNotReleased(t *testing.T) {
	for _, name := range []string{"aws-efs-csi-driver-operator", "aws-efs-csi-driver", "kube-rbac-proxy", "golang"} {
		folder := pinned(t)
		file := filepath.Join(folder, release.ImagesFile)
		text, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, regexp.MustCompile(`(  - name: `+name+`\n    image: .*\n)    digest: .*\n`).ReplaceAll(text, []byte("$1")), 0o600))
		before := contents(t, folder)
		want := "images/images.yaml: " + name + ": digest: version 5.3.0 can't be released without a digest"
		for what, err := range map[string]error{"check": olm.CheckRelease(folder), "next": olm.Release(folder, "5.3.7")} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error: %v\nwant %q", what, err, want)
			}
		}
		if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
			t.Errorf("something was written:\n%s", diff)
		}
	}
	must(t, olm.CheckRelease(pinned(t)))
}

// One line of the list chooses the image of the driver. Everything that OLM, a mirror and a pod read names the same one.
func TestEachImageOfTheDriverIsInWhatIsInstalled(t *testing.T) {
	for choice, want := range map[string]string{
		release.DriverUpstream: "public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver", release.DriverBuilt: "quay.io/csi-operators/aws-efs-csi-driver",
	} {
		folder := pinned(t)
		file := filepath.Join(folder, release.ImagesFile)
		text, err := os.ReadFile(file)
		must(t, err)
		changed, err := release.Choose(string(text), choice)
		must(t, err)
		must(t, os.WriteFile(file, []byte(changed), 0o600))
		must(t, olm.Make(folder))
		made := contents(t, folder)
		for name, times := range map[string]int{
			"bundle/aws-efs-csi-driver-operator/manifests/aws-efs-csi-driver-operator.clusterserviceversion.yaml": 2,
			"bundle/catalog/aws-efs-csi-driver-operator/bundles/v5.3.0.yaml":                                      1,
			"bundle/disconnected/mirror.txt": 1,
		} {
			specs := regexp.MustCompile(`[a-z.]+/[a-z/-]+/aws-efs-csi-driver@`+digest).FindAllString(made[name], -1)
			if len(specs) != times || slices.ContainsFunc(specs, func(spec string) bool { return spec != want+"@"+digest }) {
				t.Errorf("%s: %s names %q, want %d times %s", choice, name, specs, times, want)
			}
		}
	}
}

// edit replaces a text in a file.
func edit(t *testing.T, folder, name, from, to string) {
	t.Helper()
	file := filepath.Join(folder, filepath.FromSlash(name))
	text, err := os.ReadFile(file)
	must(t, err)
	if !strings.Contains(string(text), from) {
		t.Fatalf("%s has no %q", name, from)
	}
	must(t, os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
}

func TestAReleaseThatCanNotBeMadeChangesNothing(t *testing.T) {
	for version, want := range map[string]string{
		"5.3.0":    "version 5.3.0 is not newer than version 5.3.0 in file VERSION",
		"5.0.9":    "not newer",
		"5.3":      `"5.3" is not a version`,
		"5.4.0-rc": "a release has no other suffix",
		// Who upgrades to OpenShift 5.3 needs an operator for it.
		"5.4.0": "olm.maxOpenShiftVersion 5.4 is not above the release, 5.4.0",
	} {
		folder := pinned(t)
		before := contents(t, folder)
		if err := olm.Release(folder, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("release %s: %v, want %q", version, err, want)
		}
		if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
			t.Errorf("release %s:\n%s", version, diff)
		}
	}
}

// A source that is wrong is refused when the bundle is made, and nothing is written.
func TestWhatIsWrongInTheSourcesIsNamed(t *testing.T) {
	const template, rights = "config/manifests/clusterserviceversion.yaml", "config/rbac/role.yaml"
	for name, example := range map[string]struct{ file, from, to, want string }{
		"unknown placeholder": {template, "version: ${VERSION}", "version: ${RELEASE}", template + ": unknown placeholder ${RELEASE}"},
		"misspelt field":      {template, "maturity:", "maturty:", template + `: unknown field "spec.maturty"`},
		"unknown image":       {"config/manager/manager.yaml", "${IMAGE:aws", "${IMAGE:gcp", "images/images.yaml has no image named gcp-efs-csi-driver-operator"},
		"missing image":       {"images/images.yaml", "  - name: livenessprobe\n    image: registry.k8s.io/sig-storage/livenessprobe:v2.17.0\n", "  - name: livenessprobe\n", "images[4] (livenessprobe): image:"},
		"no version":          {"VERSION", "5.3.0", "5.3", `VERSION: "5.3" is not a version`},
		"role elsewhere": {
			rights, "namespace: openshift-cluster-csi-drivers", "namespace: openshift-config", rights + `: Role aws-efs-csi-driver-operator is for namespace "openshift-config"`,
		},
		"example that does not fit": {
			"config/samples/sharedvolume.yaml", "fs-1234cdef", "vol-1234", "alm-examples[0]: SharedVolume sv1: spec.fileSystemID in body should match",
		},
		"example of a stranger": {"config/samples/clustercsidriver.yaml", "kind: ClusterCSIDriver", "kind: Storage", "neither defines this kind nor names it in spec.nativeAPIs"},
		"narrower schema":       {"config/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml", "^fs-[0-9a-f]+$", "^fs-[0-9a-f]{8,40}$", "spec.fileSystemID has the pattern ^fs-[0-9a-f]{8,40}$"},
		"custom resource among the manifests": {
			"config/prometheus/service.yaml", "apiVersion: v1\nkind: Service\n", "apiVersion: operator.openshift.io/v1\nkind: ClusterCSIDriver\n",
			"manifests/aws-efs-csi-driver-operator-metrics_clustercsidriver.yaml: kind: OLM does not install operator.openshift.io/v1 ClusterCSIDriver",
		},
		"highest OpenShift of three numbers": {template, `"value": "5.4"`, `"value": "5.4.0"`, "olm.maxOpenShiftVersion 5.4.0 is not of the form X.Y"},
		"range that reaches itself":          {template, "<${VERSION}", "<=${VERSION}", `olm.skipRange: ">=0.0.1 <=5.3.0" includes version 5.3.0 or a later one`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := tree(t)
			edit(t, folder, example.file, example.from, example.to)
			before := contents(t, folder)
			if err := olm.Make(folder); err == nil || !strings.Contains(err.Error(), example.want) {
				t.Errorf("error: %v\nwant %q", err, example.want)
			}
			if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}

func TestEveryImageIsInTheListsForMirrors(t *testing.T) {
	current, err := release.Load(os.DirFS(root))
	must(t, err)
	lists, err := olm.Mirror(current, olm.Packages())
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(lists["mirror.txt"])), "\n")
	if len(lines) != len(current.Images)+len(current.Packaging) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	files, _ := shipped(t, olm.Packages()[0])
	for _, image := range current.Images {
		repository := image.Image[:strings.LastIndex(image.Image, ":")]
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, image.PullSpec()+"=mirror.example.com:5000/") }) {
			t.Errorf("mirror.txt lacks %s", image.PullSpec())
		}
		for _, name := range []string{"image-tag-mirror-set.yaml", "image-digest-mirror-set.yaml"} {
			if !strings.Contains(string(lists[name]), "source: "+repository+"\n") {
				t.Errorf("%s lacks %s", name, repository)
			}
		}
		if !strings.Contains(string(files["manifests/aws-efs-csi-driver-operator.clusterserviceversion.yaml"]), image.PullSpec()) {
			t.Errorf("the bundle lacks %s", image.PullSpec())
		}
	}
	catalog, err := current.Find("csi-operators-catalog")
	must(t, err)
	if text := string(lists["imageset-config.yaml"]); !strings.Contains(text, "- catalog: "+catalog.PullSpec()+"\n    full: true\n") {
		t.Errorf("imageset-config.yaml does not mirror the catalog as it is:\n%s", text)
	}
}
