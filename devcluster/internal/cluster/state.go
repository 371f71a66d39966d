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

// Phase says whether a cluster is starting, ready, failed or stopping.
type Phase string

const (
	// Starting means that the cluster is not ready yet.
	Starting Phase = "starting"
	// Ready means that the cluster has become ready.
	Ready Phase = "ready"
	// Failed means that the cluster did not start.
	Failed Phase = "failed"
	// Stopping means that the supervisor is stopping the cluster.
	Stopping Phase = "stopping"
)

// State describes a cluster. It is the content of file state.json.
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
	// Network has the addresses of the nodes with a kubelet. Cgroup is the name of the cgroup of these nodes. Machine has what these nodes use of this
	// machine.
	Network *node.Plan    `json:"network,omitempty"`
	Cgroup  string        `json:"cgroup,omitempty"`
	Machine *node.Machine `json:"machine,omitempty"`
}

// save replaces the state file. Readers see either the old or the new content.
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

// running reports whether a supervisor holds the lock of the cluster's directory.
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
