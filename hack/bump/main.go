// Command bump updates the EFS driver, or a sidecar, in the release to a newer version. It changes the image reference with its digest, and the
// program's entry in the table in test/real. Before bump writes anything, it compares that table with the flags of the new version.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
)

const (
	driver        = "aws-efs-csi-driver"
	tableFile     = "test/real/testdata/flags.yaml"
	programsFile  = "test/real/programs/programs.txt"
	containerfile = "images/aws-efs-csi-driver/Containerfile"
)

func main() {
	if err := run(os.Stdout, os.Args[1:], askRegistry); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// bump is one new version.
type bump struct {
	repository, name, version, digest string
	// help is the file with what the new version prints with --help. changes is the file with the log of changes. commit is the commit of the tag, and
	// is set only for the driver.
	help, changes, commit string
	out                   io.Writer
	// files has the new content of files, by path in the repository. bump writes these files at the end.
	files map[string]string
}

func run(out io.Writer, args []string, digestOf func(pullSpec, authorities string) (string, error)) error {
	b := bump{out: out, files: map[string]string{}}
	flags := flag.NewFlagSet("bump", flag.ContinueOnError)
	flags.StringVar(&b.repository, "repository", ".", "`folder` of the repository")
	flags.StringVar(&b.name, "image", "", "`name` of the image in images/images.yaml")
	flags.StringVar(&b.version, "version", "", "new `version`, such as v3.5.0")
	flags.StringVar(&b.digest, "digest", "", "`digest` of the image; default: the digest that the registry returns")
	flags.StringVar(&b.help, "help-text", "", "`file` with what the new version prints with --help")
	flags.StringVar(&b.changes, "changes", "", "`file` with the log of changes of the new version")
	flags.StringVar(&b.commit, "commit", "", "`commit` that the tag of the new version names; required for the EFS driver")
	authorities := flags.String("ca", "", "`file` with the certificates of the registry's CA, if the machine does not trust it")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	old, err := b.find()
	if err != nil {
		return err
	}
	if err := b.compare(); err != nil {
		return err
	}
	pullSpec := old.Repository() + ":" + b.version
	if b.digest == "" {
		if b.digest, err = digestOf(pullSpec, *authorities); err != nil {
			return fmt.Errorf("%s is not in its registry, or can't be read: name the digest of the image with DIGEST=sha256:…: %w", pullSpec, err)
		}
	}
	if err := errors.Join(b.list(old, pullSpec), b.build()); err != nil {
		return err
	}
	return b.write(pullSpec)
}

// find returns the image's entry in the list of images, before the change.
func (b *bump) find() (release.Image, error) {
	current, err := release.Load(os.DirFS(b.repository))
	if err != nil {
		return release.Image{}, err
	}
	var names []string
	for _, found := range append(current.Images, current.NotChosen...) {
		if found.Own {
			continue
		}
		names = append(names, found.Name)
		if found.Name != b.name {
			continue
		}
		if !regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`).MatchString(b.version) {
			return found, fmt.Errorf("VERSION=%s is not a version like v1.2.3", b.version)
		}
		if strings.HasSuffix(found.Image, ":"+b.version) {
			return found, fmt.Errorf("%s already has version %s", b.name, b.version)
		}
		return found, nil
	}
	return release.Image{}, fmt.Errorf("%s has no third-party image %s: set DRIVER or SIDECAR to one of %s",
		release.ImagesFile, b.name, strings.Join(names, ", "))
}

// program is the table's entry about a program.
type program struct {
	Program     string            `json:"program"`
	Flags       map[string]string `json:"flags"`
	Environment map[string]string `json:"environment"`
}

// compare compares the flags of the new version with the flags in the table. test/real runs some of the programs. The table has no entry for these
// programs, so compare skips them.
func (b *bump) compare() error {
	text, err := b.read(tableFile)
	if err != nil {
		return err
	}
	var table []program
	if err := yaml.Unmarshal([]byte(text), &table); err != nil {
		return fmt.Errorf("%s: %w", tableFile, err)
	}
	i := slices.IndexFunc(table, func(p program) bool { return p.Program == strings.TrimPrefix(b.name, "csi-") || p.Program == b.name })
	if i < 0 {
		b.say("test/real runs %s: if the module proxy serves %[3]s, write this version into the line of %[1]s in %[2]s. "+
			"Then run make real && go test -count=1 ./test/real", b.name, programsFile, b.version)
		return b.showChanges(program{})
	}
	if b.help == "" {
		return fmt.Errorf("HELP= is missing: set it to a file with the output of --help of %s %s. Its flags must match %s", b.name, b.version, tableFile)
	}
	help, err := os.ReadFile(filepath.Clean(b.help))
	if err != nil {
		return fmt.Errorf("HELP=%s: %w", b.help, err)
	}
	known := table[i]
	missing, added := known.differences(string(help))
	if len(missing) > 0 {
		return fmt.Errorf("%s %s lacks flags that are in %s: %s. Remove them from this file. Run go test ./test/real, which names the assets "+
			"that set these flags. Mend the assets, and repeat the make command", b.name, b.version, tableFile, strings.Join(missing, ", "))
	}
	if len(added) > 0 {
		b.say("Flags that are not in %s: %s. If an asset is to set such a flag, add the flag to this file.", tableFile, strings.Join(added, ", "))
	}
	b.say("For %[2]s, %[1]s names places in the source code. Check these places in the new version, and write this version beside each place.",
		tableFile, known.Program)
	entry := regexp.MustCompile(`(?m)^(- program: ` + regexp.QuoteMeta(known.Program) + `\n  version: )"[^"]*"`)
	b.files[tableFile] = entry.ReplaceAllString(text, `${1}"`+strings.TrimPrefix(b.version, "v")+`"`)
	if b.files[tableFile] == text {
		return fmt.Errorf("%s: after line \"program: %s\", the next line must be \"version:\"", tableFile, known.Program)
	}
	return b.showChanges(known)
}

// differences returns the flags that only the table has, and the flags that only the help text has.
func (p program) differences(help string) (missing, added []string) {
	offered := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\s*(?:-[a-zA-Z], )?--?([a-zA-Z0-9_][a-zA-Z0-9_-]*)`).FindAllStringSubmatch(help, -1) {
		offered[found[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(p.Flags)) {
		if !offered[name] {
			missing = append(missing, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		if _, is := p.Flags[name]; !is && name != "help" {
			added = append(added, name)
		}
	}
	return missing, added
}

// showChanges searches the log of changes for lines that a person must read, and prints these lines. Such a line names a flag or a variable of the
// table, or contains a word for a change that breaks something.
func (b *bump) showChanges(known program) error {
	if b.changes == "" {
		b.say("No log of changes was compared: name the log with CHANGES=file.")
		return nil
	}
	text, err := os.ReadFile(filepath.Clean(b.changes))
	if err != nil {
		return fmt.Errorf("CHANGES=%s: %w", b.changes, err)
	}
	words := `(?i)breaking|deprecat|remov|renam|default|no longer|CVE-`
	for _, name := range slices.Sorted(maps.Keys(known.Flags)) {
		if len(name) > 2 {
			words += `|-` + regexp.QuoteMeta(name) + `\b`
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known.Environment)) {
		words += `|\b` + regexp.QuoteMeta(name) + `\b`
	}
	matching := regexp.MustCompile(words)
	for line := range strings.Lines(string(text)) {
		if matching.MatchString(line) {
			b.say("Read: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

// list puts the new version into the list of images.
func (b *bump) list(old release.Image, pullSpec string) error {
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(b.digest) {
		return fmt.Errorf("DIGEST=%s does not have the form sha256:<64 hexadecimal digits>", b.digest)
	}
	text, err := b.read(release.ImagesFile)
	if err != nil {
		return err
	}
	entry := regexp.MustCompile(`(?m)^(    image: )` + regexp.QuoteMeta(old.Image) + `\n(?:    digest: \S+\n)?`)
	b.files[release.ImagesFile] = entry.ReplaceAllString(text, "${1}"+pullSpec+"\n    digest: "+b.version+"@"+b.digest+"\n")
	if b.files[release.ImagesFile] == text {
		return fmt.Errorf("%s has no line with image %s", release.ImagesFile, old.Image)
	}
	return nil
}

// build changes the version and the commit in the Containerfile of the EFS driver. This Containerfile builds the same version as upstream's image.
func (b *bump) build() error {
	if b.name != driver {
		return nil
	}
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(b.commit) {
		return fmt.Errorf("COMMIT=%s is not a commit: set it to the commit of tag %s, which git ls-remote prints, for %s",
			b.commit, b.version, containerfile)
	}
	text, err := b.read(containerfile)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`(?m)^ARG DRIVER_VERSION=.*$`).ReplaceAllString(text, "ARG DRIVER_VERSION="+strings.TrimPrefix(b.version, "v"))
	b.files[containerfile] = regexp.MustCompile(`(?m)^ARG DRIVER_COMMIT=.*$`).ReplaceAllString(text, "ARG DRIVER_COMMIT="+b.commit)
	return nil
}

// write writes all files. Until then, nothing has changed.
func (b *bump) write(pullSpec string) error {
	for _, file := range slices.Sorted(maps.Keys(b.files)) {
		//nolint:gosec // The files are sources, which everybody may read.
		if err := os.WriteFile(filepath.Join(b.repository, filepath.FromSlash(file)), []byte(b.files[file]), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	b.say("%s@%s is in %s.", pullSpec, b.digest, strings.Join(slices.Sorted(maps.Keys(b.files)), ", "))
	return nil
}

func (b *bump) read(file string) (string, error) {
	text, err := fs.ReadFile(os.DirFS(b.repository), file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	return string(text), nil
}

func (b *bump) say(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format+"\n", args...) }

// askRegistry asks the registry for the digest of an image.
func askRegistry(pullSpec, authorities string) (string, error) {
	transport, err := image.Transport(authorities)
	if err != nil {
		return "", err
	}
	reference, err := name.ParseReference(pullSpec)
	if err != nil {
		return "", fmt.Errorf("%s is no pull spec: %w", pullSpec, err)
	}
	found, err := remote.Head(reference, remote.WithTransport(transport), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", pullSpec, err)
	}
	return found.Digest.String(), nil
}
