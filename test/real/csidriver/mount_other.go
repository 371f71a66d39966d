//go:build !linux

package main

// mountVolume mounts nothing: pods run on Linux.
func mountVolume(string, bool) error { return nil }

// unmountVolume has nothing to do.
func unmountVolume(string) error { return nil }
