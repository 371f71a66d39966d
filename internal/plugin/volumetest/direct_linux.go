package volumetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// readDirect reads a file with O_DIRECT, so that the data comes from the disk or the server. A normal read after a write would return the data from
// the memory of the node. If the file system has no O_DIRECT, open(2) or read(2) fails with EINVAL, and readDirect returns errors.ErrUnsupported.
func readDirect(name string, size int) ([]byte, error) {
	file, err := os.OpenFile(filepath.Clean(name), os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return nil, unsupported(err)
	}
	defer func() { _ = file.Close() }()
	// A disk copies whole blocks only, to memory that begins at a block.
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", size, err)
	}
	defer func() { _ = syscall.Munmap(memory) }()
	if _, err := io.ReadFull(file, memory); err != nil {
		return nil, unsupported(err)
	}
	return bytes.Clone(memory), nil
}

func unsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) {
		return errors.ErrUnsupported
	}
	return err
}
