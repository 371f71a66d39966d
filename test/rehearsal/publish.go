package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// copyOf is where the first registry has a copy of an image of others.
func (r *rehearsal) copyOf(pullSpec string) string {
	_, path, _ := strings.Cut(pullSpec, "/")
	return r.first.host + "/copies/" + path
}

// putOthers pushes what the release takes from others: images of pods, and bases.
func (r *rehearsal) putOthers(ctx context.Context) error {
	for _, described := range r.release.Images {
		if described.Own {
			continue
		}
		one, err := nodeimages.Program(described.Name)
		if err == nil {
			_, err = r.push(ctx, r.copyOf(described.Image), one)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", described.Name, err)
		}
	}
	for _, name := range []string{"opm", "must-gather"} {
		described, err := r.release.FindBase(name)
		if err != nil {
			return err
		}
		var index v1.ImageIndex = empty.Index
		for architecture := range strings.SplitSeq(r.architectures, ",") {
			file := image.File{Path: "base", Mode: image.ModeFile, Content: []byte("stand-in for " + name)}
			one, err := image.Build(image.Image{Files: []image.File{file}, Architecture: architecture})
			if err != nil {
				return err
			}
			platform := &v1.Platform{OS: "linux", Architecture: architecture}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: platform}})
		}
		if _, err := r.push(ctx, r.copyOf(described.Image), index); err != nil {
			return fmt.Errorf("base %s: %w", name, err)
		}
	}
	return nil
}

// command runs a program in a folder, with the login to the registry.
func (r *rehearsal) command(ctx context.Context, folder, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = folder, append(os.Environ(), "DOCKER_CONFIG="+r.folder, "MAKEFLAGS=", "MAKELEVEL=")
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// publishOlder publishes the bundle of the older version as its CONTRIBUTING.md says: images first, then what names their digests. The commit is
// older than "make publish".
func (r *rehearsal) publishOlder(ctx context.Context) error {
	folder := r.file("older")
	script := fmt.Sprintf("mkdir %[1]s && git archive %[2]s | tar -x -C %[1]s", folder, r.older)
	if _, err := r.command(ctx, r.root, "bash", "-o", "pipefail", "-c", script); err != nil {
		return fmt.Errorf("the older version needs the whole history: git fetch --unshallow: %w", err)
	}
	list := filepath.Join(folder, "images/images.yaml")
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	older := &olderList{file: list, text: release.RelocateOthers(release.Relocate(string(text), r.first.host+"/me"), r.first.host+"/copies")}
	version, err := os.ReadFile(filepath.Join(folder, release.VersionFile))
	if err != nil {
		return err
	}
	older.version = strings.TrimSpace(string(version))
	r.say("Publishing version %s of commit %s.", older.version, r.older)
	driver, err := nodeimages.Program("aws-efs-csi-driver")
	if err != nil {
		return err
	}
	if err := r.pushOlder(ctx, older, "aws-efs-csi-driver", driver); err != nil {
		return err
	}
	if err := r.digestsOfOthers(ctx, older); err != nil {
		return err
	}
	for _, name := range []string{env.OperatorName, env.OperatorName + "-bundle", "csi-operators-catalog"} {
		if _, err := r.command(ctx, folder, "go", "run", "./hack/images", "-output", "out", "-arch", runtime.GOARCH, "-only", name); err != nil {
			return err
		}
		index, err := layout.ImageIndexFromPath(filepath.Join(folder, "out", name))
		if err != nil {
			return err
		}
		if err := r.pushOlder(ctx, older, name, &inner{index}); err != nil {
			return err
		}
		if _, err := r.command(ctx, folder, "go", "run", "./hack/bundle"); err != nil {
			return err
		}
	}
	return nil
}

// inner is the one index of a layout.
type inner struct{ layout v1.ImageIndex }

func (i *inner) open() (v1.ImageIndex, error) {
	manifest, err := i.layout.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the layout has not one index (%w)", err)
	}
	return i.layout.ImageIndex(manifest.Manifests[0].Digest)
}

// olderList is the list of images of the older version. Its digests have no tag before them.
type olderList struct{ file, text, version string }

// set writes the digest of an image into the list.
func (l *olderList) set(name, digest string) error {
	entry := regexp.MustCompile(`(?m)^(  - name: ` + regexp.QuoteMeta(name) + `\n    image: \S+\n)`)
	if !entry.MatchString(l.text) {
		return fmt.Errorf("%s has no image %s", l.file, name)
	}
	l.text = entry.ReplaceAllString(l.text, "${1}    digest: "+digest+"\n")
	return os.WriteFile(l.file, []byte(l.text), 0o600)
}

// pullSpec is the image of a name, with its tag.
func (l *olderList) pullSpec(name string) (string, error) {
	found := regexp.MustCompile(`(?m)^  - name: ` + regexp.QuoteMeta(name) + `\n    image: (\S+)\n`).FindStringSubmatch(l.text)
	if found == nil {
		return "", fmt.Errorf("%s has no image %s", l.file, name)
	}
	return strings.ReplaceAll(found[1], "${VERSION}", l.version), nil
}

// pushOlder pushes an image of the older version, and writes its digest into the list.
func (r *rehearsal) pushOlder(ctx context.Context, older *olderList, name string, what any) error {
	pullSpec, err := older.pullSpec(name)
	if err != nil {
		return err
	}
	var pushed string
	switch what := what.(type) {
	case *inner:
		index, openErr := what.open()
		if openErr != nil {
			return openErr
		}
		pushed, err = r.push(ctx, pullSpec, index)
	case v1.Image:
		pushed, err = r.push(ctx, pullSpec, what)
	}
	if err != nil {
		return err
	}
	_, digest, _ := strings.Cut(pushed, "@")
	return older.set(name, digest)
}

// digestsOfOthers writes the digests of the sidecars into the list.
func (r *rehearsal) digestsOfOthers(ctx context.Context, older *olderList) error {
	var problems []error
	for _, name := range []string{"csi-provisioner", "csi-node-driver-registrar", "livenessprobe", "kube-rbac-proxy"} {
		pullSpec, err := older.pullSpec(name)
		if err != nil {
			return err
		}
		one, err := nodeimages.Program(name)
		if err != nil {
			return err
		}
		pushed, err := r.push(ctx, pullSpec, one)
		_, digest, _ := strings.Cut(pushed, "@")
		problems = append(problems, err, older.set(name, digest))
	}
	return errors.Join(problems...)
}

// publish types the commands of CONTRIBUTING.md: a dry run first, which shows the digests that are published after it, as two builds are the same.
func (r *rehearsal) publish(ctx context.Context) error {
	if err := r.writeKey(); err != nil {
		return err
	}
	arguments := []string{
		"publish", "REGISTRY=" + r.first.host + "/me", "UPSTREAM=" + r.first.host + "/copies", "CA=" + r.file("ca.pem"),
		"KEY=" + r.file("key.pem"), "ARCHS=" + r.architectures, "VERSION=" + r.release.Version.String(),
	}
	r.say("make %s DRY_RUN=1", strings.Join(arguments, " "))
	dry, err := r.command(ctx, r.root, "make", append(arguments, "DRY_RUN=1")...)
	if err != nil {
		return err
	}
	r.say("make %s", strings.Join(arguments, " "))
	output, err := r.command(ctx, r.root, "make", arguments...)
	if err != nil {
		return err
	}
	digests := regexp.MustCompile(`(?m)^\S+@sha256:[0-9a-f]{64}$`)
	shown, sent := strings.Join(digests.FindAllString(dry, -1), "\n"), strings.Join(digests.FindAllString(output, -1), "\n")
	if shown == "" || shown != sent {
		return fmt.Errorf("the dry run shows\n%s\nand these images were sent:\n%s", shown, sent)
	}
	_, commands, _ := strings.Cut(output, "Install it:")
	fmt.Println("           The same images as in the dry run are published:\n" + sent + "\n           It ends with:" + commands)
	return nil
}

// writeKey writes a key that signs, as the commands of CONTRIBUTING.md do.
func (r *rehearsal) writeKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(r.file("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
