package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// usage is processor time, in seconds.
type usage struct {
	// packages has the processor time of each package. The key is the package's folder below the root.
	packages   map[string]float64
	components map[string]float64
	// total is the sum that the kernel counts, which is exact.
	total float64
	// starts is the number of control planes that the tests started. startTime is the processor time of all these starts together.
	starts    int
	startTime float64
}

func newUsage() usage { return usage{packages: map[string]float64{}, components: map[string]float64{}} }

const (
	// tests is the name of the component for test programs.
	tests = "tests themselves"
	// commands is the name of the component for commands that users type, too.
	commands = "devcluster's commands and kubectl"
	// shells is the name of the component for programs that start other programs.
	shells = "go, make and shells"
)

// componentOf returns the component of a process. The process' arguments decide.
func componentOf(args []string) string {
	program := filepath.Base(args[0])
	switch {
	case strings.HasSuffix(program, ".test"):
		return tests
	case program == "devcluster" && len(args) > 1:
		return componentOfDevcluster(args[1])
	case program == "kubectl" || program == "oc":
		return commands
	case program == "link":
		return "linking"
	case slices.Contains([]string{"compile", "asm", "cgo", "gcc", "cc1", "as", "collect2", "ld"}, program):
		return "compiling"
	case slices.Contains([]string{"go", "make", "bash", "sh", "gotestsum", "git", "testrun", "linkcache"}, program):
		return shells
	case strings.HasSuffix(program, "-operator") || program == "oc-storage" || program == "standin":
		return "operators and stand-ins for them"
	case strings.HasPrefix(program, "python") || program == "moto_server":
		return "moto"
	default:
		return "other programs"
	}
}

func componentOfDevcluster(name string) string {
	switch name {
	case "kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok":
		return name
	case "stand-ins", "programs":
		return "devcluster's stand-ins and programs"
	default:
		return commands
	}
}
