package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// fips is the version of Go's cryptographic module that programs are built with. A program that is built with it also uses it:
// fips140=on becomes its default.
const fips = "v1.0.0"

// GoProgram builds a program of the module in a folder for an architecture, and returns its content. All that could make two
// builds differ, or that the environment could change, is set.
func GoProgram(ctx context.Context, module, pkg, architecture string) ([]byte, error) {
	folder, err := os.MkdirTemp("", "go-program-")
	if err != nil {
		return nil, fmt.Errorf("folder for %s: %w", pkg, err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // It is a temporary folder; what was built has been read.
	output := filepath.Join(folder, "program")
	//nolint:gosec // The arguments come from our own programs.
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", output, pkg)
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOFIPS140="+fips,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "GODEBUG=")
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s for %s: %w\n%s", pkg, architecture, err, text)
	}
	binary, err := os.ReadFile(filepath.Clean(output))
	if err != nil {
		return nil, fmt.Errorf("build %s for %s: %w", pkg, architecture, err)
	}
	return binary, nil
}
