package env

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// NFS stands in for the NFS client of a real node's kernel, and for the file systems in AWS. See test/real/csidriver/efs.
type NFS struct {
	// Folder has the shares, as this machine sees it.
	Folder string
	// node is the first process of the node.
	node    int
	command *exec.Cmd
	log     string
}

// shares is the folder on the node.
const shares = "/var/lib/kubelet/stand-in-for-efs"

// StartNFS starts one on a real node. Volumes of EFS that are mounted later go through it. With a size such as "1m", the file systems together have
// no more space. Stop ends it; the node's end does, too.
func (c *Cluster) StartNFS(ctx context.Context, node, size string) (*NFS, error) {
	pid, err := c.NodeProcess(node)
	if err != nil {
		return nil, err
	}
	n := &NFS{node: pid, Folder: fmt.Sprintf("/proc/%d/root%s/data", pid, shares), log: filepath.Join(c.Dir, "logs", node, "nfs.log")}
	program, err := Binary("real/efs")
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Clean(program))
	if err != nil {
		return nil, err
	}
	client := filepath.Join(filepath.Dir(n.Folder), "client")
	if err := errors.Join(os.MkdirAll(n.Folder, 0o755), os.WriteFile(client, content, 0o755)); err != nil {
		return nil, err
	}
	if size != "" {
		if err := n.inside(ctx, "mount", "-t", "tmpfs", "-o", "mode=0755,size="+size, "shares", shares+"/data").Run(); err != nil {
			return nil, fmt.Errorf("limit the space of the file systems on node %s: %w", node, err)
		}
	}
	log, err := os.Create(n.log)
	if err != nil {
		return nil, err
	}
	n.command = n.inside(context.WithoutCancel(ctx), shares+"/client", "client")
	n.command.Stdout, n.command.Stderr = log, log
	DieWithParent(n.command)
	if err := errors.Join(n.command.Start(), log.Close()); err != nil {
		return nil, fmt.Errorf("the NFS client of node %s: %w", node, err)
	}
	return n, AwaitFor(ctx, Patience, "the NFS client of node "+node, func() error {
		text, err := os.ReadFile(n.log)
		if err == nil && !bytes.Contains(text, []byte("listens\n")) {
			err = errors.New(string(text))
		}
		return err
	})
}

// inside is a command in the namespaces of the node.
func (n *NFS) inside(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(n.node), "--mount", "--net", "--"}, args...)...)
}

// Stop ends it, and each mount with it.
func (n *NFS) Stop() error {
	if err := n.command.Process.Kill(); err != nil {
		return err
	}
	// The error only repeats that it was killed.
	_ = n.command.Wait()
	return nil
}

// Event is what happened at a second since the machine started.
type Event struct {
	At   float64
	What string
}

// Events are "write waits", "write goes on", and the same of other requests, in order. One waits when nothing has answered it for half a second.
func (n *NFS) Events() ([]Event, error) {
	text, err := os.ReadFile(n.log)
	if err != nil {
		return nil, err
	}
	var found []Event
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		at, what, _ := strings.Cut(scanner.Text(), " ")
		if seconds, err := strconv.ParseFloat(at, 64); err == nil {
			found = append(found, Event{At: seconds, What: what})
		}
	}
	return found, nil
}

// NodeProcess is the first process of a real node.
func (c *Cluster) NodeProcess(node string) (int, error) {
	state, err := c.state()
	if err != nil {
		return 0, err
	}
	for _, process := range state.Processes {
		if process.Name == nodeProcess+node {
			return process.PID, nil
		}
	}
	return 0, fmt.Errorf("there is no process of real node %s", node)
}
