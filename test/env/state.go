package env

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// state is what "devcluster up" writes about a running cluster.
type state struct {
	Processes []struct {
		Name string
		PID  int
	}
	Ports   struct{ Etcd int }
	Network struct{ Host string }
}

func (c *Cluster) state() (state, error) {
	var found state
	text, err := os.ReadFile(filepath.Join(c.Dir, "state.json"))
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return found, fmt.Errorf("read the cluster's state: %w", err)
	}
	return found, nil
}
