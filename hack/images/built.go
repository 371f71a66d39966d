package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
)

// current reports whether the layout of a program's image exists and has the same program. keep records the program for the next call.
func (b builder) current(ctx context.Context, described release.Image) (is bool, keep func() error, err error) {
	if len(b.architectures) != 1 {
		return false, nil, errors.New("-changed is for one architecture: name it with -arch")
	}
	target := image.Target{Architecture: b.architectures[0]}
	id, err := image.BuildID(ctx, b.folder, "./cmd/"+described.Name, target)
	if err != nil {
		return false, nil, err
	}
	record := filepath.Join(b.output, "."+described.Name+".built")
	text, err := os.ReadFile(filepath.Clean(record))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil, fmt.Errorf("what the image was made of: %w", err)
	}
	made := fmt.Sprintln(id, b.release.Version, target)
	_, missing := os.Stat(filepath.Join(b.output, described.Name, "index.json"))
	return missing == nil && string(text) == made, func() error { return os.WriteFile(record, []byte(made), 0o600) }, nil
}
