package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/test/env"
)

// A CI kills all processes of a job at once, for example with its container: shells, the command, oc, and the tests. The command with CLEAN=1 then runs in
// a later job.
func TestAKilledJobOfACILeavesNothing(t *testing.T) {
	env.OnlySoak(t)
	a := open(t, "--nodes", "5")
	for _, words := range []string{"delete --raw /api", "--storage-class", ""} {
		t.Run("killed at "+words, func(t *testing.T) {
			running := filepath.Join(t.TempDir(), "running")
			env.Must(t, exec.CommandContext(t.Context(), "mkfifo", running).Run())
			tests := "(sleep 600 & wait) & echo > " + running + "; wait"
			if words != "" {
				// A command of the run is at work then.
				tests = "true"
				env.Must(t, os.WriteFile(filepath.Join(a.path, "hold"), []byte(words+"\n"+running+"\n"), 0o600))
			}
			prove := a.prove(t.TempDir(), "-steps", "install,share,tests", "-tests", tests)
			job := exec.Command("sh", "-c", `sh -c '"$@"; exit $?' job "$@" | cat`, "job") //nolint:noctx // The test kills it.
			job.Args = append(job.Args, prove.Args...)
			job.Env, job.SysProcAttr = prove.Env, &syscall.SysProcAttr{Setsid: true}
			var said bytes.Buffer
			job.Stdout, job.Stderr = &said, &said
			env.Must(t, job.Start())
			// This waits for the tests, or for the command.
			file, err := os.OpenFile(running, os.O_RDWR, 0)
			env.Must(t, err)
			env.Must(t, file.SetReadDeadline(time.Now().Add(2*time.Minute)))
			_, err = file.Read(make([]byte, 1))
			env.Must(t, errors.Join(err, file.Close()))
			killed := killSession(t, job.Process.Pid)
			_ = os.Remove(filepath.Join(a.path, "hold"))
			t.Logf("%v; %d processes were killed:\n%s", job.Wait(), killed, said.String())
			if killed < 4 {
				t.Errorf("only %d processes were killed: this shows nothing", killed)
			}
			a.run(t, "-clean")
			a.nothingLeft(t)
		})
	}
}

// killSession kills all processes of a session, until none is left.
func killSession(t *testing.T, session int) (killed int) {
	t.Helper()
	for again := true; again; {
		again = false
		files, err := filepath.Glob("/proc/[0-9]*/stat")
		env.Must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue
			}
			env.Must(t, err)
			// The name of the program may have spaces. After it come the state, the parent, the group and the session.
			fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
			if fields[3] != strconv.Itoa(session) || fields[0] == "Z" {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			env.Must(t, err)
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				again = true
				killed++
			}
		}
	}
	return killed
}
