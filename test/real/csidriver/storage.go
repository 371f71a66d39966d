package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// storage keeps what volumes and snapshots hold: each is a folder or a disk, with its ID as its name. A disk is a file with holes, which is attached as
// a loop device.
type storage struct {
	folder string
	disks  bool
	// attached are the loop devices of disks. The kernel detaches a device when its last user has closed it, this process included.
	attached map[string]*os.File
}

func newStorage(folder string, disks bool) (*storage, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("--storage: %w", err)
	}
	return &storage{folder: folder, disks: disks, attached: map[string]*os.File{}}, nil
}

// path is where a volume or a snapshot is.
func (s *storage) path(id string) string { return filepath.Join(s.folder, filepath.Base(id)) }

// refuse returns an error if a share is to be a device. So does the EFS driver (aws-efs-csi-driver v3.4.1, pkg/driver/node.go, validateAccessType).
func (s *storage) refuse(capabilities []*csi.VolumeCapability) error {
	if s == nil || s.disks {
		return nil
	}
	for _, capability := range capabilities {
		if capability.GetBlock() != nil {
			return status.Error(codes.InvalidArgument, "a share can't be a block device: set volumeMode Filesystem")
		}
	}
	return nil
}

// create makes a volume, as a copy if there is something to copy.
func (s *storage) create(id string, source *csi.VolumeContentSource, size int64) error {
	if s == nil {
		return nil
	}
	if from := cmp.Or(source.GetSnapshot().GetSnapshotId(), source.GetVolume().GetVolumeId()); from != "" {
		if err := s.copy(from, id); err != nil {
			return err
		}
		return s.grow(id, size)
	}
	if !s.disks {
		if err := os.Mkdir(s.path(id), 0o755); err != nil {
			return err
		}
		// Any user of a pod may write to a share.
		return os.Chmod(s.path(id), 0o777)
	}
	file, err := os.OpenFile(s.path(id), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// open makes the volume of an access point that a person has made in AWS. No driver is asked to create it. The handle is that of the EFS driver
// (aws-efs-csi-driver v3.4.1, pkg/driver/node.go, parseVolumeId), with IDs as AWS makes them. This driver believes that the access point exists.
func (s *storage) open(id string) error {
	if s.disks || !regexp.MustCompile(`^fs-[0-9a-f]{8,40}::fsap-[0-9a-f]{8,40}$`).MatchString(id) {
		return nil
	}
	if err := os.Mkdir(s.path(id), 0o755); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(s.path(id), 0o777)
}

// copy copies a volume or a snapshot with all that was written to it before.
func (s *storage) copy(from, to string) error {
	if s == nil {
		return nil
	}
	if s.disks {
		if err := copyDisk(s.path(from), s.path(to)); err != nil {
			return errors.Join(fmt.Errorf("copy %s: %w", from, err), s.remove(to))
		}
		return nil
	}
	if output, err := exec.Command("cp", "-a", s.path(from), s.path(to)).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("copy %s: %w: %s", from, err, output), s.remove(to))
	}
	return nil
}

// grow makes a disk larger. Folders have no size.
func (s *storage) grow(id string, size int64) error {
	if s == nil || !s.disks {
		return nil
	}
	return os.Truncate(s.path(id), size)
}

func (s *storage) remove(id string) error {
	if s == nil {
		return nil
	}
	return os.RemoveAll(s.path(id))
}

// run runs a program that makes, checks or grows a file system. e2fsck has 1 for a file system that it has mended.
func run(program string, args ...string) error {
	output, err := exec.Command(program, args...).CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) && program == "e2fsck" && failed.ExitCode() == 1 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w: %s", program, args, err, output)
	}
	return nil
}
