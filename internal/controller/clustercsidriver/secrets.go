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

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
)

const (
	// requestAnnotation is what the cloud-credential-operator puts on a Secret: the CredentialsRequest that it is made for.
	requestAnnotation = "cloudcredential.openshift.io/credentials-request"
	// hasPolicy replaces a policy in memory.
	hasPolicy = "policy"
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

// secret looks for a Secret in its cache.
func (r *Reconciler) secret(ctx context.Context, name string) (foundSecret, error) {
	secret := &corev1.Secret{}
	err := r.Secrets[name].Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return foundSecret{}, nil
	}
	if err != nil {
		return foundSecret{}, fmt.Errorf("read Secret %s: %w", name, err)
	}
	content := ""
	keys := slices.Sorted(maps.Keys(secret.Data))
	for _, key := range keys {
		content += fmt.Sprintf("%q:%q\n", key, secret.Data[key])
	}
	return foundSecret{
		hash: shortHash(content), keys: keys, request: secret.Annotations[requestAnnotation],
		minted: driver.Minted(secret), passedThrough: driver.PassedThrough(secret),
	}, nil
}

// HashSecret is a transformation of a cache: it replaces what a Secret holds by hashes. The operator only has to know
// whether it changes, and what is not in memory can't leak.
func HashSecret(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		for key, value := range secret.Data {
			secret.Data[key] = []byte(hashed(string(value)))
		}
		kept := map[string]string{requestAnnotation: secret.Annotations[requestAnnotation]}
		switch {
		case driver.Minted(secret):
			kept[driver.PolicyAnnotation] = hasPolicy
		case driver.PassedThrough(secret):
			kept[driver.PolicyAnnotation] = ""
		}
		secret.ManagedFields, secret.Annotations = nil, kept
	}
	return object, nil
}

// minting tells whether the cloud-credential-operator makes keys of their own for the requests of this cluster. In default mode it
// decides that by what the administrator's keys may do, and says it on each Secret. The Secrets that the driver needs in any case are
// asked for first and show it. As long as none is there, requests that were made before stay: what is not known removes nothing.
func (r *Reconciler) minting(ctx context.Context, mode operatorv1.CloudCredentialsMode) (driver.Minting, error) {
	if mode != operatorv1.CloudCredentialsModeDefault || !r.Kinds[driver.CredentialsRequestKind()] {
		return driver.MintingUnknown, nil
	}
	kept := driver.MintingUnknown
	for _, credentials := range r.Driver.Credentials {
		if credentials.Optional {
			key := client.ObjectKey{Namespace: cloudcredentialv1.Namespace, Name: credentials.Request}
			err := r.Client.Get(ctx, key, &cloudcredentialv1.CredentialsRequest{})
			if client.IgnoreNotFound(err) != nil {
				return kept, fmt.Errorf("read CredentialsRequest %s: %w", credentials.Request, err)
			}
			if err == nil {
				kept = driver.Mints
			}
			continue
		}
		if r.Secrets[credentials.Secret] == nil {
			// A preview reads no Secrets.
			continue
		}
		found, err := r.secret(ctx, credentials.Secret)
		switch {
		case err != nil:
			return kept, err
		case found.minted:
			return driver.Mints, nil
		case found.passedThrough:
			return driver.PassesThrough, nil
		}
	}
	return kept, nil
}

// waitForMinting says that pods wait until it is known whether there will be credentials for them, and for how long at most.
func (r *Reconciler) waitForMinting(ctx context.Context, cfg driver.Config) (string, time.Duration, error) {
	if cfg.CredentialsMode != operatorv1.CloudCredentialsModeDefault || cfg.Minting != driver.MintingUnknown ||
		!cfg.Kinds[driver.CredentialsRequestKind()] {
		return "", 0, nil
	}
	for _, credentials := range r.Driver.Credentials {
		if credentials.Optional || cfg.RoleARNs[credentials.RoleARNVariable] != "" {
			continue
		}
		message := fmt.Sprintf("waiting for Secret %s/%s, which shows whether the cloud-credential-operator makes keys for this cluster",
			r.Namespace, credentials.Secret)
		return r.waitForRequest(ctx, credentials.Request, message)
	}
	return "", 0, nil
}
