//go:build !linux

package node

import (
	"context"
	"errors"
	"os"
	"runtime"
)

// Check says why nodes with a kubelet can't run on this machine.
func Check(string) (Machine, error) {
	return Machine{}, errors.New("real nodes need Linux: this is " + runtime.GOOS)
}

// Try says why nodes with a kubelet can't run on this machine.
func Try(context.Context, Machine, string) error {
	_, err := Check("")
	return err
}

// FindPlan finds no plan, because there are no nodes with a kubelet.
func FindPlan() (Plan, *os.File, error) {
	_, err := Check("")
	return Plan{}, nil, err
}

// Sweep does nothing, because there are no nodes with a kubelet.
func Sweep(string, *Plan) error { return nil }

// MountsBelow finds nothing, because there are no nodes with a kubelet.
func MountsBelow(string) ([]string, error) { return nil, nil }

// Load returns an error, because there are no nodes with a kubelet.
func Load(context.Context, Machine, int, Archive) error {
	_, err := Check("")
	return err
}

// Isolation and NetworkIsolation are zero, because only Linux has these namespaces.
const (
	Isolation        = 0
	NetworkIsolation = 0
)

// CgroupName is empty, because there are no cgroups.
func CgroupName() string { return "" }
