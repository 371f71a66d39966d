package env

import (
	"context"
	"errors"
	"os/exec"
	"strings"
)

// LoadImages gives all real nodes the images of an OCI archive.
func (c *Cluster) LoadImages(ctx context.Context, archive string) error {
	_, err := c.run(ctx, "load-images", "--dir", c.Dir, archive)
	return err
}

// RealNodesMissing is the sentence that says why this machine can't run real nodes; empty if it can.
func RealNodesMissing(ctx context.Context) (string, error) {
	binary, err := Binary("devcluster")
	if err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, binary, "real-nodes-check").CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return strings.TrimSpace(string(output)), nil
	}
	return "", err
}
