package supervise_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

const (
	// deadline is for what takes a moment.
	deadline = time.Minute
	// stubborn ignores the polite signal; it prints a line when it has begun to.
	stubborn = `trap "" TERM; echo ready; while :; do sleep 1; done`
	// obedient ends when asked to.
	obedient = `echo ready; exec sleep 600`
)

// newGroup returns a group whose children are shells.
func newGroup(t *testing.T) *supervise.Group {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	group := supervise.NewGroup(supervise.Options{Executable: shell, Dir: dir, Logs: dir, Env: []string{"PATH=" + os.Getenv("PATH")}})
	t.Cleanup(func() { group.StopAll(0) })
	return group
}

func start(t *testing.T, group *supervise.Group, name, script string) {
	t.Helper()
	if err := group.Start(supervise.Process{Name: name, Args: []string{"-c", script}}); err != nil {
		t.Fatal(err)
	}
}

func status(t *testing.T, group *supervise.Group, name string) supervise.Status {
	t.Helper()
	for _, s := range group.Statuses() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no process %s", name)
	return supervise.Status{}
}

// printed waits until a process has printed a word.
func printed(t *testing.T, group *supervise.Group, name, word string) {
	t.Helper()
	await(t, name+" prints "+word, func() bool {
		data, err := os.ReadFile(status(t, group, name).Log)
		return err == nil && strings.Contains(string(data), word)
	})
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(deadline)
	for !holds() {
		select {
		case <-limit:
			t.Fatalf("not within %s: %s", deadline, what)
		case <-ticker.C:
		}
	}
}

func TestChildThatEndsByItselfIsReportedWithItsStatusAndLog(t *testing.T) {
	group := newGroup(t)
	start(t, group, "short", "echo why it ended; exit 3")
	select {
	case got := <-group.Exits():
		if got.Name != "short" || got.State != supervise.Exited || got.Exit != "exit status 3" {
			t.Errorf("got %+v", got)
		}
		data, err := os.ReadFile(got.Log)
		if err != nil || string(data) != "why it ended\n" {
			t.Errorf("the log holds %q (%v)", data, err)
		}
	case <-time.After(deadline):
		t.Fatal("nothing was reported")
	}
}

func TestStoppedChildIsNotReportedAndCanBeStartedAgain(t *testing.T) {
	group := newGroup(t)
	start(t, group, "child", obedient)
	first := status(t, group, "child")
	group.Stop("child", deadline)
	if got := status(t, group, "child"); got.State != supervise.Stopped {
		t.Fatalf("after Stop: %+v", got)
	}
	if err := group.Restart("child"); err != nil {
		t.Fatal(err)
	}
	second := status(t, group, "child")
	if second.State != supervise.Running || second.PID == first.PID || len(group.Statuses()) != 1 {
		t.Errorf("after Restart: %+v", group.Statuses())
	}
	select {
	case got := <-group.Exits():
		t.Errorf("reported: %+v", got)
	default:
	}
}

func TestStubbornChildIsKilled(t *testing.T) {
	group := newGroup(t)
	start(t, group, "stubborn", stubborn)
	start(t, group, "obedient", obedient)
	printed(t, group, "stubborn", "ready")
	group.StopAll(50 * time.Millisecond)
	if got := status(t, group, "stubborn"); got.Exit != "signal: killed" || got.State != supervise.Stopped {
		t.Errorf("got %+v", got)
	}
}

func TestStartRefusesARunningNameAndAClosedGroup(t *testing.T) {
	group := newGroup(t)
	start(t, group, "child", obedient)
	if err := group.Restart("child"); err == nil || !strings.Contains(err.Error(), "running already") {
		t.Errorf("start twice: %v", err)
	}
	if err := group.Restart("other"); err == nil {
		t.Error("restart of an unknown process: got no error")
	}
	group.StopAll(deadline)
	if err := group.Restart("child"); err == nil {
		t.Error("start after StopAll: got no error")
	}
}

func TestIsTellsAChildFromAnotherProcess(t *testing.T) {
	group := newGroup(t)
	start(t, group, "child", obedient)
	pid := status(t, group, "child").PID
	// The shell becomes `sleep 600`.
	await(t, "the child is recognised", func() bool { return supervise.Is(pid, "600") })
	if supervise.Is(pid, "another") {
		t.Error("the child is taken for another")
	}
	group.Stop("child", deadline)
	if supervise.Is(pid, "600") {
		t.Error("the child is recognised after its end")
	}
}

func TestLockIsExclusiveUntilItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := supervise.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := supervise.Lock(path); !errors.Is(err, supervise.ErrLocked) {
		t.Errorf("second lock: got %v, want %v", err, supervise.ErrLocked)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := supervise.Lock(path)
	if err != nil {
		t.Fatalf("lock after close: %v", err)
	}
	_ = third.Close()
}

func TestWaitForEndReturnsWhenTheProcessEnds(t *testing.T) {
	group := newGroup(t)
	start(t, group, "child", obedient)
	pid := status(t, group, "child").PID
	ended := make(chan error, 1)
	go func() { ended <- supervise.WaitForEnd(context.Background(), pid) }()
	select {
	case err := <-ended:
		t.Fatalf("returned while the process lives: %v", err)
	default:
	}
	group.Stop("child", deadline)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Error("did not return")
	}
	if err := supervise.WaitForEnd(context.Background(), pid); err != nil {
		t.Errorf("wait for a process that has ended: %v", err)
	}
}

func TestWaitForEndHeedsItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := supervise.WaitForEnd(ctx, os.Getpid()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
