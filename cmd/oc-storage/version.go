package main

import "runtime/debug"

// release is the version of a released program, such as v5.1.0.
//
//nolint:gochecknoglobals // The linker sets it, and it sets nothing but variables: Go knows no version of a program that is built from a folder.
var release string

// version is that of the release, else that of the module or of the commit that the program was built from.
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
