package clustercsidriver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/watch"
)

// foundSecret is what the operator knows of a Secret; it is zero if there is none.
type foundSecret struct {
	// hash is that of the content, and keys are its keys, sorted.
	hash string
	keys []string
	// request is the CredentialsRequest that it was made for, namespace/name; empty if somebody else has made it.
	request string
	// minted and passedThrough are as driver.Minted and driver.PassedThrough say.
	minted, passedThrough bool
}

// secret looks for a Secret in its cache. A preview has none.
func (r *Reconciler) secret(ctx context.Context, name string) (foundSecret, error) {
	secret := &corev1.Secret{}
	if r.Secrets[name] == nil {
		return foundSecret{}, nil
	}
	err := r.Secrets[name].Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return foundSecret{}, nil
	}
	if err != nil {
		return foundSecret{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return foundSecret{
		hash: apply.ContentHash(secret.Data), keys: slices.Sorted(maps.Keys(secret.Data)), request: secret.Annotations[watch.RequestAnnotation],
		minted: driver.Minted(secret), passedThrough: driver.PassedThrough(secret),
	}, nil
}

// minting reports whether the cloud-credential-operator makes keys of their own for the requests of this cluster. In default mode it
// decides that by what the administrator's keys may do, and says it on each Secret. The Secrets that the driver needs in any case are
// asked for first and show it. As long as none is there, requests that were made before stay: what is not known removes nothing.
func (r *Reconciler) minting(mode operatorv1.CloudCredentialsMode, live live) driver.Minting {
	if mode != operatorv1.CloudCredentialsModeDefault || !r.Kinds[driver.CredentialsRequestKind()] {
		return driver.MintingUnknown
	}
	kept := driver.MintingUnknown
	for _, credentials := range r.Driver.Credentials {
		if credentials.Optional {
			if live.requests[credentials.Request] != nil {
				kept = driver.Mints
			}
			continue
		}
		switch found := live.secrets[credentials.Secret]; {
		case found.minted:
			return driver.Mints
		case found.passedThrough:
			return driver.PassesThrough
		}
	}
	return kept
}

// waitForMinting says that pods wait until it is known whether there will be credentials for them, and for how long at most.
func (r *Reconciler) waitForMinting(cfg driver.Config, live live) (string, time.Duration) {
	if cfg.CredentialsMode != operatorv1.CloudCredentialsModeDefault || cfg.Minting != driver.MintingUnknown ||
		!cfg.Kinds[driver.CredentialsRequestKind()] {
		return "", 0
	}
	for _, credentials := range r.Driver.Credentials {
		if credentials.Optional || cfg.RoleARNs[credentials.RoleARNVariable] != "" {
			continue
		}
		message := fmt.Sprintf("waiting for Secret %s/%s, which shows whether the cloud-credential-operator makes keys for this cluster",
			r.Namespace, credentials.Secret)
		return r.waitForRequest(live.requests[credentials.Request], message)
	}
	return "", 0
}
