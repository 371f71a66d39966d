// Package program runs programs of this machine for pods of a devcluster's fake nodes. A pod whose only container has a known
// image gets a process. It has the container's arguments and environment, and the permissions of the pod's ServiceAccount. It ends before the
// pod is removed, so that a roll-out replaces processes as on a real node.
package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// OwnFlag names operators of this repository on the command line.
	OwnFlag = "program"
	// ForeignFlag names other programs.
	ForeignFlag = "foreign-program"
	// RealNodeFlag names nodes whose pods get no program.
	RealNodeFlag = "real-node"
	// Finalizer keeps a pod until its process has ended.
	Finalizer = "devcluster/program"
	// PIDAnnotation of a pod is its process ID.
	PIDAnnotation = "devcluster/pid"
)

// Program runs for pods of an image.
type Program struct {
	// Image is the exact image reference in the pod.
	Image string `json:"image"`
	// Path is an absolute path.
	Path string `json:"path"`
	// Set for third-party programs, which lack the flags of this repository's operators.
	Foreign bool `json:"foreign,omitempty"`
}

// Flag is the flag that names the program.
func (p Program) Flag() string {
	name := OwnFlag
	if p.Foreign {
		name = ForeignFlag
	}
	return "--" + name + "=" + p.Image + "=" + p.Path
}

// Parse reads the values IMAGE=PATH of the two flags. Paths become absolute.
func Parse(own, foreign []string) ([]Program, error) {
	var all []Program
	for i, value := range append(append([]string{}, own...), foreign...) {
		p := Program{Foreign: i >= len(own)}
		var found bool
		p.Image, p.Path, found = strings.Cut(value, "=")
		if !found || p.Image == "" || p.Path == "" {
			return nil, fmt.Errorf("--%s and --%s are IMAGE=PATH, not %q", OwnFlag, ForeignFlag, value)
		}
		absolute, err := filepath.Abs(p.Path)
		if err != nil {
			return nil, fmt.Errorf("find the absolute path of program %s: %w", p.Path, err)
		}
		p.Path = absolute
		all = append(all, p)
	}
	return all, nil
}

// Validate returns the faults of programs, by flag.
func Validate(programs []Program) error {
	seen := map[string]bool{}
	for _, p := range programs {
		if seen[p.Image] {
			return fmt.Errorf("--%s: image %s is given twice", OwnFlag, p.Image)
		}
		seen[p.Image] = true
		info, err := os.Stat(p.Path)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("--%s: image %s: %s is no program that can be run: build it first", OwnFlag, p.Image, p.Path)
		}
	}
	return nil
}
