package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
)

// copyDisk copies a file without its holes. What file systems have not written yet is written first.
func copyDisk(from, to string) error {
	unix.Sync()
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for at := int64(0); err == nil; {
		var begin, end int64
		// ENXIO says that no data follows.
		if begin, err = unix.Seek(int(source.Fd()), at, unix.SEEK_DATA); err != nil {
			break
		}
		if end, err = unix.Seek(int(source.Fd()), begin, unix.SEEK_HOLE); err != nil {
			break
		}
		_, err = io.Copy(io.NewOffsetWriter(target, begin), io.NewSectionReader(source, begin, end-begin))
		at = end
	}
	if errors.Is(err, unix.ENXIO) {
		err = nil
	}
	return errors.Join(err, target.Truncate(info.Size()), target.Close())
}

// attach returns the loop device of a disk.
func (s *storage) attach(id string) (*os.File, error) {
	if device := s.attached[id]; device != nil {
		return device, nil
	}
	file, err := os.OpenFile(s.path(id), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.Open("/dev/loop-control")
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := &unix.LoopConfig{Fd: uint32(file.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	// Another process may take the device that is free.
	for range 10 {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("free loop device: %w", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), config); err == nil {
			s.attached[id] = device
			return device, nil
		}
		_ = device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("attach %s as %s: %w", id, device.Name(), err)
		}
	}
	return nil, fmt.Errorf("attach %s: every loop device is in use", id)
}

// detach gives the loop device back.
func (s *storage) detach(id string) error {
	device := s.attached[id]
	delete(s.attached, id)
	if device == nil {
		return nil
	}
	return device.Close()
}

// stage attaches a disk, and mounts its file system, which it makes or grows before. A volume that is a device stays as it is.
func (s *storage) stage(id, target string, capability *csi.VolumeCapability) error {
	device, err := s.attach(id)
	if err != nil || capability.GetMount() == nil {
		return err
	}
	if is, err := isMount(target); err != nil || is {
		return err
	}
	kind, err := prepare(device, capability.GetMount().FsType)
	if err != nil {
		return err
	}
	options := capability.GetMount().MountFlags
	if kind == "xfs" {
		// The kernel would refuse a disk that is made from a snapshot of a mounted one: both have the same UUID. The EBS driver has this option, too
		// (openshift/aws-ebs-csi-driver 8b8c4cef0, pkg/driver/node.go).
		options = append(slices.Clone(options), "nouuid")
	}
	flags, data := mountFlags(options)
	if err := unix.Mount(device.Name(), target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s of %s at %s: %w", device.Name(), id, target, err)
	}
	if kind == "xfs" {
		return run("xfs_growfs", target)
	}
	return nil
}

// prepare makes a file system of the kind that is asked for, unless there is one. One of ext4 grows to the size of its disk.
func prepare(device *os.File, wanted string) (kind string, err error) {
	begin := make([]byte, 2048)
	if _, err := device.ReadAt(begin, 0); err != nil {
		return "", err
	}
	// Both have a number by which they are known: Linux, fs/ext4/ext4.h and fs/xfs/libxfs/xfs_format.h.
	super := begin[1024:]
	switch {
	case bytes.HasPrefix(begin, []byte("XFSB")):
		return "xfs", nil
	case binary.LittleEndian.Uint16(super[56:]) != 0xEF53:
		kind = cmp.Or(wanted, "ext4")
		return kind, run("mkfs."+kind, device.Name())
	}
	size, err := device.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	block := int64(1024) << binary.LittleEndian.Uint32(super[24:])
	if int64(binary.LittleEndian.Uint32(super[4:])) >= size/block {
		return "ext4", nil
	}
	return "ext4", errors.Join(run("e2fsck", "-fp", device.Name()), run("resize2fs", device.Name()))
}

// mountFlags are mount options as the kernel has them. Options of file systems stay words.
func mountFlags(options []string) (flags uintptr, data string) {
	known := map[string]uintptr{"dirsync": unix.MS_DIRSYNC, "noatime": unix.MS_NOATIME, "ro": unix.MS_RDONLY, "sync": unix.MS_SYNCHRONOUS}
	var others []string
	for _, option := range options {
		if flag, is := known[option]; is {
			flags |= flag
		} else {
			others = append(others, option)
		}
	}
	return flags, strings.Join(others, ",")
}

// publish shows a pod what was staged, a folder, or a device. Of mount options, a folder has noatime.
func (s *storage) publish(in *csi.NodePublishVolumeRequest) error {
	source := in.StagingTargetPath
	if !s.disks {
		source = s.path(in.VolumeId)
	}
	if in.VolumeCapability.GetBlock() != nil {
		device, err := s.attach(in.VolumeId)
		if err != nil {
			return err
		}
		source = device.Name()
		file, err := os.OpenFile(in.TargetPath, os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	} else if err := os.MkdirAll(in.TargetPath, 0o750); err != nil {
		return err
	}
	if is, err := isMount(in.TargetPath); err != nil || is {
		return err
	}
	attributes := unix.MountAttr{}
	if !s.disks && slices.Contains(in.VolumeCapability.GetMount().GetMountFlags(), "noatime") {
		attributes = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOATIME, Attr_clr: unix.MOUNT_ATTR__ATIME}
	}
	if in.Readonly {
		attributes.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return bind(source, in.TargetPath, attributes)
}

// bind mounts a folder or a file at another place. What a mount has before it is attached, its copies in other mount namespaces have, too.
func bind(source, target string, attributes unix.MountAttr) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("copy the mount of %s: %w", source, err)
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
		return fmt.Errorf("options of the mount of %s: %w", source, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, target, err)
	}
	return nil
}

// expand makes an attached disk as large as its file, and its file system, too. ext4 grows under a mount only for who has CAP_SYS_RESOURCE (Linux,
// fs/ext4/resize.c, ext4_resize_begin). Without that it grows when the volume is staged again.
func (s *storage) expand(id, target string) (int64, error) {
	info, err := os.Stat(s.path(id))
	if err != nil || !s.disks {
		return 0, err
	}
	device := s.attached[id]
	if device == nil {
		return info.Size(), nil
	}
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return 0, fmt.Errorf("size of %s: %w", device.Name(), err)
	}
	var at unix.Statfs_t
	if err := unix.Statfs(target, &at); err != nil {
		return 0, err
	}
	switch at.Type {
	case unix.XFS_SUPER_MAGIC:
		return info.Size(), run("xfs_growfs", target)
	case unix.EXT4_SUPER_MAGIC:
		if err := run("resize2fs", device.Name()); err != nil {
			if !strings.Contains(err.Error(), "Permission denied") {
				return 0, err
			}
			fmt.Println("the file system grows when the volume is staged again:", err)
		}
	}
	return info.Size(), nil
}

// isMount reports whether something is mounted at a path, also if that is a file or of the same file system as the folder above.
func isMount(path string) (bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true, nil
		}
	}
	return false, nil
}
