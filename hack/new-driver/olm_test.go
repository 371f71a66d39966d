package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// What administrators install by OLM is removable, has its roles and a bundle that OLM takes, and is in no catalogue.
func addsADriverForOLM(t *testing.T, root, csiName string) {
	t.Helper()
	out, before := &bytes.Buffer{}, files(t, root)
	args := []string{"testshare", "--repository", root, "--csi-name", csiName, "--delivery=olm", "--kind=file", "--privileged-controller"}
	if err := run(t.Context(), out, args); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "internal/driver/catalogue") {
		t.Errorf("it names the catalogue, which does not know the driver: %s", out)
	}
	if want := "packages/testshare has its package for OLM. After each change:\n  make package NAME=testshare\n"; !strings.Contains(out.String(), want) {
		t.Errorf("it says %q, not %q", out, want)
	}
	after := files(t, root)
	for name, text := range before {
		if after[name] != text && name != driversFile {
			t.Errorf("%s is changed", name)
		}
	}
	if !strings.Contains(after["internal/driver/testshare/testshare.go"], "\tRemovable: ") {
		t.Error("nobody can remove the driver")
	}
	const version = "packages/testshare/bundle/testshare-csi-driver-operator/manifests/testshare-csi-driver-operator.clusterserviceversion.yaml"
	for _, want := range []string{
		"name: testshare-csi-driver-operator.v0.1.0\n", "- --driver=" + csiName + "\n", "name: RESIZER_IMAGE\n", "- testshare-csi-driver-controller-metrics\n",
		"customresourcedefinitions: {}\n", "image: registry.k8s.io/sig-storage/csi-resizer:v",
	} {
		if !strings.Contains(after[version], want) {
			t.Errorf("the ClusterServiceVersion lacks %q", want)
		}
	}
	// A container engine gives the image what the folder says, and nothing else counts for OLM.
	const annotation = "operators.operatorframework.io.bundle."
	containerfile := after["packages/testshare/images/bundle/Containerfile"]
	for line := range strings.Lines(after["packages/testshare/bundle/testshare-csi-driver-operator/metadata/annotations.yaml"]) {
		key, value, isLabel := strings.Cut(strings.TrimSpace(line), ": ")
		if isLabel && strings.HasPrefix(key, annotation) && !strings.Contains(containerfile, key+`="`+value+`"`) {
			t.Errorf("the bundle's Containerfile lacks %s=%s", key, value)
		}
	}
	if labels := strings.Count(containerfile, annotation); labels != 6 {
		t.Errorf("%d labels", labels)
	}
}

// makesABundle makes that of the driver testshare again, and the next release.
func makesABundle(t *testing.T, root, csiName string) {
	t.Helper()
	after := files(t, root)
	// Made once more, nothing changes; the next release follows this one.
	program := filepath.Join(t.TempDir(), "bundle")
	command(t, root, "build", "-o", program, "./hack/bundle")
	if output, err := bundle(t, root, program); err != nil {
		t.Errorf("the bundle made again: %v\n%s", err, output)
	}
	if diff := cmp.Diff(after, files(t, root)); diff != "" {
		t.Errorf("the bundle made again:\n%s", diff)
	}
	// A release names its images by their digests.
	const images = "packages/testshare/images/images.yaml"
	pinned := regexp.MustCompile(`(?m)^    image: .*:(v.*)$`).ReplaceAllString(after[images], "$0\n    digest: $1@sha256:"+strings.Repeat("0", 64))
	pinned = strings.ReplaceAll(pinned, "digest: v${VERSION}", "digest: v0.1.0")
	if err := os.WriteFile(filepath.Join(root, images), []byte(pinned), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := bundle(t, root, program, "release", "0.2.0"); err != nil {
		t.Errorf("the next release: %v\n%s", err, output)
	}
	if channel := files(t, root)["packages/testshare/bundle/catalog/testshare-csi-driver-operator/channels/stable.yaml"]; !strings.Contains(channel,
		"- name: testshare-csi-driver-operator.v0.2.0\n  replaces: testshare-csi-driver-operator.v0.1.0\n") {
		t.Errorf("the channel does not go on:\n%s", channel)
	}
	refusesWhatIsNotTheDriver(t, root, program, csiName, after)
	makesPackagesByName(t, root)
}

// bundle runs hack/bundle, as it was built from the tree, for the package of the driver testshare.
func bundle(t *testing.T, root, program string, args ...string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, append([]string{"-root", "packages/testshare"}, args...)...)
	command.Dir = root
	text, err := command.CombinedOutput()
	return string(text), err
}

// refusesWhatIsNotTheDriver edits the tree of the driver testshare by hand. However the bundle is made, what the operator does not need, or lacks, is
// refused.
func refusesWhatIsNotTheDriver(t *testing.T, root, program, csiName string, made map[string]string) {
	t.Helper()
	const role, images = "packages/testshare/config/rbac/role.yaml", "packages/testshare/images/images.yaml"
	secrets := "rules:\n- apiGroups:\n  - \"\"\n  resources:\n  - secrets\n  verbs:\n  - '*'\n"
	const provisioner = "  - name: csi-provisioner\n    image: registry.k8s.io/sig-storage/csi-provisioner:v6.4.0\n    variable: PROVISIONER_IMAGE\n"
	const more = "  - name: more\n    image: registry.example.com/more:v1\n    variable: MORE_IMAGE\npackaging:\n"
	for _, tc := range []struct{ name, file, from, to, want string }{
		{"no ClusterRole", role, "kind: ClusterRole", "kind: Role", "config/rbac/role.yaml is not what the operator of " + csiName + " needs"},
		{"all Secrets", role, "rules:\n", secrets, "config/rbac/role.yaml is not what the operator of " + csiName + " needs"},
		{"an image is missing", images, provisioner, "", "no image has the variable PROVISIONER_IMAGE"},
		{"an image too many", images, "packaging:\n", more, "no container of " + csiName + " uses the image of variable MORE_IMAGE"},
		{"a name that is not allowed", "packages/testshare/config/package.yaml", csiName, "nfs.csi.k8s.io", "no ClusterCSIDriver may have this name"},
		{
			"a name that is not allowed yet", "packages/testshare/config/package.yaml", "driver: " + csiName, "unlisted: true\ndriver: nfs.csi.k8s.io",
			"No cluster can install this package yet",
		},
	} {
		text := made[tc.file]
		if !strings.Contains(text, tc.from) {
			t.Errorf("%s: %s has no %q", tc.name, tc.file, tc.from)
		}
		file := filepath.Join(root, tc.file)
		if err := os.WriteFile(file, []byte(strings.Replace(text, tc.from, tc.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		ways := [][]string{nil}
		if tc.name == "all Secrets" || tc.name == "a name that is not allowed" {
			ways = append(ways, []string{"release", "0.3.0"})
		}
		for _, args := range ways {
			if output, err := bundle(t, root, program, args...); err == nil || !strings.Contains(output, tc.want) {
				t.Errorf("%s: error %v, want %s:\n%s", tc.name, err, tc.want, output)
			}
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// makesPackagesByName lets make find the packages of a tree.
func makesPackagesByName(t *testing.T, root string) {
	t.Helper()
	for _, name := range []string{"Makefile", "hack/check-tools.sh"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory"}, args...)...)
		command.Dir, command.Env = root, slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "MAKE") })
		output, err := command.CombinedOutput()
		return string(output), err
	}
	if output, err := run("package", "NAME=typo"); err == nil || !strings.Contains(output, "packages/typo/config/package.yaml is missing: NAME is one of testshare") {
		t.Errorf("a package that is not there: error %v\n%s", err, output)
	}
	if _, err := os.Stat(filepath.Join(root, "packages/typo")); err == nil {
		t.Error("packages/typo is left")
	}
	if output, err := run("-n", "verify"); err != nil || !strings.Contains(output, "package NAME=testshare") || strings.Count(output, " packages") < 2 {
		t.Errorf("make verify does not make the packages again: error %v\n%s", err, output)
	}
}

// The sidecars, and what a driver mounts and may, follow from the flags.
func TestADriverHasWhatItsKindNeeds(t *testing.T) {
	for args, want := range map[string]struct{ has, lacks string }{
		"a": {
			has:   "is-default-class attachRequired:true path:/dev name:\"attacher\" name:\"snapshotter\" \"volumesnapshot-reader\" PUBLISH_UNPUBLISH_VOLUME NonePlatformType",
			lacks: "PrivilegedController kind:file",
		},
		"a --kind file": {
			has:   "attachRequired:false name:\"provisioner\" name:\"resizer\" EXPAND_VOLUME restricted-v2",
			lacks: "StorageClass VolumeSnapshotClass path:/dev mountPath:/dev /etc/selinux \"attacher\" \"snapshotter\" volumesnapshot-reader topologyKey:topology. default-fstype",
		},
		"a --kind file --delivery olm --sidecars provisioner,snapshotter --privileged-controller": {
			has:   "PrivilegedController:true VolumeSnapshotClass \"volumesnapshot-reader\" SNAPSHOTTER_IMAGE unlisted:true",
			lacks: "PlatformType ATTACHER_IMAGE RESIZER_IMAGE EXPAND_VOLUME restricted-v2\n",
		},
		"a --delivery olm --platform AWS": {has: "AWSPlatformType kind:StorageClass ATTACHER_IMAGE", lacks: "is-default-class:\"true\"storageclass"},
	} {
		wanted, _, _, err := parse(append(strings.Fields(args), "--unlisted-name"))
		if err != nil {
			t.Fatal(err)
		}
		made, err := prepare("../..", wanted)
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		for name, text := range made.made {
			if !strings.Contains(name, "/config/m") {
				all.Write(text)
			}
		}
		text := regexp.MustCompile(`[ \t]`).ReplaceAllString(strings.ReplaceAll(all.String(), "Name:", "name:"), "")
		for word := range strings.FieldsSeq(want.has) {
			if !strings.Contains(text, word) {
				t.Errorf("%s: it lacks %s", args, word)
			}
		}
		for word := range strings.FieldsSeq(want.lacks) {
			if strings.Contains(text, word) {
				t.Errorf("%s: it has %s", args, word)
			}
		}
	}
}

// The list is read from the reviewed files, and must be what the drivers take.
func TestTheListOfPortsHasThoseOfAllDrivers(t *testing.T) {
	out := &bytes.Buffer{}
	if err := run(t.Context(), out, []string{"-ports", "--repository", "../.."}); err != nil {
		t.Fatal(err)
	}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, d := range all.Drivers() {
		look := driver.MutatePods(func(_ driver.Config, pods driver.Pods) error {
			for port := range pods.HostPorts() {
				looked++
				if !regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d  .*%s`, port, regexp.QuoteMeta("("))).MatchString(out.String()) {
					t.Errorf("port %d of %s is not in the list", port, d.Name)
				}
			}
			return nil
		})
		settings, err := d.ReadSettings(func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		objects, err := d.Everything(scheme, kube.DefaultNamespace, settings)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if err := look(d, driver.Config{}, object); err != nil {
				t.Fatal(err)
			}
		}
	}
	if looked < 30 {
		t.Errorf("%d ports", looked)
	}
	for _, want := range []string{"10306  Red Hat's SMB operator\n", "10357  cluster-policy-controller\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the list lacks %q", want)
		}
	}
}
