package image

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// fips is the version of Go's cryptographic module in our programs. A program with this module has fips140=on as its default.
const fips = "v1.0.0"

// Tags keeps Go's package plugin out of our programs. With package plugin, the linker keeps every method of every type. cli-runtime uses kustomize,
// which uses package plugin unless this build tag is set (sigs.k8s.io/kustomize/api v0.21.1 internal/plugins/loader; cmd/link of Go 1.26,
// internal/ld/deadcode.go).
const Tags = "kustomize_disable_go_plugin_support"

// Target is the platform of a build.
type Target struct {
	// OS and Architecture are the names that Go uses. If OS is empty, the target is Linux.
	OS, Architecture string
	// Variables are the values of variables that the linker sets, by names such as main.release.
	Variables map[string]string
	// ToolExec is a command that runs Go's tools, as flag -toolexec of Go does. It does not change the program. If it is empty, Go runs its tools.
	ToolExec string
}

// String returns the target as Go writes it.
func (t Target) String() string { return cmp.Or(t.OS, "linux") + "/" + t.Architecture }

// linkerFlags returns flags that remove the symbols, and all other bytes that differ between two builds of the same program.
func (t Target) linkerFlags() string {
	flags := "-s -w -buildid="
	for _, name := range slices.Sorted(maps.Keys(t.Variables)) {
		flags += " -X " + name + "=" + t.Variables[name]
	}
	return flags
}

// command returns a Go command that runs in the folder of a module. It sets every environment variable that could make two builds differ.
func (t Target) command(ctx context.Context, module, verb string, args ...string) *exec.Cmd {
	//nolint:gosec // The arguments come from our own programs.
	command := exec.CommandContext(ctx, "go", append([]string{verb, "-trimpath", "-buildvcs=false", "-tags", Tags}, args...)...)
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+cmp.Or(t.OS, "linux"), "GOARCH="+t.Architecture, "GOFIPS140="+fips,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "GODEBUG=")
	return command
}

// Compile compiles the packages of a module's programs, so that GoProgram only has to link them.
func Compile(ctx context.Context, module string, target Target, packages ...string) error {
	if text, err := target.command(ctx, module, "list", append([]string{"-export", "-deps"}, packages...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for %s: %w\n%s", strings.Join(packages, " "), target, err, text)
	}
	return nil
}

// BuildID returns the same text as long as GoProgram would build the same program. It compiles the program, and does not link it.
func BuildID(ctx context.Context, module, pkg string, target Target) (string, error) {
	text, err := target.command(ctx, module, "list", "-export", "-f", "{{.BuildID}}", pkg).Output()
	if err != nil {
		return "", fmt.Errorf("compile %s for %s: %w", pkg, target, err)
	}
	return target.linkerFlags() + " " + strings.TrimSpace(string(text)), nil
}

// GoProgram builds a program of a module, and returns the content of the program's file.
func GoProgram(ctx context.Context, module, pkg string, target Target) ([]byte, error) {
	folder, err := os.MkdirTemp("", "go-program-")
	if err != nil {
		return nil, fmt.Errorf("folder for %s: %w", pkg, err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // It is a temporary folder; what was built has been read.
	output := filepath.Join(folder, "program")
	args := []string{"-ldflags", target.linkerFlags(), "-toolexec", target.ToolExec, "-o", output, pkg}
	if text, err := target.command(ctx, module, "build", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s for %s: %w\n%s", pkg, target, err, text)
	}
	binary, err := os.ReadFile(filepath.Clean(output))
	if err != nil {
		return nil, fmt.Errorf("build %s for %s: %w", pkg, target, err)
	}
	return binary, nil
}
