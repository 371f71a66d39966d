//go:build !linux

package component

// nodeComponents returns nothing, because real nodes need Linux.
func nodeComponents() map[string]func(args []string) int { return nil }
