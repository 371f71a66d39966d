package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/testing/drivernames"
	"github.com/csi-operators/csi-operators/internal/testing/gobuild"
)

// beyond leaves out tests of what is not in a copy of the tree, and those with a vCenter, which are the same for every driver.
const beyond = "-skip=VCenter|StoragePolicy|Undo|TripAndChecks|SameIntention|PackagesImport|RuleCatches|Role|TestTheLimitsKnow|TestEveryRight|TestOnlyPrometheusReaches|TestTheSecurityGuide|TestWhatIsTestedWithout|TestOneProgramHas|Readme|TheSite|PagesForContributors|TheArchitecture|PackageComments|ManifestsForTheTestsOfStorage|WhatADriverGets|TestEveryRow|PreviousVersion|TurningOff|PageOfADriver|BlockOfAPage|GuideAndThePolicies|WhichProgramOfHowMany|WhatMakeTakes"

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

// ports are those of the nodes that "-ports" lists for a tree.
func ports(t *testing.T, root string) map[int]string {
	t.Helper()
	taken, err := portsTaken(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	return taken
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

// One tree gets a driver for OLM and one of the release, so that what both need is compiled once.
func TestNewDriversBuildAndPassAtOnce(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	// Vet runs once, and nobody debugs these programs. Go finds what it has compiled before, wherever the copy of the tree lies.
	t.Setenv("GOFLAGS", gobuild.Flags())
	root, csiName := tree(t), drivernames.Free(t, "../..")
	t.Run("for OLM", func(t *testing.T) { addsADriverForOLM(t, root, csiName) })
	t.Run("of the release", func(t *testing.T) { addsADriverOfTheRelease(t, root) })
	command(t, root, "vet", "./internal/driver/testdisk", "./cmd/csi-driver-operator")
	command(t, root, "test", "-count=1", beyond, "./internal/driver/testshare", "./internal/driver/testdisk", "./internal/driver/all", "./internal/driver/catalogue",
		"./internal/release/payload", "./hack/payload", "./cmd/csi-driver-operator", "./test/rules")
	t.Run("a bundle", func(t *testing.T) { makesABundle(t, root, csiName) })
}

func addsADriverOfTheRelease(t *testing.T, root string) {
	t.Helper()
	out := &bytes.Buffer{}
	before, taken := files(t, root), ports(t, root)
	args := []string{"testdisk", "--repository", root, "--csi-name=testdisk.example.com", "--unlisted-name", "--platform", "AWS", "--condition-prefix=TestDisk"}
	if err := run(t.Context(), out, args); err != nil {
		t.Fatal(err)
	}
	if want := "internal/driver/testdisk has the driver testdisk.example.com, with ports 10"; !strings.Contains(out.String(), want) {
		t.Errorf("it says %q, not %q", out, want)
	}
	after := files(t, root)
	var changed []string
	for name, text := range before {
		if after[name] != text {
			changed = append(changed, name)
		}
	}
	edited := slices.DeleteFunc(slices.Clone(changed), func(name string) bool { return strings.HasPrefix(name, "manifests/") })
	if len(changed) != 8 || !slices.Equal(edited, []string{driversFile}) {
		t.Errorf("changed are %v, want the list of drivers, and seven manifests that are made of it", changed)
	}
	for name, want := range map[string]string{
		"internal/driver/catalogue/testdata/testdisk-csi-driver-operator/base.yaml":            "--driver=testdisk.example.com",
		"manifests/0000_50_cluster-storage-operator_08_rbac-testdisk-csi-driver-operator.yaml": "name: testdisk-csi-driver-operator-clusterrole",
		"manifests/0000_50_cluster-storage-operator_10_deployment.yaml":                        "name: TESTDISK_DRIVER_OPERATOR_IMAGE",
		"manifests/image-references": "origin-testdisk-csi-driver:latest",
	} {
		if !strings.Contains(after[name], want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	base := after["internal/driver/testdisk/testdata/base.yaml"]
	for _, want := range []string{
		"name: testdisk.example.com", "name: testdisk-csi-driver-controller-sa", "name: testdisk-csi-provisioner-role", "name: testdisk-csi\n",
		"name: csi-attacher", "path: /dev\n", "is-default-class: \"true\"", "kind: VolumeSnapshotClass",
	} {
		if !strings.Contains(base, want) {
			t.Errorf("base.yaml lacks %q", want)
		}
	}
	for name, text := range after {
		if text == "" {
			t.Errorf("%s is empty", name)
		}
	}
	own := ports(t, root)
	for port, user := range taken {
		if own[port] != user {
			t.Errorf("port %d was that of %s, and is that of %s", port, user, own[port])
		}
	}
	if len(own) != len(taken)+2 {
		t.Errorf("the driver has %d ports of the nodes, want those of the registrar and the liveness probe", len(own)-len(taken))
	}

	adopter := names{Package: "another", Platform: "AWS", Title: "Another", Variable: "ANOTHER", NodePort: 10400, RegistrarPort: 10401}
	adopted, err := prepare(root, adopter.complete())
	if err != nil || adopted.names.NodePort != 10400 || adopted.names.RegistrarPort != 10401 ||
		!strings.Contains(string(adopted.made["internal/driver/another/another.go"]), `driver.Payload{Title: "Another", Variable: "ANOTHER"}`) {
		t.Errorf("the names and ports that are asked for are not taken: %+v, error %v", adopted.names, err)
	}

	// The next one finds the first, and is refused what the first has.
	next, err := prepare(root, names{Package: "another", Platform: "GCP"}.complete())
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []int{next.names.ControllerPort, next.names.NodePort, next.names.RegistrarPort, next.names.MetricsPort, next.names.MetricsPort + 1003} {
		if own[port] != "" || port == 0 {
			t.Errorf("the next driver gets port %d, which %s has", port, own[port])
		}
	}
	for args, want := range map[string]string{
		"testdisk": "internal/driver/testdisk exists: nothing is overwritten",
		"another --csi-name testdisk.example.com": "--csi-name testdisk.example.com: the driver in internal/driver/testdisk already uses this value",
	} {
		if err := run(t.Context(), out, append(strings.Fields(args), "--repository", root)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", args, err, want)
		}
	}
	if diff := cmp.Diff(after, files(t, root)); diff != "" {
		t.Errorf("what is refused has changed files:\n%s", diff)
	}
}

// What is there already may be committed: a failure must not take it away, nor what it has in it.
func TestWhatCannotBeFinishedKeepsWhatIsThere(t *testing.T) {
	root := tree(t)
	golden := filepath.Join(root, "internal/driver/catalogue/testdata/testdisk-csi-driver-operator/base.yaml")
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
	err := run(t.Context(), &bytes.Buffer{}, []string{"--repository", root, "--unlisted-name", "testdisk"})
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
	if err := run(t.Context(), &bytes.Buffer{}, []string{"--repository", root, "--delivery", "olm", "--unlisted-name", "testdisk"}); err == nil || !strings.Contains(err.Error(), "All files are as they were before") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, files(t, root)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	for _, folder := range []string{"internal/driver/testdisk", "packages/testdisk"} {
		if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
			t.Errorf("%s is left", folder)
		}
	}
}

func TestWrongNamesAreRefusedWithWhatIsRight(t *testing.T) {
	const label, word = "it must be lower-case letters and digits", "Go reserves this word"
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
		strings.Repeat("a", 34):  "it has 34 characters: use at most 33",
		"func":                   word,
		"string":                 word,
		"internal":               "Go treats folders of this name specially",
		"driver":                 "internal/driver/all/all.go already uses this word",
		"gcppd":                  "internal/driver/gcppd exists: nothing is overwritten",
		"assets":                 "internal/driver/assets exists: nothing is overwritten",
		"hostports.go":           label,
		"a --csi-name a":         "it must end with a domain of yours, such as a.csi.example.com",
		"a --csi-name A.b":       `--csi-name "A.b": a lowercase RFC 1123 subdomain`,
		"a --csi-name ../a.b":    `--csi-name "../a.b": a lowercase RFC 1123 subdomain`,
		"a --csi-name a.b\"":     "a lowercase RFC 1123 subdomain",
		"a --prefix a.b":         `--prefix "a.b": a DNS-1035 label`,
		"a --short-prefix -":     `--short-prefix "-": a DNS-1035 label`,
		"a --condition-prefix a": "begin with a capital letter, such as GCPPD",
		"a --platform aws":       "it must be one of AWS, Azure, BareMetal, External",
		"a --platform":           "flag needs an argument",
		"a --delivery helm":      `--delivery "helm": it must be payload or olm`,
		"a --csi-name a." + strings.Repeat("a", 62):       "it has 64 characters, and CSI allows 63",
		"a --prefix " + strings.Repeat("a", 45):           "it has 45 characters; at most 44 leave room",
		"a --csi-name pd.csi.storage.gke.io":              "--csi-name pd.csi.storage.gke.io: the driver in internal/driver/gcppd already uses this value",
		"a --prefix aws-ebs-csi-driver":                   "--prefix aws-ebs-csi-driver: the driver in internal/driver/awsebs already uses this value",
		"a --short-prefix efs":                            "--short-prefix efs: the driver in internal/driver/awsefs already uses this value",
		"a --condition-prefix GCPPD":                      "--condition-prefix GCPPD: the driver in internal/driver/gcppd already uses this value",
		"a --csi-name vpc.block.csi.ibm.io":               "--csi-name vpc.block.csi.ibm.io: the catalogue in internal/driver/catalogue has it, for an operator of OpenShift's",
		"a --delivery olm --csi-name powervs.csi.ibm.com": "--csi-name powervs.csi.ibm.com: the catalogue in internal/driver/catalogue has it",
		"a --prefix ibm-vpc-block-csi-driver":             "--prefix ibm-vpc-block-csi-driver: the catalogue in internal/driver/catalogue has it",
		"a --condition-prefix IBMVPCBlock":                "--condition-prefix IBMVPCBlock: the catalogue in internal/driver/catalogue has it",
		"a --csi-name nfs.csi.k8s.io":                     "--csi-name nfs.csi.k8s.io: no ClusterCSIDriver may have this name",
		"a --delivery olm":                                "--csi-name a.csi.example.com: no ClusterCSIDriver may have this name",
		"a --title ä":                                     `--title "ä": it must have at most 63 letters`,
		"a --image-variable a":                            `--image-variable "a": it must have at most 63 capital`,
		"a --kind disk":                                   `--kind "disk": it must be block for disks, or file`,
		"a --sidecars provisioner,expander":               `--sidecars "expander": the controller can have provisioner,attacher`,
		"a --sidecars resizer,resizer":                    `--sidecars "resizer": the list has this sidecar twice`,
		"a --delivery olm --node-port 10300":              "--node-port 10300: awsebs (csi-liveness-probe), ",
		"a --delivery olm --registrar-port 9205":          "--registrar-port 9205: gcppd (snapshotter-kube-rbac-proxy) already uses this port",
		"a --delivery olm --node-port 10308":              "--node-port 10308: Red Hat's SMB operator already uses this port",
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
		"package a\nfunc f() []int { return []int{1} }":      ":2: write each driver of this list on a line of its own",
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
