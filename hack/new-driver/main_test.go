package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// beyond leaves out tests of what is not in a copy of the tree, and those with a vCenter, which are the same for every driver.
const beyond = "-skip=VCenter|StoragePolicy|Undo|TripAndChecks|SameIntention|PackagesImport|RulesCatch|Role|TestTheLimitsKnow|TestOnlyPrometheusReaches|TestTheSecurityGuide|TestWhatIsTestedWithout|TestPackagesAreSmall|TestOneProgramTalks"

// tree is a copy of what a driver is added to, and of what the tests of that need.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{
		"api", "internal", "cmd/csi-driver-operator", "hack/bundle", "hack/payload", "images", "manifests", "test/env", "test/rbac",
		"test/rules",
	} {
		if err := os.CopyFS(filepath.Join(root, folder), os.DirFS(filepath.Join("../..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum", "tools.mod"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// files are all files of a tree.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		found[strings.TrimPrefix(name, root+"/")] = string(text)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%d files, error %v", len(found), err)
	}
	return found
}

func command(t *testing.T, root string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil || strings.Contains(string(output), "no tests to run") {
		t.Errorf("%s: %v\n%s", command, err, output)
	}
}

func TestANewDriverBuildsAndPassesAtOnce(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	// Vet runs once, and nobody debugs these programs. Go finds what it has compiled before, wherever the copy of the tree lies.
	t.Setenv("GOFLAGS", "-trimpath -vet=off -ldflags=-w")
	root, out := tree(t), &bytes.Buffer{}
	before := files(t, root)
	args := []string{"sample", "--repository", root, "--csi-name=disk.example.com", "--unlisted-name", "--platform", "AWS", "--condition-prefix=SampleDisk"}
	if err := run(t.Context(), out, args); err != nil {
		t.Fatal(err)
	}
	if want := "internal/driver/sample has the driver disk.example.com, with ports 10308 and 10310"; !strings.Contains(out.String(), want) {
		t.Errorf("it says %q, not %q", out, want)
	}
	command(t, root, "vet", "./internal/driver/sample", "./cmd/csi-driver-operator")
	command(t, root, "test", "-count=1", beyond, "./internal/driver/sample", "./internal/catalogue", "./internal/payload",
		"./hack/payload", "./cmd/csi-driver-operator", "./test/rules")
	after := files(t, root)
	var changed []string
	for name, text := range before {
		if after[name] != text {
			changed = append(changed, name)
		}
	}
	edited := slices.DeleteFunc(slices.Clone(changed), func(name string) bool { return strings.HasPrefix(name, "manifests/") })
	if len(changed) != 6 || !slices.Equal(edited, []string{driversFile}) {
		t.Errorf("changed are %v, want the list of drivers, and five manifests that are made of it", changed)
	}
	for name, want := range map[string]string{
		"internal/catalogue/testdata/sample-csi-driver-operator/base.yaml":                   "--driver=disk.example.com",
		"manifests/0000_50_cluster-storage-operator_08_rbac-sample-csi-driver-operator.yaml": "name: sample-csi-driver-operator-clusterrole",
		"manifests/0000_50_cluster-storage-operator_10_deployment.yaml":                      "name: SAMPLE_DRIVER_OPERATOR_IMAGE",
		"manifests/image-references": "origin-sample-csi-driver:latest",
	} {
		if !strings.Contains(after[name], want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	base := after["internal/driver/sample/testdata/base.yaml"]
	for _, want := range []string{
		"name: disk.example.com", "name: sample-csi-driver-controller-sa", "name: sample-csi-provisioner-role", "hostPort: 10308", "name: sample-csi\n",
	} {
		if !strings.Contains(base, want) {
			t.Errorf("base.yaml lacks %q", want)
		}
	}

	adopter := names{Package: "another", Platform: "AWS", Title: "Another", Variable: "ANOTHER", NodePort: 10400, RegistrarPort: 10401}
	adopted, err := prepare(root, adopter.complete())
	if err != nil || adopted.names.NodePort != 10400 || adopted.names.RegistrarPort != 10401 ||
		!strings.Contains(string(adopted.made["internal/driver/another/another.go"]), `driver.Payload{Title: "Another", Variable: "ANOTHER"}`) {
		t.Errorf("the names and ports that are asked for are not taken: %+v, error %v", adopted.names, err)
	}

	// The next one finds the first, and is refused what the first has.
	next, err := prepare(root, names{Package: "another", Platform: "AWS"}.complete())
	if err != nil || next.names.NodePort != 10311 || next.names.RegistrarPort != 10312 {
		t.Errorf("the next driver has the ports %d and %d, error %v", next.names.NodePort, next.names.RegistrarPort, err)
	}
	for args, want := range map[string]string{
		"sample":                              "internal/driver/sample exists: nothing is overwritten",
		"another --csi-name disk.example.com": "--csi-name disk.example.com: the driver in internal/driver/sample has it",
	} {
		if err := run(t.Context(), out, append(strings.Fields(args), "--repository", root)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
	if diff := cmp.Diff(after, files(t, root)); diff != "" {
		t.Errorf("what is refused has changed files:\n%s", diff)
	}
}

// What administrators install by OLM is removable, has its roles and a bundle that OLM takes, and is in no catalogue.
func TestADriverForOLMHasAPackageAtOnce(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "-trimpath -vet=off -ldflags=-w")
	root, out := tree(t), &bytes.Buffer{}
	before := files(t, root)
	args := []string{"smb", "--repository", root, "--csi-name=smb.csi.k8s.io", "--delivery=olm"}
	if err := run(t.Context(), out, args); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "internal/catalogue") {
		t.Errorf("it names the catalogue, which does not know the driver: %s", out)
	}
	if want := "packages/smb has its package for OLM. After each change:\n  make package NAME=smb\n"; !strings.Contains(out.String(), want) {
		t.Errorf("it says %q, not %q", out, want)
	}
	command(t, root, "test", "-count=1", beyond, "./internal/driver/smb", "./cmd/csi-driver-operator", "./test/rules")
	after := files(t, root)
	for name, text := range before {
		if after[name] != text && name != driversFile {
			t.Errorf("%s is changed", name)
		}
	}
	if !strings.Contains(after["internal/driver/smb/smb.go"], "\tRemovable: ") {
		t.Error("nobody can remove the driver")
	}
	const version = "packages/smb/bundle/smb-csi-driver-operator/manifests/smb-csi-driver-operator.clusterserviceversion.yaml"
	for _, want := range []string{
		"name: smb-csi-driver-operator.v0.1.0\n", "- --driver=smb.csi.k8s.io\n", "name: SNAPSHOTTER_IMAGE\n", "- smb-csi-driver-controller-metrics\n",
		"customresourcedefinitions: {}\n", "image: registry.k8s.io/sig-storage/csi-attacher:v",
	} {
		if !strings.Contains(after[version], want) {
			t.Errorf("the ClusterServiceVersion lacks %q", want)
		}
	}
	// A container engine gives the image what the folder says, and nothing else counts for OLM.
	const annotation = "operators.operatorframework.io.bundle."
	containerfile := after["packages/smb/images/bundle/Containerfile"]
	for line := range strings.Lines(after["packages/smb/bundle/smb-csi-driver-operator/metadata/annotations.yaml"]) {
		key, value, isLabel := strings.Cut(strings.TrimSpace(line), ": ")
		if isLabel && strings.HasPrefix(key, annotation) && !strings.Contains(containerfile, key+`="`+value+`"`) {
			t.Errorf("the bundle's Containerfile lacks %s=%s", key, value)
		}
	}
	if labels := strings.Count(containerfile, annotation); labels != 6 {
		t.Errorf("%d labels", labels)
	}

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
	const images = "packages/smb/images/images.yaml"
	pinned := regexp.MustCompile(`(?m)^    image: .*:(v.*)$`).ReplaceAllString(after[images], "$0\n    digest: $1@sha256:"+strings.Repeat("0", 64))
	pinned = strings.ReplaceAll(pinned, "digest: v${VERSION}", "digest: v0.1.0")
	if err := os.WriteFile(filepath.Join(root, images), []byte(pinned), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := bundle(t, root, program, "release", "0.2.0"); err != nil {
		t.Errorf("the next release: %v\n%s", err, output)
	}
	if channel := files(t, root)["packages/smb/bundle/catalog/smb-csi-driver-operator/channel.yaml"]; !strings.Contains(channel,
		"- name: smb-csi-driver-operator.v0.2.0\n  replaces: smb-csi-driver-operator.v0.1.0\n") {
		t.Errorf("the channel does not go on:\n%s", channel)
	}
	refusesWhatIsNotTheDriver(t, root, program, after)
}

// bundle runs hack/bundle, as it was built from the tree, for the package of the driver smb.
func bundle(t *testing.T, root, program string, args ...string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, append([]string{"-root", "packages/smb"}, args...)...)
	command.Dir = root
	text, err := command.CombinedOutput()
	return string(text), err
}

// refusesWhatIsNotTheDriver edits the tree of the driver smb by hand. However the bundle is made, what the operator does not need, or lacks, is
// refused.
func refusesWhatIsNotTheDriver(t *testing.T, root, program string, made map[string]string) {
	t.Helper()
	const role, images = "packages/smb/config/rbac/role.yaml", "packages/smb/images/images.yaml"
	secrets := "rules:\n- apiGroups:\n  - \"\"\n  resources:\n  - secrets\n  verbs:\n  - '*'\n"
	const provisioner = "  - name: csi-provisioner\n    image: registry.k8s.io/sig-storage/csi-provisioner:v6.4.0\n    variable: PROVISIONER_IMAGE\n"
	const more = "  - name: more\n    image: registry.example.com/more:v1\n    variable: MORE_IMAGE\npackaging:\n"
	for _, tc := range []struct{ name, file, from, to, want string }{
		{"no ClusterRole", role, "kind: ClusterRole", "kind: Role", "config/rbac/role.yaml is not what the operator of smb.csi.k8s.io needs"},
		{"all Secrets", role, "rules:\n", secrets, "config/rbac/role.yaml is not what the operator of smb.csi.k8s.io needs"},
		{"an image is missing", images, provisioner, "", "no image has the variable PROVISIONER_IMAGE"},
		{"an image too many", images, "packaging:\n", more, "variable MORE_IMAGE: no container of smb.csi.k8s.io uses its image"},
		{"a name that is not allowed", "packages/smb/config/package.yaml", "smb.csi.k8s.io", "nfs.csi.k8s.io", "no ClusterCSIDriver may have this name"},
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
		if tc.name == "all Secrets" {
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

// What is there already may be committed: a failure must not take it away, nor what it has in it.
func TestWhatCannotBeFinishedKeepsWhatIsThere(t *testing.T) {
	root := tree(t)
	golden := filepath.Join(root, "internal/catalogue/testdata/sample-csi-driver-operator/base.yaml")
	if err := os.MkdirAll(filepath.Dir(golden), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(golden, []byte("reviewed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := files(t, root)
	// This Go changes what is there, makes more, and fails.
	programs := t.TempDir()
	script := "#!/bin/sh\necho changed > " + golden + "\necho new > " + golden + ".new\necho the reason >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(programs, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	err := run(t.Context(), &bytes.Buffer{}, []string{"--repository", root, "--unlisted-name", "sample"})
	for _, want := range []string{"the reason", "All files are as they were before"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if diff := cmp.Diff(before, files(t, root)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// Here there is no Go to write the golden files with.
func TestWhatCannotBeFinishedLeavesNothing(t *testing.T) {
	root := tree(t)
	before := files(t, root)
	t.Setenv("PATH", t.TempDir())
	if err := run(t.Context(), &bytes.Buffer{}, []string{"--repository", root, "--delivery", "olm", "--unlisted-name", "sample"}); err == nil || !strings.Contains(err.Error(), "All files are as they were before") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, files(t, root)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	for _, folder := range []string{"internal/driver/sample", "packages/sample"} {
		if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
			t.Errorf("%s is left", folder)
		}
	}
}

func TestWrongNamesAreRefusedWithWhatIsRight(t *testing.T) {
	const label, word = "it must be lower-case letters and digits", "it is a word of Go's own"
	for args, want := range map[string]string{
		"":                       "the name is missing: go run ./hack/new-driver NAME",
		"a b":                    `unexpected argument "b"`,
		"Sample":                 label,
		"1sample":                label,
		"a-b":                    label,
		"a_test":                 label,
		"../sample":              label,
		"/sample":                label,
		"..":                     label,
		"a/b":                    label,
		`a\b`:                    label,
		"ä":                      label,
		strings.Repeat("a", 34):  "it has 34 characters: take 33 at most",
		"func":                   word,
		"string":                 word,
		"internal":               "a folder of this name means something to Go",
		"driver":                 "internal/drivers/drivers.go uses the word already",
		"gcppd":                  "internal/driver/gcppd exists: nothing is overwritten",
		"assets":                 "internal/driver/assets exists: nothing is overwritten",
		"hostports.go":           label,
		"a --csi-name a":         "it needs a domain of yours, such as a.csi.example.com",
		"a --csi-name A.b":       `--csi-name "A.b": a lowercase RFC 1123 subdomain`,
		"a --csi-name ../a.b":    `--csi-name "../a.b": a lowercase RFC 1123 subdomain`,
		"a --csi-name a.b\"":     "a lowercase RFC 1123 subdomain",
		"a --prefix a.b":         `--prefix "a.b": a DNS-1035 label`,
		"a --short-prefix -":     `--short-prefix "-": a DNS-1035 label`,
		"a --condition-prefix a": "begin with a capital, such as GCPPD",
		"a --platform aws":       "it must be one of AWS, Azure, BareMetal, External",
		"a --platform":           "flag needs an argument",
		"a --delivery helm":      `--delivery "helm": it must be payload or olm`,
		"a --csi-name a." + strings.Repeat("a", 62):       "it has 64 characters, and CSI allows 63",
		"a --prefix " + strings.Repeat("a", 45):           "it has 45 characters: 44 leave room",
		"a --csi-name pd.csi.storage.gke.io":              "--csi-name pd.csi.storage.gke.io: the driver in internal/driver/gcppd has it",
		"a --prefix aws-ebs-csi-driver":                   "--prefix aws-ebs-csi-driver: the driver in internal/driver/awsebs has it",
		"a --short-prefix efs":                            "--short-prefix efs: the driver in internal/driver/awsefs has it",
		"a --condition-prefix GCPPD":                      "--condition-prefix GCPPD: the driver in internal/driver/gcppd has it",
		"a --csi-name vpc.block.csi.ibm.io":               "--csi-name vpc.block.csi.ibm.io: the catalogue in internal/catalogue has it, for an operator of OpenShift's",
		"a --delivery olm --csi-name powervs.csi.ibm.com": "--csi-name powervs.csi.ibm.com: the catalogue in internal/catalogue has it",
		"a --prefix ibm-vpc-block-csi-driver":             "--prefix ibm-vpc-block-csi-driver: the catalogue in internal/catalogue has it",
		"a --condition-prefix IBMVPCBlock":                "--condition-prefix IBMVPCBlock: the catalogue in internal/catalogue has it",
		"a --csi-name nfs.csi.k8s.io":                     "--csi-name nfs.csi.k8s.io: no ClusterCSIDriver may have this name",
		"a --delivery olm":                                "--csi-name a.csi.example.com: no ClusterCSIDriver may have this name",
		"a --title ä":                                     `--title "ä": it must be 63 letters`,
		"a --image-variable a":                            `--image-variable "a": it must be 63 capitals`,
		"a --node-port 80":                                `--node-port "80": it must be between 1024 and 65535`,
		"a --repository there-is-none":                    "run this in the folder of the repository",
	} {
		t.Run(args, func(t *testing.T) {
			err := run(t.Context(), &bytes.Buffer{}, append([]string{"--repository", "../.."}, strings.Fields(args)...))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

// A name that a driver may have is one that the templates, and Kubernetes, can take to the end.
func TestTheLongestNamesAreAllowed(t *testing.T) {
	longest := names{Package: strings.Repeat("a", longestName), Platform: "None"}.complete()
	if err := longest.check(); err != nil {
		t.Error(err)
	}
	if service := longest.Deployment() + "-metrics"; len(service) != 63 {
		t.Errorf("the Service has a name of %d characters", len(service))
	}
	if _, err := prepare("../..", longest); err != nil {
		t.Error(err)
	}
}

func TestAListThatIsNotUnderstoodIsNotEdited(t *testing.T) {
	for text, want := range map[string]string{
		"package a\nfunc f() []int { return []int{1} }":      "the list in line 2 must have one driver in a line",
		"package a\nfunc f() []int { return []int{} }":       "there is no function f with a list",
		"package a\nfunc f() []int { return []int{\n1,\n} }": "it imports no driver",
		"package": "parse: a.go",
	} {
		parsed, err := read("a.go", []byte(text), "f")
		if err == nil {
			_, err = parsed.add("2,", "sample")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
