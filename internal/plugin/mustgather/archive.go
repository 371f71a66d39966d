package mustgather

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// mostInArchive limits the unpacked size of an archive, because a small archive can unpack to any size.
const mostInArchive = 2 << 30

// isArchive reports whether the name of a file is that of a compressed tar archive. "oc storage collect" writes such archives.
func isArchive(path string) bool {
	return strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz")
}

// readArchive reads the objects and the logs of an archive without unpacking the archive to disk. Result "files" is the number of files with objects.
func (f *Folder) readArchive(path string) (files int, err error) {
	file, err := os.Open(path) //nolint:gosec // The user names the file.
	if err != nil {
		return 0, fmt.Errorf("open it: %w", err)
	}
	defer func() { _ = file.Close() }()
	zip, err := gzip.NewReader(file)
	if err != nil {
		return 0, fmt.Errorf("the archive is not a .tar.gz file: %w", err)
	}
	limited := &io.LimitedReader{R: zip, N: mostInArchive}
	for archive := tar.NewReader(limited); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return files, nil
		}
		if err != nil {
			return files, fmt.Errorf("the archive is incomplete, or unpacks to more than %d GiB: %w", mostInArchive>>30, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		f.dated(header.ModTime)
		switch {
		case holdsObjects(header.Name):
			files++
			if header.Size > largestFile {
				return files, &tooLargeError{path: header.Name, size: header.Size}
			}
			data, err := io.ReadAll(archive)
			if err != nil {
				return files, fmt.Errorf("read %s: %w", header.Name, err)
			}
			f.takeFile(header.Name, data)
		case holdsLog(header.Name):
			text, err := tail(archive)
			if err != nil {
				return files, fmt.Errorf("read %s: %w", header.Name, err)
			}
			f.takeLog(header.Name, text)
		}
	}
}
