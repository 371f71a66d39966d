package images

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const (
	requirements = "images/aws-efs-utils/requirements.txt.ocp"
	check        = "images/aws-efs-utils/check_botocore.py"
	// upstream is the requirements.txt of efs-utils 3.2.0.
	upstream = `botocore==1.34.140 configparser==7.0.0 coverage==7.6.0 flake8==7.1.0 pytest==9.0.3 pytest-cov==5.0.0
		pytest-html==4.1.1 pytest-metadata==3.1.1 pytest-mock==3.14.0 mock==5.1.0`
)

// requirement is one package in requirements.txt.ocp.
type requirement struct {
	active  bool
	version string
	reason  string
}

func readRequirements(t *testing.T) map[string]requirement {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	text, err := os.ReadFile(filepath.Join(root, requirements))
	env.Must(t, err)
	// Hashes follow on lines of their own.
	text = regexp.MustCompile(` \\\n +--hash=sha256:[0-9a-f]{64}`).ReplaceAll(text, nil)
	line := regexp.MustCompile(`^(# )?([a-z0-9-]+)([=<>][=<>0-9.,]+)(: (.{10,}))?$`)
	found := map[string]requirement{}
	for _, text := range strings.Split(string(text), "\n") {
		parts := line.FindStringSubmatch(text)
		switch {
		case parts != nil:
			found[parts[2]] = requirement{active: parts[1] == "", version: parts[3], reason: parts[5]}
		case text != "" && !strings.HasPrefix(text, "# "):
			t.Errorf("%s: %q is neither a package nor a comment", requirements, text)
		}
	}
	return found
}

func TestTheRequirementsDifferFromUpstreamOnlyWithAReason(t *testing.T) {
	found := readRequirements(t)
	for _, line := range strings.Fields(upstream) {
		name, version, _ := strings.Cut(line, "==")
		switch mine, there := found[name]; {
		case !there:
			t.Errorf("%s of upstream is not mentioned", name)
		case mine.version != "=="+version:
			t.Errorf("%s%s, upstream has %s", name, mine.version, version)
		case !mine.active && mine.reason == "":
			t.Errorf("%s is left out without a reason", name)
		}
	}
	var active []string
	for name, mine := range found {
		if mine.active {
			active = append(active, name+mine.version)
		} else if mine.reason == "" {
			t.Errorf("%s is left out without a reason", name)
		}
	}
	// What else would be active, an RPM of RHEL brings, or nobody needs.
	if diff := cmp.Diff([]string{"botocore==1.34.140"}, active); diff != "" {
		t.Errorf("active packages (-want +got):\n%s", diff)
	}
}

// pip's own answer, for the Python that is in the image and the RPMs whose versions are known: botocore fits, and needs nothing that
// is not an RPM of the image.
func TestTheRequirementsFitRHEL9(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	uv, err := fakeaws.Venv("uv")
	env.Must(t, err)
	command := exec.CommandContext(t.Context(), uv, "pip", "compile", "--quiet", "--no-config", "--system-certs", "--no-header", "--no-annotate",
		"--python-version", "3.9", "--no-python-downloads", "--only-binary", ":all:",
		"--constraint", "testdata/rhel9.txt", filepath.Join(root, requirements))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("uv pip compile: %v\n%s", err, output)
	}
	var needed []string
	for _, line := range strings.Fields(string(output)) {
		name, _, _ := strings.Cut(line, "==")
		needed = append(needed, name)
	}
	slices.Sort(needed)
	if diff := cmp.Diff([]string{"botocore", "jmespath", "python-dateutil", "six", "urllib3"}, needed); diff != "" {
		t.Errorf("what is needed (-want +got):\n%s", diff)
	}
	found := readRequirements(t)
	for _, name := range needed {
		if _, there := found[name]; !there {
			t.Errorf("%s does not say where %s comes from", requirements, name)
		}
	}
	for _, want := range []string{"botocore==1.34.140", "six==1.15.0", "urllib3==1.26.5"} {
		if !slices.Contains(strings.Fields(string(output)), want) {
			t.Errorf("no %s in\n%s", want, output)
		}
	}
}

func TestEFSUtilsCallsWorkWithWhatIsInstalled(t *testing.T) {
	t.Parallel()
	root, err := env.Root()
	env.Must(t, err)
	venv := filepath.Join(t.TempDir(), "venv")
	python := filepath.Join(venv, "bin", "python")
	run(t, nil, "python3", "-m", "venv", venv)
	// Python here may be younger than RHEL's 3.9, for which botocore does not allow urllib3 2; then pip needs to know.
	// Nothing else of PyPI is in the image, as it is here: so what it needs comes without hashes.
	run(t, nil, python, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:", "--requirement",
		filepath.Join(root, requirements))
	run(t, nil, python, "-m", "pip", "install", "--quiet", "botocore==1.34.140", "urllib3<1.27")
	run(t, nil, python, "-m", "pip", "check")

	if got := run(t, fakeaws.Variables(), python, filepath.Join(root, check)); !strings.Contains(got, "botocore 1.34.140 has clients for efs and ec2") {
		t.Errorf("the check that the image makes says %q", got)
	}

	endpoint := fakeaws.Start(t)
	python3, err := fakeaws.Venv("python")
	env.Must(t, err)
	const region = "us-east-1"
	var made struct {
		FileSystem string            `json:"fileSystem"`
		Addresses  map[string]string `json:"addresses"`
	}
	env.Must(t, json.Unmarshal([]byte(run(t, fakeaws.Variables(), python3, "testdata/file_system.py", endpoint, region)), &made))
	if len(made.Addresses) != 2 {
		t.Fatalf("mount targets are %v", made)
	}
	for zone, address := range made.Addresses {
		if got := strings.TrimSpace(run(t, fakeaws.Variables(), python, filepath.Join(root, check), endpoint, region, made.FileSystem, zone)); got != address {
			t.Errorf("the mount target in %s is %q, want %s", zone, got, address)
		}
	}
	command := exec.CommandContext(t.Context(), python, filepath.Join(root, check), endpoint, region, made.FileSystem, region+"c")
	command.Env = fakeaws.Variables()
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "has no mount target in us-east-1c") || !strings.Contains(string(output), "us-east-1a, us-east-1b") {
		t.Errorf("a zone without a mount target: %v\n%s", err, output)
	}
}

// run runs a program in an environment, nil for that of the test, and returns what it prints.
func run(t *testing.T, environment []string, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = environment
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, output, &problems)
	}
	return string(output)
}
