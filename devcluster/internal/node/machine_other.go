//go:build !linux

package node

import (
	"context"
	"errors"
	"os"
	"runtime"
)

// Check says why real nodes can't run on this machine.
func Check(string) (Machine, error) {
	return Machine{}, errors.New("real nodes need Linux: this is " + runtime.GOOS)
}

// Try says why real nodes can't run on this machine.
func Try(context.Context, Machine, string) error {
	_, err := Check("")
	return err
}

// FindPlan finds none.
func FindPlan() (Plan, *os.File, error) {
	_, err := Check("")
	return Plan{}, nil, err
}

// Sweep has nothing to do: there are no real nodes.
func Sweep(string, *Plan) error { return nil }

// MountsBelow finds nothing: there are no real nodes.
func MountsBelow(string) ([]string, error) { return nil, nil }

// Load can't be: there are no real nodes.
func Load(context.Context, Machine, int, Archive) error {
	_, err := Check("")
	return err
}

// Isolation and NetworkIsolation are zero: only Linux has these namespaces.
const (
	Isolation        = 0
	NetworkIsolation = 0
)

// CgroupName is empty: there are no cgroups.
func CgroupName() string { return "" }
