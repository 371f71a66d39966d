package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"
)

// inTheLists stands in the lists for the registry of a disconnected cluster.
const inTheLists = "mirror.example.com:5000"

// fillMirror starts a second registry, and copies into it what the mapping for "oc image mirror" says.
func (r *rehearsal) fillMirror(ctx context.Context) (err error) {
	if r.mirror, err = newRegistry(r.authority, r.file("mirror")); err != nil {
		return err
	}
	text, err := os.ReadFile(r.published("bundle/disconnected/mirror.txt"))
	if err != nil {
		return err
	}
	options, err := r.options(ctx)
	if err != nil {
		return err
	}
	lines := strings.Fields(string(text))
	for _, line := range lines {
		from, to, _ := strings.Cut(line, "=")
		if !strings.Contains(from, "@sha256:") {
			return fmt.Errorf("mirror.txt names an image by its tag: %s", line)
		}
		if err := copyImage(from, strings.Replace(to, inTheLists, r.mirror.host, 1), options); err != nil {
			return fmt.Errorf("mirror %s: %w", line, err)
		}
	}
	r.say("A second registry, %s, has the %d images of mirror.txt.", r.mirror.host, len(lines))
	return nil
}

// copyImage copies an image, or an index, without changing its digest.
func copyImage(from, to string, options []remote.Option) error {
	source, err := name.ParseReference(from)
	if err != nil {
		return err
	}
	target, err := name.NewTag(to)
	if err != nil {
		return err
	}
	found, err := remote.Get(source, options...)
	if err != nil {
		return err
	}
	if found.MediaType.IsIndex() {
		index, err := found.ImageIndex()
		if err != nil {
			return err
		}
		return remote.WriteIndex(target, index, options...)
	}
	image, err := found.Image()
	if err != nil {
		return err
	}
	return remote.Write(target, image, options...)
}

// switchOff ends the first registry: nothing answers at its address.
func (r *rehearsal) switchOff(ctx context.Context) error {
	if err := r.first.close(); err != nil {
		return err
	}
	r.off = true
	if connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.first.host); err == nil {
		return errors.Join(connection.Close(), errors.New("the first registry still answers"))
	}
	r.say("The first registry is switched off.")
	return nil
}

// mirrorsOfTheSet reads the ImageDigestMirrorSet, as the machine-config-operator does. Containerd knows mirrors of a whole registry only, so the
// paths must be the same in both.
func (r *rehearsal) mirrorsOfTheSet(place string) (map[string]string, error) {
	text, err := os.ReadFile(r.published("bundle/disconnected/image-digest-mirror-set.yaml"))
	if err != nil {
		return nil, err
	}
	var set struct {
		Spec struct {
			ImageDigestMirrors []struct {
				Source  string
				Mirrors []string
			}
		}
	}
	if err := yaml.Unmarshal(text, &set); err != nil {
		return nil, err
	}
	mirrors := map[string]string{}
	for _, one := range set.Spec.ImageDigestMirrors {
		host, path, _ := strings.Cut(one.Source, "/")
		if len(one.Mirrors) != 1 || one.Mirrors[0] != inTheLists+"/"+path {
			return nil, fmt.Errorf("source %s has mirrors %v, want one with the same path", one.Source, one.Mirrors)
		}
		mirrors[host] = place
	}
	if len(mirrors) == 0 {
		return nil, errors.New("the ImageDigestMirrorSet has no mirror")
	}
	return mirrors, nil
}

// installFromMirror installs the release on a node that has none of its images, and runs a pod that writes to a volume.
func (r *rehearsal) installFromMirror(ctx context.Context) error {
	r.say("Starting a new cluster with one real node, which knows the mirrors of image-digest-mirror-set.yaml.")
	if err := r.startCluster(ctx, r.mirror); err != nil {
		return err
	}
	wanted, err := r.newest(ctx, r.published("bundle/install/1-catalogsource.yaml"))
	if err != nil {
		return err
	}
	r.say("Installing %s from its catalog.", wanted.csv.Name)
	if err := r.install(ctx, wanted); err != nil {
		return err
	}
	if err := r.report(r.mirror); err != nil {
		return err
	}
	return r.write(ctx)
}
