package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// LoadImages imports archives of images on every node with a kubelet, on all nodes at the same time.
func LoadImages(ctx context.Context, dir string, archives []node.Archive) error {
	_, state, err := live(dir)
	if err != nil {
		return err
	}
	if state.Machine == nil {
		return fmt.Errorf("the cluster in %s has no real nodes: start one with: devcluster up --real-nodes 1", dir)
	}
	if err := readable(archives); err != nil {
		return err
	}
	var (
		stopped []error
		loading sync.WaitGroup
		failed  = make([]error, len(state.Processes))
	)
	for i, process := range state.Processes {
		if !strings.HasPrefix(process.Name, Node) {
			continue
		}
		if process.State != supervise.Running {
			stopped = append(stopped, fmt.Errorf("%s is %s, so the images were not loaded into it: run devcluster start --dir %s %s, "+
				"and load the images again",
				process.Name, process.State, Quote(dir), process.Name))
			continue
		}
		loading.Go(func() { failed[i] = loadInto(ctx, *state.Machine, process, archives) })
	}
	loading.Wait()
	return errors.Join(append(stopped, failed...)...)
}

// readable returns an error for each file that can't be opened. Without this check, every node would report the same file.
func readable(archives []node.Archive) error {
	var problems []error
	for _, archive := range archives {
		file, err := os.Open(archive.File)
		if err != nil {
			problems = append(problems, fmt.Errorf("load images: %w", err))
			continue
		}
		problems = append(problems, file.Close())
	}
	return errors.Join(problems...)
}

// loadInto imports archives of images on one node with a kubelet.
func loadInto(ctx context.Context, machine node.Machine, process supervise.Status, archives []node.Archive) error {
	for _, archive := range archives {
		if err := node.Load(ctx, machine, process.PID, archive); err != nil {
			return fmt.Errorf("%s: %s: %w", process.Name, archive.File, err)
		}
	}
	return nil
}
