package collect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// errName is the error for a file that would be outside of the archive's folder, because its path contains, for instance, "..".
var errName = errors.New("is left out: its path contains a name such as .., which would put the file outside of the archive's folder")

// archive is a .tar.gz file that gets its final name only when it is complete. So an interrupt leaves no broken archive.
type archive struct {
	name   string
	folder string
	file   *os.File
	zip    *gzip.Writer
	tar    *tar.Writer
	now    time.Time
	files  int
}

func newArchive(name string, now time.Time) (*archive, error) {
	if _, err := os.Stat(name); err == nil {
		return nil, fmt.Errorf("%s exists: choose another name with --file", name)
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".oc-storage-*.partial")
	if err != nil {
		return nil, fmt.Errorf("create the archive: %w", err)
	}
	zip := gzip.NewWriter(file)
	folder := strings.TrimSuffix(filepath.Base(name), ".tar.gz")
	return &archive{name: name, folder: folder, file: file, zip: zip, tar: tar.NewWriter(zip), now: now}, nil
}

// add adds a file to the archive. The file's name contains names from the API server. If such a name would put the file outside of the archive's
// folder, add returns errName.
func (a *archive) add(name string, content []byte) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) {
		return fmt.Errorf("%q %w", name, errName)
	}
	header := &tar.Header{Name: path.Join(a.folder, name), Mode: 0o600, Size: int64(len(content)), ModTime: a.now, Typeflag: tar.TypeReg}
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s into the archive: %w", name, err)
	}
	if _, err := io.Copy(a.tar, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("write %s into the archive: %w", name, err)
	}
	a.files++
	return nil
}

func (a *archive) close() error {
	for _, part := range []io.Closer{a.tar, a.zip, a.file} {
		if err := part.Close(); err != nil {
			return fmt.Errorf("complete the archive: %w", err)
		}
	}
	if err := os.Rename(a.file.Name(), a.name); err != nil {
		return fmt.Errorf("complete the archive: %w", err)
	}
	return nil
}

// drop removes an incomplete archive. After close, drop does nothing.
func (a *archive) drop() {
	_ = a.file.Close()
	_ = os.Remove(a.file.Name())
}
