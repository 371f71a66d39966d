// Package credential finds out which credentials of a driver exist, which are missing, and how long pods wait for them. It reads Secrets and
// CredentialsRequests from the cache, and detects Secrets with the administrator's own keys.
package credential

import (
	"context"
	"fmt"
	"maps"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

// Found has the existing credentials of a driver.
type Found struct {
	// Requests are all CredentialsRequests, by name.
	Requests map[string]*cloudcredentialv1.CredentialsRequest
	// Secrets are the driver's existing Secrets, by name.
	Secrets map[string]Secret
}

// Secret is a Secret without its values; zero if it does not exist.
type Secret struct {
	// Hash is the hash of the data, and Keys are its keys, sorted.
	Hash string
	Keys []string
	// Request is its CredentialsRequest, as namespace/name; empty if the cloud-credential-operator did not create it.
	Request string
	// Minted and PassedThrough are the results of driver.Minted and driver.PassedThrough.
	Minted, PassedThrough bool
}

// Source reads credentials from caches.
type Source struct {
	Client client.Reader
	Driver driver.Driver
	// Namespace is the namespace of the Secrets.
	Namespace string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Secrets maps the names of Driver.Credentials to caches that hold hashes (watch.HashSecret). It is empty in a preview.
	Secrets map[string]cache.Cache
}

// Read reads each object once.
func (s *Source) Read(ctx context.Context) (Found, error) {
	found := Found{Requests: map[string]*cloudcredentialv1.CredentialsRequest{}, Secrets: map[string]Secret{}}
	for _, credentials := range s.Driver.Credentials {
		secret, err := s.secret(ctx, credentials.Secret)
		if err != nil {
			return found, err
		}
		if secret.Hash != "" {
			found.Secrets[credentials.Secret] = secret
		}
	}
	if !s.Kinds[driver.CredentialsRequestKind()] {
		return found, nil
	}
	requests := &cloudcredentialv1.CredentialsRequestList{}
	if err := s.Client.List(ctx, requests); err != nil {
		return found, fmt.Errorf("list CredentialsRequests: %w", err)
	}
	for i := range requests.Items {
		found.Requests[requests.Items[i].Name] = &requests.Items[i]
	}
	return found, nil
}

// secret reads a Secret from its cache.
func (s *Source) secret(ctx context.Context, name string) (Secret, error) {
	if s.Secrets[name] == nil {
		return Secret{}, nil
	}
	secret := &corev1.Secret{}
	err := s.Secrets[name].Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return Secret{}, nil
	}
	if err != nil {
		return Secret{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return Secret{
		Hash: apply.ContentHash(secret.Data), Keys: slices.Sorted(maps.Keys(secret.Data)), Request: secret.Annotations[watch.RequestAnnotation],
		Minted: driver.Minted(secret), PassedThrough: driver.PassedThrough(secret),
	}, nil
}

// Missing names a missing or unusable Secret, and says why it is unusable. Both are empty if all Secrets are usable.
func (f Found) Missing(d driver.Driver, namespace string) (waits, problem string) {
	for _, credentials := range d.Credentials {
		found := f.Secrets[credentials.Secret]
		if credentials.Usable(found.Keys) {
			continue
		}
		waits = "Secret " + namespace + "/" + credentials.Secret
		if found.Hash != "" {
			problem = unusable(namespace, credentials, found)
		}
		return waits, problem
	}
	return "", ""
}

// Minting reports whether the cloud-credential-operator mints keys in this cluster. In default mode it depends on the administrator's keys, and only
// Secrets show it. So the driver's required Secrets are requested first. Until one exists, existing optional requests stay.
func (f Found) Minting(d driver.Driver, cfg driver.Config) driver.Minting {
	if cfg.CredentialsMode != operatorv1.CloudCredentialsModeDefault || !cfg.Kinds[driver.CredentialsRequestKind()] {
		return driver.MintingUnknown
	}
	kept := driver.MintingUnknown
	for _, credentials := range d.Credentials {
		if credentials.Optional {
			if f.Requests[credentials.Request] != nil {
				kept = driver.Mints
			}
			continue
		}
		switch found := f.Secrets[credentials.Secret]; {
		case found.Minted:
			return driver.Mints
		case found.PassedThrough:
			return driver.PassesThrough
		}
	}
	return kept
}
