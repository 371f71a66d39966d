package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// usage is the processor time in seconds.
type usage struct {
	// packages are folders below the root.
	packages   map[string]float64
	components map[string]float64
	// total is the kernel's own sum, and exact.
	total float64
	// starts is the number of started control planes, and startTime their processor time until they were ready.
	starts    int
	startTime float64
}

func newUsage() usage { return usage{packages: map[string]float64{}, components: map[string]float64{}} }

const (
	// tests is the component of test programs.
	tests = "tests themselves"
	// shells is the component of programs that start others.
	shells = "go, make and shells"
)

// componentOf returns the component of a process, by its arguments.
func componentOf(args []string) string {
	program := filepath.Base(args[0])
	switch {
	case strings.HasSuffix(program, ".test"):
		return tests
	case program == "devcluster" && len(args) > 1:
		return componentOfDevcluster(args[1])
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
		return "devcluster's commands and kubectl"
	}
}
