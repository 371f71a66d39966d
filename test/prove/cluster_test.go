package main

import (
	"context"
	"fmt"
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

// A server that the tests have started, for example, is no reason to wait, and does not outlive them.
func TestTestsMayLeaveProcessesInTheBackground(t *testing.T) {
	held := filepath.Join(t.TempDir(), "held")
	env.Must(t, exec.CommandContext(t.Context(), "mkfifo", held).Run())
	file, err := os.OpenFile(held, os.O_RDWR, 0)
	env.Must(t, err)
	p := &proof{ending: time.Hour, tests: "(echo > " + held + "; exec sleep 600) & read line < " + held + "; echo $!"}
	p.command, p.share.class = p.execute, "efs"
	begin := time.Now()
	seen, err := p.runTests(t.Context())
	env.Must(t, err)
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it has waited for %s", took)
	}
	pid := seen[strings.LastIndexByte(seen, ' ')+1:]
	env.Must(t, env.Await(t.Context(), "process "+pid+" has ended", func() error {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && !strings.Contains(string(text), ") Z ") {
			return fmt.Errorf("it is %s", text)
		}
		return nil
	}))
	env.Must(t, file.Close())
}

// A long output must not hide the error.
func TestAnErrorHasWhatTheProgramSaysOfItself(t *testing.T) {
	p := &proof{}
	_, err := p.execute(t.Context(), "", "sh", "-c", "echo broken >&2; seq 1000; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3: broken; its output ends with: 961\n") || !strings.HasSuffix(err.Error(), "\n1000") {
		t.Errorf("the error is %v", err)
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
