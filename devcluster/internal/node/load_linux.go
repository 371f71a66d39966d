package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Load imports the images of an archive into the containerd of a node. Argument "pid" is the ID of the node's process. An imported image replaces an
// image of the same name.
func Load(ctx context.Context, machine Machine, pid int, archive Archive) error {
	file, err := os.Open(archive.File)
	if err != nil {
		return fmt.Errorf("load images: %w", err)
	}
	defer func() { _ = file.Close() }()
	c := ctr{program: filepath.Join(machine.Programs, "ctr"), socket: filepath.Join("/proc", strconv.Itoa(pid), "root", socket)}
	arguments := []string{"import"}
	if len(archive.Names) > 0 {
		arguments = append(arguments, "--index-name="+archive.Names[0])
	}
	if err := c.images(ctx, file, append(arguments, "-")...); err != nil {
		return err
	}
	for i := 1; i < len(archive.Names); i++ {
		if err := c.images(ctx, nil, "tag", "--force", archive.Names[0], archive.Names[i]); err != nil {
			return err
		}
	}
	return nil
}

// ctr runs containerd's own client, for the containerd at a socket.
type ctr struct{ program, socket string }

func (c ctr) images(ctx context.Context, input io.Reader, arguments ...string) error {
	command := exec.CommandContext(ctx, c.program, append([]string{"--address=" + c.socket, "--namespace=k8s.io", "images"}, arguments...)...)
	command.Stdin = input
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("load images into a node: %w\n%s", err, out)
	}
	return nil
}
