// Command images builds those images of a release that need no container engine, as OCI layouts. For the other images, it prints the commands
// that build them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type builder struct {
	release    release.Release
	repository fs.FS
	license    []byte
	// folder is the folder of the repository. bundles is the folder that "make bundle" writes.
	folder, bundles, output string
	architectures           []string
	// tree is a folder. If it is set, the command writes the files of an image into this folder, and writes no layout.
	tree string
	// changed means that an image is built only if its program has changed.
	changed bool
	// authorities is a file with CA certificates for the registry that serves the bases. It is empty if this machine trusts that registry.
	authorities string
	out         io.Writer
}

// kinds returns the functions that build images, by the names of the images in images.yaml. All other images come from other publishers, or need a
// container engine.
func kinds() map[string]func(builder, context.Context, string, image.About) (v1.Image, error) {
	return map[string]func(builder, context.Context, string, image.About) (v1.Image, error){
		"aws-efs-csi-driver-operator":        builder.program,
		"aws-efs-node-health":                builder.program,
		"cluster-storage-operator":           builder.program,
		"csi-driver-operator":                builder.program,
		"aws-efs-csi-driver-operator-bundle": packaged("aws-efs-csi-driver-operator", image.Bundle),
		"aws-efs-operator-bundle":            packaged("aws-efs-operator", image.Bundle),
		"csi-operators-catalog":              packaged("catalog", image.Catalog),
		release.Plugin:                       builder.program,
		servedCatalog:                        builder.served,
		mustGather:                           builder.gathering,
		storageTests:                         builder.storageTests,
	}
}

// Images that are built only if -only names them, because their bases come from a registry.
const (
	servedCatalog = "csi-operators-catalog-opm"
	mustGather    = release.MustGather
	// storageTests is in no release.
	storageTests = "efs-storage-tests"
)

// onRequest reports whether an image is built only if -only names it.
func onRequest(name string) bool {
	return name == servedCatalog || name == mustGather || name == storageTests
}

// base pulls a base for an architecture.
func (b builder) base(ctx context.Context, name, architecture string) (v1.Image, error) {
	found, err := b.release.FindBase(name)
	if err != nil {
		return nil, err
	}
	transport, err := image.Transport(b.authorities)
	if err != nil {
		return nil, err
	}
	return image.Pull(ctx, found.PullSpec(), architecture, remote.WithTransport(transport), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// gathering builds the image that "oc adm must-gather" runs.
func (b builder) gathering(ctx context.Context, _ string, about image.About) (v1.Image, error) {
	return b.pluginOn(ctx, "must-gather", about, image.MustGather)
}

// storageTests builds the image in which a CI runs Kubernetes' storage tests.
func (b builder) storageTests(ctx context.Context, _ string, about image.About) (v1.Image, error) {
	manifests, err := fs.Sub(b.repository, "test/e2e/storage")
	if err != nil {
		return nil, fmt.Errorf("manifests of the storage tests: %w", err)
	}
	return b.pluginOn(ctx, "rhel9", about, func(about image.About, base v1.Image, plugin, sbom []byte) (v1.Image, error) {
		return image.StorageTests(about, base, plugin, sbom, manifests)
	})
}

// pluginOn builds an image of a base and the plugin.
func (b builder) pluginOn(
	ctx context.Context, baseName string, about image.About, build func(about image.About, base v1.Image, plugin, sbom []byte) (v1.Image, error),
) (v1.Image, error) {
	base, err := b.base(ctx, baseName, about.Architecture)
	if err != nil {
		return nil, err
	}
	plugin, sbom, err := b.compiled(ctx, release.Plugin, about)
	if err == nil {
		about.Build, err = image.BuildLabels(plugin)
	}
	if err != nil {
		return nil, err
	}
	return build(about, base, plugin, sbom)
}

// served builds an image of opm with the catalog. Clusters whose OLM needs opm in the image use this image.
func (b builder) served(ctx context.Context, _ string, about image.About) (v1.Image, error) {
	base, err := b.base(ctx, "opm", about.Architecture)
	if err != nil {
		return nil, err
	}
	build := func(about image.About, folder fs.FS) (v1.Image, error) {
		return image.ServedCatalog(about, base, folder)
	}
	return packaged("catalog", build)(b, ctx, "", about)
}

// packaged builds an image from a folder that "make bundle" has written.
func packaged(
	name string, build func(image.About, fs.FS) (v1.Image, error),
) func(builder, context.Context, string, image.About) (v1.Image, error) {
	return func(b builder, _ context.Context, _ string, about image.About) (v1.Image, error) {
		folder := filepath.Join(b.bundles, name)
		if _, err := os.Stat(folder); err != nil {
			return nil, fmt.Errorf("%w: run make bundle first", err)
		}
		return build(about, os.DirFS(folder))
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	repository := flags.String("repository", ".", "`folder` of the repository")
	bundles := flags.String("bundles", "bundle", "`folder` with the bundles and the catalog that make bundle writes")
	list := flags.String("list", "", "`file` with the list of images; default: "+release.ImagesFile+" of the repository")
	output := flags.String("output", "bin/images", "`folder` for the OCI layouts, one for each image")
	architectures := flags.String("arch", "amd64,arm64", "comma-separated `list` of architectures, as values of GOARCH")
	authorities := flags.String("ca", "",
		"`file` with the CA certificates of the registry that has the base images, if the machine does not trust this CA")
	only := flags.String("only", "", "`list` of images, by their names in images/images.yaml; default: all")
	compile := flags.Bool("compile", false, "only compile what the programs are made of, so that they are built in seconds")
	tree := flags.String("tree", "",
		"`folder` to write the image's files into, instead of a layout; requires one image in -only and one architecture in -arch")
	changed := flags.Bool("changed", false, "only build images whose program has changed; programs only, for one -arch")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	b := builder{
		repository: os.DirFS(*repository), folder: *repository, bundles: *bundles, output: *output,
		architectures: split(*architectures), tree: *tree, changed: *changed, authorities: *authorities, out: out,
	}
	var err error
	if b.release, err = release.Load(b.repository); err != nil {
		return err
	}
	if *list != "" {
		text, err := os.ReadFile(filepath.Clean(*list))
		if err == nil {
			b.release, err = release.Parse(text, b.release.Version)
		}
		if err != nil {
			return fmt.Errorf("list of images %s: %w", *list, err)
		}
	}
	if b.license, err = fs.ReadFile(b.repository, "LICENSE"); err != nil {
		return fmt.Errorf("license of the images: %w", err)
	}
	if len(b.architectures) == 0 {
		return errors.New("-arch is empty: name at least one architecture, such as amd64")
	}
	if *compile {
		return b.compile(ctx)
	}
	if b.changed {
		return b.all(ctx, split(*only))
	}
	if b.tree != "" {
		if len(b.architectures) != 1 || len(split(*only)) != 1 {
			return errors.New("-tree is for one image: name it with -only, and its architecture with -arch")
		}
		return b.all(ctx, split(*only))
	}
	return errors.Join(b.all(ctx, split(*only)), b.others())
}

func (b builder) compile(ctx context.Context) error {
	packages := []string{}
	for _, described := range b.release.All() {
		if _, err := fs.Stat(b.repository, "cmd/"+described.Name); err == nil && kinds()[described.Name] != nil {
			packages = append(packages, "./cmd/"+described.Name)
		}
	}
	for _, architecture := range b.architectures {
		if err := image.Compile(ctx, b.folder, image.Target{Architecture: architecture}, packages...); err != nil {
			return err
		}
	}
	return nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// all builds the images that need no container engine. If only has names, all builds just these images. After a failure, it continues with the
// next image.
func (b builder) all(ctx context.Context, only []string) error {
	for _, name := range only {
		if kinds()[name] == nil {
			return fmt.Errorf("-only: %s needs a container engine, so this command does not build it: omit the name", name)
		}
	}
	var problems []error
	for _, described := range append(b.release.All(), release.Image{Name: storageTests, Image: "localhost/" + storageTests + ":" + b.release.Tag()}) {
		named := slices.Contains(only, described.Name)
		if kinds()[described.Name] == nil || (len(only) > 0 && !named) || (onRequest(described.Name) && !named) {
			continue
		}
		if err := b.one(ctx, described); err != nil {
			problems = append(problems, fmt.Errorf("image %s: %w", described.Name, err))
		}
	}
	return errors.Join(problems...)
}

func (b builder) one(ctx context.Context, described release.Image) error {
	keep := func() error { return nil }
	if b.changed {
		isCurrent, written, err := b.current(ctx, described)
		if err != nil || isCurrent {
			return err
		}
		keep = written
	}
	var built []v1.Image
	for _, architecture := range b.architectures {
		about := image.About{
			Title: described.Name, Version: b.release.Version.String(), License: b.license, Architecture: architecture,
		}
		image, err := kinds()[described.Name](b, ctx, described.Name, about)
		if err != nil {
			return err
		}
		built = append(built, image)
	}
	if b.tree != "" {
		return image.Unpack(built[0], b.tree)
	}
	folder := filepath.Join(b.output, described.Name)
	written, err := image.WriteLayout(folder, described.Image, built)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.out, "%-36s %s %7.1f MB  %s  %s\n", described.Name, written.Digest, float64(written.Size)/1e6,
		strings.Join(b.architectures, ","), folder)
	return errors.Join(err, keep())
}

// program builds the image of a Go program, with the program's SBOM.
func (b builder) program(ctx context.Context, name string, about image.About) (v1.Image, error) {
	binary, sbom, err := b.compiled(ctx, name, about)
	if err == nil {
		about.Build, err = image.BuildLabels(binary)
	}
	if err != nil {
		return nil, err
	}
	return image.Program(about, name, binary, sbom)
}

// compiled returns a program and its SBOM. It also writes the SBOM beside the layout, so that scanners need not unpack the image.
func (b builder) compiled(ctx context.Context, name string, about image.About) (binary, sbom []byte, err error) {
	target := image.Target{Architecture: about.Architecture}
	if name == release.Plugin {
		target.Variables = map[string]string{release.PluginVersion: b.release.Tag()}
	}
	if binary, err = image.GoProgram(ctx, b.folder, "./cmd/"+name, target); err != nil {
		return nil, nil, err
	}
	if sbom, err = image.SBOM(binary, name, about.Version); err != nil {
		return nil, nil, err
	}
	file := filepath.Join(b.output, fmt.Sprintf("%s-%s.cdx.json", about.Title, about.Architecture))
	if err := os.MkdirAll(b.output, 0o750); err != nil {
		return nil, nil, fmt.Errorf("folder for the SBOM: %w", err)
	}
	if err := os.WriteFile(file, sbom, 0o600); err != nil {
		return nil, nil, fmt.Errorf("write the SBOM: %w", err)
	}
	return binary, sbom, nil
}

// others prints the commands for images that need a Containerfile.
func (b builder) others() error {
	driver, err := b.release.FindBuilt("aws-efs-csi-driver")
	if err != nil {
		return err
	}
	// This image is only the base of the driver's image. It goes to no registry.
	base := "localhost/aws-efs-utils:" + b.release.Tag()
	arguments := map[string]string{}
	for _, one := range b.release.Bases {
		arguments[one.Argument] = fmt.Sprintf("--build-arg %s=%s", one.Argument, one.PullSpec())
	}
	_, err = fmt.Fprintf(b.out, `
The catalog for OpenShift 4.15 to 4.20 and the image for oc adm must-gather are built on images that are pulled:
  make catalog-image must-gather-image
The driver's own image needs a container engine, and a base that stays on this machine:
  podman build --file images/aws-efs-utils/Containerfile %[3]s %[4]s --tag %[1]s .
  podman build --file images/aws-efs-csi-driver/Containerfile --build-arg BASE_IMAGE=%[1]s %[5]s --tag %[2]s .
`, base, driver.Image, arguments["BASE_IMAGE"], arguments["RUST_IMAGE"], arguments["GO_IMAGE"])
	return err //nolint:wrapcheck // Nobody reads what cannot be written.
}
