package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/plugin/install"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const (
	registry = "registry.example/me"
	// publishedImage is the catalog that "make publish" has pushed.
	publishedImage = registry + "/csi-operators-catalog:published"
)

// published makes a copy of the files that the plugin embeds, as "make publish" leaves it, and returns its path in the repository.
func published(t *testing.T, root string) string {
	t.Helper()
	env.Must(t, os.MkdirAll(filepath.Join(root, "bin"), 0o755))
	folder, err := os.MkdirTemp(filepath.Join(root, "bin"), "published-")
	env.Must(t, err)
	t.Cleanup(func() { env.Must(t, os.RemoveAll(folder)) })
	env.Must(t, os.CopyFS(folder, os.DirFS(filepath.Join(root, "bundle/install"))))
	for _, file := range []string{"1-catalogsource.yaml", "before-4.21/1-catalogsource.yaml"} {
		file = filepath.Join(folder, file)
		text, err := os.ReadFile(file)
		env.Must(t, err)
		before, after, _ := strings.Cut(string(text), "  image: ")
		_, after, _ = strings.Cut(after, "\n")
		env.Must(t, os.WriteFile(file, []byte(before+"  image: "+publishedImage+"\n"+after), 0o600))
	}
	relative, err := filepath.Rel(root, folder)
	env.Must(t, err)
	return relative
}

// makeProve is "make prove" with these words. A make that runs the test hands none of its variables on.
func makeProve(t *testing.T, root string, variables []string, words ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "prove"}, words...)...)
	command.Dir = root
	command.Env = slices.DeleteFunc(variables, func(one string) bool {
		return strings.HasPrefix(one, "MAKE") || strings.HasPrefix(one, "MFLAGS=")
	})
	return command
}

// "make prove" refuses a registry that has no release, and hands the roles on.
func TestMakeProveTakesItsVariables(t *testing.T) {
	root, err := env.Root()
	env.Must(t, err)
	folder := published(t, root)
	output, err := makeProve(t, root, os.Environ(), "REGISTRY=registry.example/another", "PUBLISHED="+folder).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "no release in registry.example/another: run make publish REGISTRY=") {
		t.Errorf("%v\n%s", err, output)
	}
	output, err = makeProve(t, root, os.Environ(), "-n", "REGISTRY="+registry, "PUBLISHED="+folder, "ROLEARN=arn:1", "NODE_ROLEARN=arn:2").
		CombinedOutput()
	for _, want := range []string{"-role-arn 'arn:1'", "-node-role-arn 'arn:2'", "grep -q 'image: " + registry + "/' " + folder} {
		if err != nil || !strings.Contains(string(output), want) {
			t.Errorf("the commands lack %q: %v\n%s", want, err, output)
		}
	}
}

// The plugin prints its checks before a long list of objects.
func TestAnInstallationThatThePluginRefusesSaysWhy(t *testing.T) {
	p := &proof{command: func(context.Context, string, string, ...string) (string, error) {
		text, err := asJSON(install.Plan{Checks: []install.Check{
			{Name: "OLM", State: "ok", Text: "found"}, {Name: "credentials", State: "missing", Text: "set --role-arn"},
		}})
		return text, errors.Join(errors.New("exit status 3"), err)
	}}
	const want = "credentials: set --role-arn (ROLEARN= of make prove is --role-arn"
	if _, err := p.plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "OLM") {
		t.Errorf("the error is %v", err)
	}
}

// An administrator types "make prove" on a cluster with STS: without the roles, which the report then asks for, and then with them. The plugin
// installs from the catalog that "make publish" has pushed.
func TestMakeProveInstallsWhatWasPublishedOnAClusterWithSTS(t *testing.T) {
	env.OnlySoak(t)
	a := open(t, "--nodes", "5", "--credentials-mode", "STS")
	root, err := env.Root()
	env.Must(t, err)
	folder, output := published(t, root), t.TempDir()
	run := func(words ...string) (report, said string, err error) {
		command := makeProve(t, root, a.variables(), append([]string{
			"KUBECONFIG=" + a.cluster.Kubeconfig(), "ACCOUNT=" + fakeaws.Account, "PUBLISHED=" + folder, "REGISTRY=" + registry,
			"STEPS=install,share,tests", "OUTPUT=" + output,
		}, words...)...)
		text, err := command.CombinedOutput()
		t.Logf("%s", text)
		made, missing := os.ReadFile(filepath.Join(output, "report.md"))
		env.Must(t, missing)
		return string(made), string(text), err
	}
	report, said, err := run()
	if err == nil || !strings.Contains(report, "| Installation | failed |") || !strings.Contains(said, "--role-arn") {
		t.Errorf("without roles: %v\n%s", err, report)
	}
	a.nothingLeft(t)
	role := "arn:aws:iam::" + fakeaws.Account + ":role/efs-"
	report, _, err = run("ROLEARN="+role+"controller", "NODE_ROLEARN="+role+"node",
		"TESTS=oc -n openshift-marketplace get catalogsource csi-operators -o 'jsonpath={.spec.image}'")
	env.Must(t, err)
	for _, want := range []string{"| Credentials | STS |", "| Installation | passed |", "| Tests | passed |", publishedImage} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	a.nothingLeft(t)
}
