package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// LoadImages imports archives of images on every real node.
func LoadImages(ctx context.Context, dir string, archives []node.Archive) error {
	_, state, err := live(dir)
	if err != nil {
		return err
	}
	if state.Machine == nil {
		return fmt.Errorf("the cluster in %s has no real nodes: start one with: devcluster up --real-nodes 1", dir)
	}
	var stopped []error
	for _, process := range state.Processes {
		if !strings.HasPrefix(process.Name, Node) {
			continue
		}
		if process.State != supervise.Running {
			stopped = append(stopped, fmt.Errorf("%s is %s, and has not got the images: type devcluster start --dir %s %s, and load them again",
				process.Name, process.State, Quote(dir), process.Name))
			continue
		}
		for _, archive := range archives {
			if err := node.Load(ctx, *state.Machine, process.PID, archive); err != nil {
				return fmt.Errorf("%s: %s: %w", process.Name, archive.File, err)
			}
		}
	}
	return errors.Join(stopped...)
}
