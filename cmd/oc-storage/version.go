package main

import "runtime/debug"

// release is the version of a released program, such as v5.3.0.
//
//nolint:gochecknoglobals // The linker can only set variables, and Go records no version for a build from a folder.
var release string

// version returns the value of release. If release is empty, version returns the version or the commit that Go recorded when it built the program.
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
