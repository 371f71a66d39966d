// Package credential finds out which credentials of a driver exist, which are missing, and how long pods wait for missing credentials. It reads
// Secrets and CredentialsRequests from the cache. It detects Secrets with a copy of the cluster's own keys.
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

// Secret describes a Secret without its values. It is the zero value if the Secret does not exist.
type Secret struct {
	// Hash is the hash of the Secret's data. Keys are the keys of the data, sorted.
	Hash string
	Keys []string
	// Request is the Secret's CredentialsRequest, as namespace/name. It is empty if the cloud-credential-operator did not create the Secret.
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
	// Secrets maps the names of the Secrets in Driver.Credentials to caches that hold hashes (watch.HashSecret). It is empty in a preview.
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

// secret reads a Secret from the cache of that Secret.
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

// Missing returns the first Secret that is missing or unusable. If that Secret exists but is unusable, Missing also returns the problem. It returns
// empty strings if all Secrets are usable.
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

// Minting reports whether the cloud-credential-operator mints keys in this cluster. In default mode, the answer depends on the cluster's own keys,
// and only the created Secrets show the answer. So the operator first requests the driver's required Secrets. Until one of the required Secrets
// exists, an existing request for an optional Secret counts as proof of minting. So the operator keeps that request.
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
