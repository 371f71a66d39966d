// Package program runs programs of this machine for pods of a devcluster's fake nodes. If a pod has only one container, and the container has a known
// image, the pod gets a process. The process has the container's arguments and environment, and the permissions of the pod's ServiceAccount. The
// process ends before the pod is removed. So a roll-out replaces processes as on a node with a kubelet.
package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// OwnFlag is the command-line flag that names the program to run for pods of this repository's operators.
	OwnFlag = "program"
	// ForeignFlag is the command-line flag for all other programs.
	ForeignFlag = "foreign-program"
	// RealNodeFlag is the command-line flag for nodes whose pods get no program.
	RealNodeFlag = "real-node"
	// Finalizer keeps a pod until the pod's process has ended.
	Finalizer = "devcluster/program"
	// PIDAnnotation is the annotation of a pod with the ID of the pod's process.
	PIDAnnotation = "devcluster/pid"
)

// Program is a program that runs for each pod with a certain image.
type Program struct {
	// Image is the image reference, exactly as the pod has it.
	Image string `json:"image"`
	// Path is an absolute path.
	Path string `json:"path"`
	// Foreign marks a third party's program, which lacks the flags of this repository's operators.
	Foreign bool `json:"foreign,omitempty"`
}

// Flag returns the flag with which the user names the program.
func (p Program) Flag() string {
	name := OwnFlag
	if p.Foreign {
		name = ForeignFlag
	}
	return "--" + name + "=" + p.Image + "=" + p.Path
}

// Parse reads the values of the two flags, which have the form IMAGE=PATH. It makes each path absolute.
func Parse(own, foreign []string) ([]Program, error) {
	var all []Program
	for i, value := range append(append([]string{}, own...), foreign...) {
		p := Program{Foreign: i >= len(own)}
		var found bool
		p.Image, p.Path, found = strings.Cut(value, "=")
		if !found || p.Image == "" || p.Path == "" {
			return nil, fmt.Errorf("--%s and --%s need a value IMAGE=PATH, not %q", OwnFlag, ForeignFlag, value)
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

// Validate returns the first fault of the programs.
func Validate(programs []Program) error {
	seen := map[string]bool{}
	for _, p := range programs {
		if seen[p.Image] {
			return fmt.Errorf("%s: image %s is given twice", p.Flag(), p.Image)
		}
		seen[p.Image] = true
		info, err := os.Stat(p.Path)
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s: %s is not an executable program: build the program first", p.Flag(), p.Path)
		}
	}
	return nil
}
