package main

import "runtime/debug"

// release is the version of a released program, such as v5.3.0.
//
//nolint:gochecknoglobals // The linker can only set variables, and Go records no version for a build from a folder.
var release string

// version returns the value of release. If release is empty, it returns the version of the module, or the commit, from which the program was
// built.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
