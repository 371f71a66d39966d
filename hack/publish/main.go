// Command publish builds a release, pushes it to a registry of the user, and writes the files that install it from there.
//
// publish builds all images before it pushes the first, because each bundle and catalog names other images by digest. It pushes all images by digest
// before it sets their tags. So if the push of an image fails, no image has its tag yet, and the user can repeat the same command.
package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/internal/release/payload"
)

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// programs returns the names that images/images.yaml gives to the images with a program. publish builds these images first, because the bundles refer
// to them by digest. The catalogs refer to the bundles by digest.
func programs() []string {
	return []string{"aws-efs-csi-driver-operator", "aws-efs-node-health", "cluster-storage-operator", "csi-driver-operator", release.Plugin}
}

// bases returns the bases from registries on which publish builds.
func bases() []string { return []string{"opm", "must-gather"} }

func bundles() []string {
	return []string{"aws-efs-csi-driver-operator-bundle", "aws-efs-operator-bundle"}
}

const (
	catalog       = "csi-operators-catalog"
	servedCatalog = "csi-operators-catalog-opm"
	driver        = "aws-efs-csi-driver"
)

type publisher struct {
	repository, registry, output, architectures string
	// upstream is a registry and a path with copies of the images that others publish. If it is empty, the release names these images in the registries
	// of their publishers.
	upstream string
	// authorities is a file with certificates of the registry's CA; empty if this machine trusts it.
	authorities string
	// driverImage is "upstream" or "built". If it is empty, images/images.yaml decides.
	driverImage string
	// key is the private key with which publish signs what it pushes. If it is nil, publish signs nothing.
	key    *ecdsa.PrivateKey
	dryRun bool
	remote registryClient
	// build writes OCI layouts of the named images into folder images. The content of bundles and catalogs comes from folder bundles.
	build func(ctx context.Context, bundles, images string, names []string) error
	out   io.Writer
	// text is the content of images/images.yaml, to which publish adds the digests.
	text    string
	release release.Release
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("publish", flag.ContinueOnError)
	p := publisher{out: out}
	flags.StringVar(&p.repository, "repository", ".", "`folder` of the repository")
	flags.StringVar(&p.registry, "registry", "", "registry and path of your images, such as `quay.io/me`")
	flags.StringVar(&p.output, "output", "bin/publish", "`folder` for the images, and for the files that install them")
	flags.StringVar(&p.architectures, "arch", "amd64,arm64", "comma-separated `list` of architectures, as values of GOARCH")
	flags.StringVar(&p.upstream, "upstream", "", "registry and path with copies of the images that others publish, such as `registry.example/copies`")
	flags.StringVar(&p.authorities, "ca", "", "`file` with the certificates of the registry's CA, if the machine does not trust it")
	flags.StringVar(&p.driverImage, "driver", "", "`image` of the EFS driver: upstream or built; default: what images/images.yaml says")
	flags.BoolVar(&p.dryRun, "dry-run", false, "build and write everything, and send nothing")
	version := flags.String("version", "", "expected `version`; the command fails if the file VERSION has another")
	key := flags.String("key", "", "`file` with an ECDSA key that signs all images, for cosign")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	var err error
	if p.remote, err = newRegistryClient(p.authorities); err != nil {
		return err
	}
	if *key != "" {
		if p.key, err = readKey(*key); err != nil {
			return err
		}
	}
	for _, folder := range []*string{&p.repository, &p.output, &p.authorities} {
		// The builder runs in the repository, so the path must be absolute.
		if *folder == "" {
			continue
		}
		if *folder, err = filepath.Abs(*folder); err != nil {
			return fmt.Errorf("folder %s: %w", *folder, err)
		}
	}
	p.build = p.buildWithGo
	return p.publish(ctx, *version)
}

// publish does everything: resolve, build, check, push and tag.
func (p *publisher) publish(ctx context.Context, version string) error {
	if err := p.load(version); err != nil {
		return err
	}
	if err := p.resolve(ctx); err != nil {
		return err
	}
	images, err := p.buildAll(ctx)
	if err != nil {
		return err
	}
	for _, image := range images {
		p.say("%s@%s", image.Repository(), image.digest)
	}
	if p.dryRun {
		p.say("\nNothing was sent. These commands will install what is published:")
		return p.commands()
	}
	attached := func() error { return p.remote.attach(ctx, p.key, images) }
	if err := p.remote.push(ctx, images, attached, p.say); err != nil {
		return err
	}
	p.say("\nInstall it:")
	return p.commands()
}

func (p *publisher) say(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format+"\n", args...) }

// tree returns the folder with a copy of config/, images/ and VERSION, and with the bundles.
func (p *publisher) tree() string { return filepath.Join(p.output, "tree") }

// load copies the sources of the bundles into the output folder. In this copy, our images are in the user's registry.
func (p *publisher) load(version string) error {
	for variable, value := range map[string]string{"REGISTRY": p.registry, "UPSTREAM": cmp.Or(p.upstream, p.registry)} {
		if value == "" || strings.Contains(value, "://") || strings.HasSuffix(value, "/") {
			return fmt.Errorf("%[1]s=%[2]s is not a registry with a path: write it without a scheme, such as %[1]s=quay.io/me", variable, value)
		}
	}
	found, err := release.Load(os.DirFS(p.repository))
	if err != nil {
		return err
	}
	if want := cmp.Or(version, found.Version.String()); want != found.Version.String() {
		return fmt.Errorf("VERSION=%s differs from version %s in file %s: run make release VERSION=%s first",
			version, found.Version, release.VersionFile, version)
	}
	if err := os.RemoveAll(p.tree()); err != nil {
		return fmt.Errorf("empty %s: %w", p.tree(), err)
	}
	for _, folder := range []string{"bundle", "config", "images", payload.Folder} {
		if err := os.CopyFS(filepath.Join(p.tree(), folder), os.DirFS(filepath.Join(p.repository, folder))); err != nil {
			return fmt.Errorf("copy %s: %w", folder, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(filepath.Clean(p.repository), filepath.FromSlash(release.ImagesFile)))
	if err != nil {
		return fmt.Errorf("images of the release: %w", err)
	}
	p.text = release.Relocate(release.WithoutOwnDigests(string(text)), p.registry)
	if p.upstream != "" {
		p.text = release.RelocateOthers(p.text, p.upstream)
	}
	if p.driverImage != "" {
		if p.text, err = release.Choose(p.text, p.driverImage); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(p.tree(), release.VersionFile), []byte(found.Version.String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the version: %w", err)
	}
	p.release = found
	return p.save()
}

// save parses the changed list of images, and writes the list into the tree.
func (p *publisher) save() error {
	var err error
	if p.release, err = release.Parse([]byte(p.text), p.release.Version); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.tree(), filepath.FromSlash(release.ImagesFile)), []byte(p.text), 0o600); err != nil {
		return fmt.Errorf("write the list of images: %w", err)
	}
	return nil
}

// resolve asks registries for the digests of the images that publish does not build, and of the images in bases. publish never builds the driver's
// image, so our own build of the driver's image must already be in the registry. publish calls resolve before it builds an image. Without a dry run,
// resolve also checks that the user can push the images that publish builds.
func (p *publisher) resolve(ctx context.Context) error {
	var problems []error
	images := slices.Clone(p.release.Images)
	for _, name := range bases() {
		base, err := p.release.FindBase(name)
		if err != nil {
			return err
		}
		images = append(images, base)
	}
	for _, image := range images {
		if image.Own && image.Name != driver {
			continue
		}
		digest, err := p.remote.digestOf(ctx, image.PullSpec())
		if err == nil {
			p.text, err = p.release.WithDigest(p.text, image.Name, digest)
		} else if image.Own {
			err = fmt.Errorf("%w: build it with the commands that make images prints, and push it first, "+
				"or choose the image of upstream with DRIVER=upstream", err)
		}
		problems = append(problems, err)
	}
	for _, name := range append(append(programs(), bundles()...), release.MustGather, catalog, servedCatalog) {
		if p.dryRun {
			break
		}
		image, err := p.release.Find(name)
		if err == nil {
			err = p.remote.mayPush(image.Image)
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return p.save()
}

// buildAll builds all images. It starts with the images whose digests other images need. It returns the images in the order in which they get their
// tags, with the catalogs last.
func (p *publisher) buildAll(ctx context.Context) ([]built, error) {
	var all []built
	for _, names := range [][]string{append(programs(), release.MustGather), bundles(), {catalog, servedCatalog}} {
		if err := p.build(ctx, filepath.Join(p.tree(), "bundle"), filepath.Join(p.output, "images"), names); err != nil {
			return nil, err
		}
		for _, name := range names {
			image, err := p.release.Find(name)
			if err != nil {
				return nil, err
			}
			made, err := readLayout(filepath.Join(p.output, "images", name), image)
			if err != nil {
				return nil, err
			}
			if p.text, err = p.release.WithDigest(p.text, name, made.digest); err != nil {
				return nil, err
			}
			all = append(all, made)
		}
		if err := p.save(); err != nil {
			return nil, err
		}
		if err := olm.Make(p.tree()); err != nil {
			return nil, err
		}
	}
	return all, p.references(all)
}

// references completes file image-references, which a release of OpenShift includes. In this file, the names of our images become pull specs by
// digest.
func (p *publisher) references(all []built) error {
	file := filepath.Join(p.tree(), payload.Folder, "image-references")
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("image references: %w", err)
	}
	for _, image := range all {
		text = []byte(strings.ReplaceAll(string(text), "name: quay.io/openshift/origin-"+image.Name+":latest\n",
			"name: "+image.Repository()+"@"+image.digest+"\n"))
	}
	//nolint:gosec // The folder is what the developer names.
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("image references: %w", err)
	}
	return nil
}

func (p *publisher) commands() error {
	first := olm.Packages()[0]
	p.say("  oc apply -f %[1]s/bundle/install/ && \\\n"+
		"  oc -n %[2]s wait subscriptions.operators.coreos.com/%[3]s --for=jsonpath='{.status.installedCSV}'=%[4]s --timeout=10m && \\\n"+
		"  oc apply -f %[1]s/config/samples/clustercsidriver.yaml", p.tree(), first.Namespace, first.Name, first.CSVName(p.release.Version))
	return nil
}

// buildWithGo runs the program that builds images.
func (p *publisher) buildWithGo(ctx context.Context, bundles, images string, names []string) error {
	//nolint:gosec // The arguments are our own names, and folders that the developer names.
	command := exec.CommandContext(ctx, "go", "run", "./hack/images", "-bundles", bundles, "-output", images, "-arch", p.architectures,
		"-ca", p.authorities, "-list", filepath.Join(p.tree(), filepath.FromSlash(release.ImagesFile)), "-only", strings.Join(names, ","))
	text := &strings.Builder{}
	command.Dir, command.Stdout, command.Stderr = p.repository, text, text
	if err := command.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(names, ", "), err, text)
	}
	return nil
}
