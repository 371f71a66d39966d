package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	configv1 "github.com/openshift/api/config/v1"
)

// storyFile is the descriptor to which a process in the background writes storyTold when the demonstration has ended well.
const (
	storyFile = 3
	storyTold = "told"
)

// errPrinted says that the process in the background has failed, and has printed why.
var errPrinted = errors.New("the demonstration has failed")

// hasCloud reports whether the operators of a platform ask a cloud, which is in this process.
func hasCloud(platform string) bool {
	return slices.Contains([]string{string(configv1.OpenStackPlatformType), string(configv1.VSpherePlatformType)}, platform)
}

// inBackground runs this program once more, in a session of its own, and returns when the demonstration has ended. That process keeps the cloud until
// the cluster ends.
func inBackground(ctx context.Context, args []string) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe to the background: %w", err)
	}
	defer told.Close()
	// Cancelling ctx asks the process to stop the cluster; it must not be killed.
	command := exec.Command(executable, append([]string{"-stay"}, args...)...) //nolint:noctx // It outlives ctx.
	output, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("output of the background: %w", err)
	}
	command.Stderr, command.ExtraFiles = command.Stdout, []*os.File{tell}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = command.Start()
	if err = errors.Join(err, tell.Close()); err != nil {
		return fmt.Errorf("start the background: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Signal(syscall.SIGTERM) })
	defer stop()
	if _, err := io.Copy(os.Stdout, output); err != nil {
		return fmt.Errorf("output of the background: %w", err)
	}
	text, err := io.ReadAll(told)
	if err != nil {
		return fmt.Errorf("end of the demonstration: %w", err)
	}
	if string(text) != storyTold {
		_ = command.Wait()
		return errPrinted
	}
	return command.Process.Release()
}

// stay lets the parent of this process end, and returns when the cluster has ended.
func (d *demo) stay(ctx context.Context) error {
	parent := os.NewFile(storyFile, "parent")
	if _, err := parent.WriteString(storyTold); err != nil {
		return fmt.Errorf("tell the parent: %w", err)
	}
	if err := errors.Join(parent.Close(), os.Stdout.Close(), os.Stderr.Close()); err != nil {
		return fmt.Errorf("leave the parent: %w", err)
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(filepath.Join(d.cluster.Dir, "state.json")); err != nil {
			return nil //nolint:nilerr // The cluster was taken down.
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
