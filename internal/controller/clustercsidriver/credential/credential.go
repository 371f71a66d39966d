// Package credential says what a cluster has of the credentials of a driver, what is missing, and which pods wait for it, and how long. It reads
// Secrets and CredentialsRequests from the cache, and knows which Secrets hold the administrator's own keys.
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

// Found is what there is of the credentials of a driver.
type Found struct {
	// Requests are all CredentialsRequests, by name.
	Requests map[string]*cloudcredentialv1.CredentialsRequest
	// Secrets are those of the driver that exist, by name.
	Secrets map[string]Secret
}

// Secret is what the operator knows of one; it is zero if there is none.
type Secret struct {
	// Hash is that of the content, and Keys are its keys, sorted.
	Hash string
	Keys []string
	// Request is the CredentialsRequest that it was made for, namespace/name; empty if somebody else has made it.
	Request string
	// Minted and PassedThrough are as driver.Minted and driver.PassedThrough say.
	Minted, PassedThrough bool
}

// Source reads what there is, from caches.
type Source struct {
	Client client.Reader
	Driver driver.Driver
	// Namespace has the Secrets.
	Namespace string
	// Kinds are the optional kinds that the cluster serves.
	Kinds map[schema.GroupKind]bool
	// Secrets read the Secrets of Driver.Credentials, by name, from caches that hold hashes (watch.HashSecret). A preview has none.
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

// secret looks for a Secret in its cache.
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

// Missing says which Secret of a driver is not there or of no use, and what else is wrong with it. Both are empty if nothing is.
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

// Minting reports whether the cloud-credential-operator makes keys of their own for the requests of this cluster. In default mode it
// decides that by what the administrator's keys may do, and says it on each Secret. The Secrets that the driver needs in any case are
// asked for first and show it. As long as none is there, requests that were made before stay: what is not known removes nothing.
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
