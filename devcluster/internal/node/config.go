package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Write writes the configuration into the cluster's directory. Argument "name" is the name of a node or of the network.
func (c Config) Write(name string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the configuration of %s: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "nodes"), 0o700); err != nil {
		return fmt.Errorf("make the directory of real nodes: %w", err)
	}
	if err := replaceFile(File(c.Dir, name), data); err != nil {
		return fmt.Errorf("write the configuration of %s: %w", name, err)
	}
	return nil
}

// replaceFile replaces a file atomically.
func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// File returns the path of the configuration file of a node, or of the network.
func File(dir, name string) string { return filepath.Join(dir, "nodes", name+".json") }

func readConfig(file string) (Config, error) {
	var c Config
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, fmt.Errorf("read the configuration of a real node: %w", err)
	}
	return c, nil
}

// home returns the folder of a node in the cluster's directory. root returns the folder of the node's root file system.
func (c Config) home() string { return filepath.Join(c.Dir, "nodes", c.Name) }

func (c Config) root() string { return filepath.Join(c.home(), "root") }
