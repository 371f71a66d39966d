package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// Phase is the state of a cluster's start or end.
type Phase string

const (
	// Starting means that the cluster is not ready yet.
	Starting Phase = "starting"
	// Ready means that the cluster has been ready.
	Ready Phase = "ready"
	// Failed means that the cluster did not start.
	Failed Phase = "failed"
	// Stopping means that the cluster is being stopped.
	Stopping Phase = "stopping"
)

// State describes a cluster, in the file state.json.
type State struct {
	Phase      Phase  `json:"phase"`
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	// Error says why the cluster did not start.
	Error      string             `json:"error,omitempty"`
	Supervisor int                `json:"supervisor"`
	Options    Options            `json:"options"`
	Ports      ports              `json:"ports"`
	Processes  []supervise.Status `json:"processes"`
	// Network, Cgroup and Machine describe the real nodes: their addresses, the name of their cgroup, and what they use of this machine.
	Network *node.Plan    `json:"network,omitempty"`
	Cgroup  string        `json:"cgroup,omitempty"`
	Machine *node.Machine `json:"machine,omitempty"`
}

// save replaces the state file atomically.
func (s *State) save(l layout) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's state: %w", err)
	}
	return replaceFile(l.state(), append(data, '\n'))
}

func loadState(l layout) (*State, error) {
	data, err := os.ReadFile(l.state())
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	state := &State{}
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("read the cluster's state: %s is damaged: %w", l.state(), err)
	}
	return state, nil
}

func replaceFile(path string, data []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// running reports whether a supervisor holds the directory's lock.
func running(l layout) (bool, error) {
	if _, err := os.Stat(l.marker()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	lock, err := supervise.Lock(l.marker())
	if errors.Is(err, supervise.ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}
