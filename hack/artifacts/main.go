// Command artifacts builds the downloads of a release. These are an archive of the plugin for each platform, the SBOMs of the plugin, checksums,
// and a manifest for krew.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/blang/semver/v4"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/artifact"
	"github.com/csi-operators/csi-operators/internal/release/image"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:], image.GoProgram); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// compiler builds a program of a module.
type compiler func(ctx context.Context, module, pkg string, target image.Target) ([]byte, error)

// builder builds the files of a release.
type builder struct {
	release release.Release
	license []byte
	// folder is the folder of the repository. pkg is the package of the plugin in the repository.
	folder, pkg string
	compile     compiler
	out         io.Writer
}

func run(ctx context.Context, out io.Writer, args []string, compile compiler) error {
	flags := flag.NewFlagSet("artifacts", flag.ContinueOnError)
	repository := flags.String("repository", ".", "`folder` of the repository")
	pkg := flags.String("package", "./cmd/"+release.Plugin, "Go `package` of the plugin")
	output := flags.String("output", "bin/release", "`folder` for the files; its content is replaced")
	draft := flags.Bool("draft", false, "build files to try, with -draft in their version; images may lack digests")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	current, err := release.Load(os.DirFS(*repository))
	if err != nil {
		return err
	}
	if *draft {
		current.Version.Pre = []semver.PRVersion{{VersionStr: "draft"}}
	} else if err := current.CheckDigests(); err != nil {
		return fmt.Errorf("%w\nto build files for a trial, without this check: make release-artifacts DRAFT=1", err)
	}
	license, err := os.ReadFile(filepath.Join(*repository, "LICENSE"))
	if err != nil {
		return fmt.Errorf("license of the plugin: %w", err)
	}
	b := builder{release: current, license: license, folder: *repository, pkg: *pkg, compile: compile, out: out}
	files, err := b.all(ctx)
	if err != nil {
		return err
	}
	return write(*output, files)
}

// all returns the files of the release, by name.
func (b builder) all(ctx context.Context) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, platform := range release.Platforms() {
		if err := b.one(ctx, platform, files); err != nil {
			return nil, err
		}
	}
	manifest, err := artifact.Krew(b.release, files)
	if err != nil {
		return nil, err
	}
	files[artifact.KrewFile] = manifest
	files[artifact.Sums] = artifact.Checksums(files)
	return files, nil
}

// one builds the archive and the SBOM for a platform.
func (b builder) one(ctx context.Context, platform release.Platform, files map[string][]byte) error {
	binary, err := b.compile(ctx, b.folder, b.pkg, image.Target{
		OS: platform.OS, Architecture: platform.Architecture, Variables: map[string]string{release.PluginVersion: b.release.Tag()},
	})
	if err != nil {
		return err
	}
	name := b.release.PluginArchive(platform)
	if files[name], err = artifact.Plugin(platform, binary, b.license); err != nil {
		return err
	}
	list := b.release.PluginName(platform) + ".spdx.json"
	if files[list], err = image.SPDX(binary, release.Plugin, b.release.Version.String(), b.release.Download(name)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.out, "%-44s %6.1f MB\n", name, float64(len(files[name]))/1e6)
	return err //nolint:wrapcheck // Nobody reads what cannot be written.
}

// write replaces the content of a folder, so that files of an earlier version are not published.
func write(folder string, files map[string][]byte) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the last release: %w", err)
	}
	//nolint:gosec // Everybody may read what is published.
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("folder of the release: %w", err)
	}
	for name, content := range files {
		//nolint:gosec // Everybody may read what is published.
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
