//go:build !linux

package main

import (
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// errLinux is what all of these say: pods run on Linux.
var errLinux = errors.New("--storage needs Linux")

func copyDisk(string, string) error { return errLinux }

func (s *storage) detach(string) error { return errLinux }

func (s *storage) stage(string, string, *csi.VolumeCapability) error { return errLinux }

func (s *storage) publish(*csi.NodePublishVolumeRequest) error { return errLinux }

func (s *storage) expand(string, string) (int64, error) { return 0, errLinux }
