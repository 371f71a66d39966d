package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// LoadImages gives archives of images to every real node.
func LoadImages(ctx context.Context, dir string, archives []node.Archive) error {
	_, state, err := live(dir)
	if err != nil {
		return err
	}
	if state.Machine == nil {
		return fmt.Errorf("the cluster in %s has no real nodes: start one with: devcluster up --real-nodes 1", dir)
	}
	for _, process := range state.Processes {
		if !strings.HasPrefix(process.Name, Node) || process.State != supervise.Running {
			continue
		}
		for _, archive := range archives {
			if err := node.Load(ctx, *state.Machine, process.PID, archive); err != nil {
				return fmt.Errorf("%s: %s: %w", process.Name, archive.File, err)
			}
		}
	}
	return nil
}
