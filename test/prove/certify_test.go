package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// The command of the guide runs Kubernetes' storage tests on a file system of the proof: two tests here, because all of them take an hour.
func TestTheProofRunsKubernetesTests(t *testing.T) {
	a := onRealNode(t, testImages)
	report := a.run(t, "-steps", "install,share,tests", "-tests", certifyCommand(t))
	t.Log(report)
	for _, want := range []string{"| Tests | passed |", ": 2 tests passed, 0 failed, and 0 do not apply. |", "| Removal of the rest | passed |"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	a.nothingLeft(t)
	t.Run("until Ctrl-C", func(t *testing.T) {
		command := a.prove(t.TempDir(), "-steps", "install,share,tests", "-tests", certifyCommand(t))
		var output bytes.Buffer
		command.Stdout, command.Stderr = &output, &output
		env.Must(t, command.Start())
		env.Must(t, env.AwaitFor(t.Context(), 3*time.Minute, "a test has begun", func() error {
			return a.testNamespaces(t.Context(), 1)
		}))
		env.Must(t, command.Process.Signal(os.Interrupt))
		err := command.Wait()
		t.Logf("%v\n%s", err, output.String())
		if err == nil {
			t.Error("the proof has come to its end before the signal: this shows nothing")
		}
		env.Must(t, a.testNamespaces(t.Context(), 0))
		a.nothingLeft(t)
	})
}

// testNamespaces returns an error unless the cluster has as many namespaces of Kubernetes' tests. The tests label each with their run.
func (a *account) testNamespaces(ctx context.Context, want int) error {
	found := &corev1.NamespaceList{}
	if err := a.cluster.Client.List(ctx, found, client.HasLabels{"e2e-run"}); err != nil {
		return err
	}
	if len(found.Items) != want {
		return fmt.Errorf("the cluster has %d namespaces of the tests, want %d", len(found.Items), want)
	}
	return nil
}

// testImages are the images of the tests' pods.
func testImages(t *testing.T) nodeimages.Images {
	t.Helper()
	suite, err := env.Binary("suite")
	env.Must(t, err)
	names, err := exec.CommandContext(t.Context(), suite, "-list-images").Output()
	env.Must(t, err)
	images, err := nodeimages.Tests(strings.Fields(string(names)))
	env.Must(t, err)
	return images
}

// certifyCommand is what the guide has for TESTS=, with a list of tests.
func certifyCommand(t *testing.T) string {
	t.Helper()
	root, err := env.Root()
	env.Must(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/guide/prove.md"))
	env.Must(t, err)
	found := regexp.MustCompile(`(?m)^make certify .*$`).FindString(string(page))
	if found == "" {
		t.Fatal("the guide has no command that certifies a driver")
	}
	folder := t.TempDir()
	list, script := filepath.Join(folder, "list.txt"), filepath.Join(folder, "certify.sh")
	env.Must(t, os.WriteFile(list, []byte(`[Testpattern: Dynamic PV (default fs)] volumes should store data
[Testpattern: Dynamic PV (default fs)] provisioning should provision storage with mount options
`), 0o600))
	env.Must(t, os.WriteFile(script, fmt.Appendf(nil, "set -e\ncd %q\n%s LIST=%q\n", root, found, list), 0o600))
	return "sh " + script
}
