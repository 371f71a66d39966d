package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
)

// current reports whether the layout of a program's image is current. A current layout exists, and the same builder made it from the same program. If
// the layout is not current, current removes the record of the layout, because a build that fails can leave half a layout. Result "keep" is a
// function that writes the record for the next call.
func (b builder) current(ctx context.Context, described release.Image) (is bool, keep func() error, err error) {
	if len(b.architectures) != 1 {
		return false, nil, errors.New("-changed is for one architecture: name it with -arch")
	}
	target := image.Target{Architecture: b.architectures[0]}
	id, err := image.BuildID(ctx, b.folder, "./cmd/"+described.Name, target)
	if err != nil {
		return false, nil, err
	}
	own, err := ownBuildID(ctx)
	if err != nil {
		return false, nil, err
	}
	record := filepath.Join(b.output, "."+described.Name+".built")
	text, err := os.ReadFile(filepath.Clean(record))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil, fmt.Errorf("what the image was made of: %w", err)
	}
	made := fmt.Sprintln(id, own, b.release.Version, target)
	_, missing := os.Stat(filepath.Join(b.output, described.Name, "index.json"))
	if missing == nil && string(text) == made {
		return true, nil, nil
	}
	if err := os.Remove(record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, nil, fmt.Errorf("what the image was made of: %w", err)
	}
	return false, func() error { return os.WriteFile(record, []byte(made), 0o600) }, nil
}

// ownBuildID returns the build ID of this program. The ID changes only if the program changes.
func ownBuildID(ctx context.Context) (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	id, err := exec.CommandContext(ctx, "go", "tool", "buildid", executable).Output() //nolint:gosec // It is this program.
	if err != nil {
		return "", fmt.Errorf("read the build ID of %s: %w", executable, err)
	}
	return strings.TrimSpace(string(id)), nil
}
