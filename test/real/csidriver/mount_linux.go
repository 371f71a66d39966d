package main

import (
	"errors"
	"fmt"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// mountVolume mounts an empty file system in memory, unless that is done. What was written ends with the mount.
func mountVolume(target string, readOnly bool) error {
	var at, above syscall.Stat_t
	if err := errors.Join(syscall.Stat(target, &at), syscall.Stat(target+"/..", &above)); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if at.Dev != above.Dev {
		return nil
	}
	flags := uintptr(syscall.MS_NOSUID)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("recorder", target, "tmpfs", flags, "size=16m,mode=0777"); err != nil {
		return status.Error(codes.Internal, fmt.Sprintf("mount %s: %v", target, err))
	}
	return nil
}

// unmountVolume ends what mountVolume has begun, if it has.
func unmountVolume(target string) error {
	err := syscall.Unmount(target, 0)
	if err == nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return status.Error(codes.Internal, fmt.Sprintf("unmount %s: %v", target, err))
}
