package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// Make, a shell and the tests are processes of one group. The clean-up must not begin before they have ended.
func TestACtrlCEndsAllProcessesOfTheTests(t *testing.T) {
	held, cleaned := filepath.Join(t.TempDir(), "held"), filepath.Join(t.TempDir(), "cleaned")
	env.Must(t, exec.CommandContext(t.Context(), "mkfifo", held).Run())
	p := &proof{ending: time.Second}
	p.command, p.share.class = p.execute, "efs"
	// The inner shell cleans up. Its child ignores a Ctrl-C, as all children in the background do.
	p.tests = `sh -c "trap 'echo > ` + cleaned + `; exit 1' INT; sleep 600 > ` + held + ` & while :; do sleep 0.1; done"; true`
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error)
	go func() {
		_, err := p.runTests(ctx)
		ended <- err
	}()
	// This waits for the child.
	file, err := os.Open(held)
	env.Must(t, err)
	interrupt()
	if err := <-ended; err == nil {
		t.Error("tests that were interrupted have passed")
	}
	if _, err := os.Stat(cleaned); err != nil {
		t.Errorf("the tests had no time to clean up: %v", err)
	}
	// The end comes when no process has it open.
	env.Must(t, file.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.ReadAll(file); err != nil {
		t.Errorf("a process of the tests is left: %v", err)
	}
}

func TestARehearsalIsNotTakenForARunInAWS(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	if has, err := hasOtherEndpoint(t.Context(), "us-east-1"); err != nil || has {
		t.Errorf("AWS's own endpoints are taken for others (%v)", err)
	}
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EFS", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_STS"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "http://127.0.0.1:1")
			if has, err := hasOtherEndpoint(t.Context(), "us-east-1"); err != nil || !has {
				t.Errorf("it is not seen (%v)", err)
			}
		})
	}
	p := &proof{}
	p.facts.take([]corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"devcluster/real": "true"}}}})
	if text := p.report(); !strings.Contains(text, "This was a rehearsal") || !strings.Contains(text, ", of a devcluster") {
		t.Errorf("the report is\n%s", text)
	}
}
