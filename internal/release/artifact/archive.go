// Package artifact builds the downloads of a release. These are archives with a program, checksums and a manifest for krew. If the program is the
// same, all bytes of the downloads are the same.
package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"
)

// Modes of the files in an archive. The user who unpacks the archive owns the files.
const (
	ModeFile    fs.FileMode = 0o644
	ModeProgram fs.FileMode = 0o755
)

// File is one file of an archive.
type File struct {
	Name    string
	Mode    fs.FileMode
	Content []byte
}

// modified returns the modification time of every file. It is the first day that the zip format can express. Some programs warn about earlier times.
func modified() time.Time { return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) }

// sorted sorts the files. It refuses a name that contains a folder, and two files with the same name.
func sorted(files []File) ([]File, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i, file := range files {
		if !fs.ValidPath(file.Name) || file.Name != path.Base(file.Name) || file.Name == "." {
			return nil, fmt.Errorf("file %q: an archive can't contain folders: name the file %q", file.Name, path.Base(file.Name))
		}
		if i > 0 && files[i-1].Name == file.Name {
			return nil, fmt.Errorf("file %s: the archive has this file twice", file.Name)
		}
	}
	return files, nil
}

// TarGz packs files for Linux and macOS. The archive has no links, because krew unpacks none.
func TarGz(files []File) ([]byte, error) {
	files, err := sorted(files)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&text, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	writer := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{
			Name: file.Name, Typeflag: tar.TypeReg, Mode: int64(file.Mode), Size: int64(len(file.Content)), ModTime: modified(), Format: tar.FormatUSTAR,
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("file %s: %w", file.Name, err)
		}
		if _, err := writer.Write(file.Content); err != nil {
			return nil, fmt.Errorf("file %s: %w", file.Name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("end of the archive: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return nil, fmt.Errorf("end of the archive: %w", err)
	}
	return text.Bytes(), nil
}

// Zip packs files for Windows.
func Zip(files []File) ([]byte, error) {
	files, err := sorted(files)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	writer := zip.NewWriter(&text)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: modified()}
		header.SetMode(file.Mode)
		entry, err := writer.CreateHeader(header)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", file.Name, err)
		}
		if _, err := entry.Write(file.Content); err != nil {
			return nil, fmt.Errorf("file %s: %w", file.Name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("end of the archive: %w", err)
	}
	return text.Bytes(), nil
}
