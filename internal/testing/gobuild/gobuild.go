// Package gobuild lets the go commands that tests run use the caches of make test.
package gobuild

import "os"

// Flags is the variable GOFLAGS for a go command of a test, in this tree or in a copy of it. With these flags, which are those of make test, Go uses
// earlier compilations, wherever the copy lies. Under make test, it also uses earlier links. The flags leave out vet and debug information, which no
// such test needs.
func Flags() string {
	flags := "-trimpath -vet=off -ldflags=-s -tags=kustomize_disable_go_plugin_support"
	if linkCache := LinkCache(); linkCache != "" {
		flags += " '-toolexec=" + linkCache + "'"
	}
	return flags
}

// LinkCache is the value of Go's flag -toolexec with which Go uses earlier links. Outside of make test, it is empty.
func LinkCache() string {
	return os.Getenv("LINKCACHE") //nolint:forbidigo // A test has no flags; so make test says it.
}
