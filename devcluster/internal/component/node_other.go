//go:build !linux

package component

// nodeComponents returns nothing, because nodes with a kubelet need Linux.
func nodeComponents() map[string]func(args []string) int { return nil }
