//go:build !linux

package component

// nodeComponents are none: real nodes need Linux.
func nodeComponents() map[string]func(args []string) int { return nil }
