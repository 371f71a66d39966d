package clustercsidriver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/openshift"
	"github.com/csi-operators/csi-operators/internal/status"
)

// lateInput is how long a roll-out waits for something that the cluster makes on its own but may also never make. Without
// it, the pods would be started twice.
const lateInput = 2 * time.Minute

// held says why a workload is not applied: what its pods read when they start is not there yet.
type held map[driver.Workload]string

// inputs fills in the hashes of what pods read when they start. What is gone for the moment, because the cluster makes it
// anew for instance, counts as unchanged: pods run on with what they have read. It returns which workloads have to wait,
// and when to look again.
func (r *Reconciler) inputs(ctx context.Context, cfg *driver.Config) (held, time.Duration, error) {
	waits := held{}
	var again time.Duration
	before, err := r.formerInputs(ctx)
	if err != nil {
		return nil, 0, err
	}
	cfg.Inputs = map[driver.Workload]map[string]string{driver.Controller: {}, driver.Node: {}}
	for _, credentials := range r.Driver.Credentials {
		hash, err := r.lastingSecret(ctx, *cfg, credentials, before[credentials.Workload][credentials.Secret])
		if err != nil {
			return nil, 0, err
		}
		if hash != "" {
			cfg.Inputs[credentials.Workload][credentials.Secret] = hash
			continue
		}
		message, wait, err := r.waitForSecret(ctx, *cfg, credentials)
		if err != nil {
			return nil, 0, err
		}
		if message != "" {
			waits[credentials.Workload] = message
			again = status.Soonest(again, wait)
		}
	}
	if cfg.CloudCA != "" {
		// It is there, or it is none: nothing else makes it late.
		cfg.Inputs[driver.Controller][r.Driver.CloudCABundle()] = shortHash(cfg.CloudCA)
	}
	bundle, wait, err := r.trustedCA(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
		hash := bundle
		if hash == "" {
			hash = before[workload][r.Driver.TrustedCABundle()]
		}
		switch {
		case hash != "":
			cfg.Inputs[workload][r.Driver.TrustedCABundle()] = hash
		case wait > 0 && waits[workload] == "":
			waits[workload] = fmt.Sprintf("waiting for ConfigMap %s/%s, which the network operator fills in", r.Namespace, r.Driver.TrustedCABundle())
			again = status.Soonest(again, wait)
		}
	}
	return waits, again, nil
}

// lastingSecret is the hash of a Secret, or the former one while it is gone for the moment.
func (r *Reconciler) lastingSecret(ctx context.Context, cfg driver.Config, credentials driver.Credentials, before string) (string, error) {
	found, err := r.secret(ctx, credentials.Secret)
	switch {
	case err != nil:
		return "", err
	case credentials.Optional && !cfg.Requests(credentials) && found.request == cloudcredentialv1.Namespace+"/"+credentials.Request:
		// It goes with its request, for good.
		return "", nil
	case credentials.Optional && found.passedThrough:
		return "", nil
	case found.hash == "" || !credentials.Usable(found.keys):
		// A Secret may be made in several steps.
		return before, nil
	default:
		return found.hash, nil
	}
}

// waitForSecret says why pods wait for a Secret that is not there, and for how long at most; nothing if they do not.
func (r *Reconciler) waitForSecret(ctx context.Context, cfg driver.Config, credentials driver.Credentials) (string, time.Duration, error) {
	message := fmt.Sprintf("waiting for Secret %s/%s", r.Namespace, credentials.Secret)
	switch {
	case !credentials.Optional:
		// The pods would not start without it.
		return message, 0, nil
	case !cfg.Requests(credentials):
		return r.waitForMinting(ctx, cfg)
	}
	return r.waitForRequest(ctx, credentials.Request, message)
}

// waitForRequest is for how long to wait at most for what a CredentialsRequest asks for, and the message meanwhile; nothing if that is over.
func (r *Reconciler) waitForRequest(ctx context.Context, name, message string) (string, time.Duration, error) {
	request := &cloudcredentialv1.CredentialsRequest{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: cloudcredentialv1.Namespace, Name: name}, request)
	if apierrors.IsNotFound(err) {
		return message, lateInput, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("read CredentialsRequest %s: %w", name, err)
	}
	if wait := r.stillLate(request); wait > 0 {
		return message, wait, nil
	}
	return "", 0, nil
}

// trustedCA returns the hash of the CA bundle, and for how long to wait for it if there is none.
func (r *Reconciler) trustedCA(ctx context.Context) (string, time.Duration, error) {
	if !r.Kinds[openshift.ProxyKind()] {
		// Nobody fills in the bundle.
		return "", 0, nil
	}
	bundle := &corev1.ConfigMap{}
	name := r.Driver.TrustedCABundle()
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, bundle)
	if apierrors.IsNotFound(err) {
		return "", lateInput, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	if content := bundle.Data[driver.TrustedCAKey]; content != "" {
		return shortHash(content), 0, nil
	}
	return "", r.stillLate(bundle), nil
}

// stillLate is the rest of lateInput since an object was made.
func (r *Reconciler) stillLate(object client.Object) time.Duration {
	// Clocks may differ.
	return min(lateInput, max(0, lateInput-r.Now().Sub(object.GetCreationTimestamp().Time)))
}

// formerInputs are the hashes that the live workloads were made with.
func (r *Reconciler) formerInputs(ctx context.Context) (map[driver.Workload]map[string]string, error) {
	deployment, daemonSet, err := r.newestWorkloads(ctx)
	if err != nil {
		return nil, err
	}
	found := map[driver.Workload]map[string]string{driver.Controller: {}, driver.Node: {}}
	keep := func(workload driver.Workload, pods corev1.PodTemplateSpec) {
		for key, value := range pods.Annotations {
			if name, isInput := strings.CutPrefix(key, driver.InputAnnotation); isInput {
				found[workload][name] = value
			}
		}
	}
	if deployment != nil {
		keep(driver.Controller, deployment.Spec.Template)
	}
	if daemonSet != nil {
		keep(driver.Node, daemonSet.Spec.Template)
	}
	return found, nil
}

// hashBundle does the same for the CA bundle, which is large. What labels its ConfigMap has does not matter: somebody may
// change them.
func hashBundle(object any) (any, error) {
	if config, ok := object.(*corev1.ConfigMap); ok {
		if bundle := config.Data[driver.TrustedCAKey]; bundle != "" {
			config.Data[driver.TrustedCAKey] = hashed(bundle)
		}
	}
	return object, nil
}

// hashed returns the hash of a value, and a hash as it is: a cache may transform an object twice, for instance when it is
// filled by a stream.
func hashed(value string) string {
	const prefix = "sha256-"
	if hash, found := strings.CutPrefix(value, prefix); found && len(hash) == hex.EncodedLen(sha256.Size) {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return prefix + hex.EncodeToString(sum[:])
}

// shortHash is what goes into an annotation.
func shortHash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:16])
}
