package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/csi-operators/csi-operators/internal/release"
	"github.com/csi-operators/csi-operators/internal/release/image"
)

// built is an image whose layout is on disk.
type built struct {
	release.Image
	index  v1.ImageIndex
	digest string
}

// readLayout reads the index of an image. The index is in the layout that the builder has written.
func readLayout(folder string, image release.Image) (built, error) {
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return built{}, fmt.Errorf("image %s: %w", image.Name, err)
	}
	list, err := all.IndexManifest()
	if err != nil {
		return built{}, fmt.Errorf("image %s: read the index of %s: %w", image.Name, folder, err)
	}
	if len(list.Manifests) != 1 {
		return built{}, fmt.Errorf("image %s: %s has %d manifests in its index instead of one", image.Name, folder, len(list.Manifests))
	}
	digest := list.Manifests[0].Digest
	index, err := all.ImageIndex(digest)
	if err != nil {
		return built{}, fmt.Errorf("image %s: %w", image.Name, err)
	}
	return built{Image: image, index: index, digest: digest.String()}, nil
}

// registryClient talks to registries. It uses the logins of podman and docker.
type registryClient struct {
	transport http.RoundTripper
	keychain  authn.Keychain
}

// newRegistryClient makes a registryClient. If a file of certificates is named, the client trusts these certificates, too.
func newRegistryClient(authorities string) (registryClient, error) {
	transport, err := image.Transport(authorities)
	return registryClient{transport: transport, keychain: authn.DefaultKeychain}, err
}

func (c registryClient) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(c.transport), remote.WithAuthFromKeychain(c.keychain)}
}

// digestOf asks the registry for the digest of the image that a pull spec names.
func (c registryClient) digestOf(ctx context.Context, pullSpec string) (string, error) {
	reference, err := name.ParseReference(pullSpec)
	if err != nil {
		return "", fmt.Errorf("%s is no pull spec: %w", pullSpec, err)
	}
	found, err := remote.Head(reference, c.options(ctx)...)
	if err != nil {
		return "", fmt.Errorf("%s is not in its registry, or can't be read: %w", pullSpec, err)
	}
	return found.Digest.String(), nil
}

// mayPush starts an upload and cancels it, to find out whether the user has permission to push.
func (c registryClient) mayPush(pullSpec string) error {
	reference, err := name.ParseReference(pullSpec)
	if err != nil {
		return fmt.Errorf("%s is no pull spec: %w", pullSpec, err)
	}
	if err := remote.CheckPushPermission(reference, c.keychain, c.transport); err != nil {
		return fmt.Errorf("push to %s: %s: %w", reference.Context(), whyNot(err, reference.Context().RegistryStr()), err)
	}
	return nil
}

// whyNot says what a user can do about the error of a registry.
func whyNot(err error, host string) string {
	var refused *transport.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return "the certificate of " + host + " is not trusted: name its CA with CA=file"
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return "you lack permission: log in with podman login " + host
	default:
		return "check the address, and whether " + host + " answers"
	}
}

// push first sends all images by digest. Then it calls beforeTags, and sets the tags of the images in the same order. If a tag already names another
// image, push returns an error before it sets any tag. If the registry shows this tag at the start, push returns the error before it sends any image.
func (c registryClient) push(ctx context.Context, images []built, beforeTags func() error, say func(string, ...any)) error {
	there, err := c.tagged(ctx, images, mayBeNew)
	if err != nil {
		return err
	}
	for _, image := range images {
		if there[image.Name] {
			say("%s is already in the registry", image.Image.Image)
			continue
		}
		reference, err := name.NewDigest(image.Repository() + "@" + image.digest)
		if err != nil {
			return fmt.Errorf("image %s: %w", image.Name, err)
		}
		if err := remote.WriteIndex(reference, image.index, c.options(ctx)...); err != nil {
			return fmt.Errorf("push %s: no image has its tag yet, so you can repeat the same command: %w", reference, err)
		}
	}
	// Now all repositories exist, and a registry has no reason to hide their tags.
	if there, err = c.tagged(ctx, images, exists); err != nil {
		return fmt.Errorf("no tag was set: %w", err)
	}
	if err := beforeTags(); err != nil {
		return err
	}
	for _, image := range images {
		if there[image.Name] {
			continue
		}
		tag, err := name.NewTag(image.Image.Image)
		if err != nil {
			return fmt.Errorf("image %s: %w", image.Name, err)
		}
		if err := remote.Tag(tag, image.index, c.options(ctx)...); err != nil {
			return fmt.Errorf("tag %s: all images are pushed, but some have no tag yet: repeat the same command: %w", tag, err)
		}
		say("%s is pushed", tag)
	}
	return nil
}

// tagged returns, for each image, whether the image's tag in the registry already names this image. Function "absent" reports whether an HTTP status
// of the registry means that the registry lacks the tag.
func (c registryClient) tagged(ctx context.Context, images []built, absent func(status int) bool) (map[string]bool, error) {
	there := map[string]bool{}
	var problems []error
	for _, image := range images {
		tag, err := name.NewTag(image.Image.Image)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Name, err)
		}
		found, err := remote.Head(tag, c.options(ctx)...)
		var refused *transport.Error
		switch {
		case errors.As(err, &refused) && absent(refused.StatusCode):
		case err != nil:
			problems = append(problems, fmt.Errorf("read tag %s: %w", tag, err))
		case found.Digest.String() != image.digest:
			problems = append(problems, fmt.Errorf("tag %s already exists with %s, and this build is %s: publish a newer version, or delete the tag",
				tag, found.Digest, image.digest))
		default:
			there[image.Name] = true
		}
	}
	return there, errors.Join(problems...)
}

// exists interprets answers about the tags of existing repositories. Only the answer "not found" means that there is no such tag.
func exists(status int) bool { return status == http.StatusNotFound }

// mayBeNew interprets answers about the tags of repositories that the first push may still have to create. For such a repository, some registries
// answer that the user lacks permission to read, because they hide which repositories exist. This answer also means that there is no such tag,
// because mayPush has already checked the user's permissions.
func mayBeNew(status int) bool {
	return exists(status) || status == http.StatusUnauthorized || status == http.StatusForbidden
}
