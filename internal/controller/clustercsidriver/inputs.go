package clustercsidriver

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/openshift"
	"github.com/csi-operators/csi-operators/internal/status"
)

// longestWait is how long a roll-out waits for something that the cluster makes on its own but may also never make. Without
// it, the pods would be started twice.
const longestWait = 2 * time.Minute

// inputs fills in the hashes of what pods read when they start. What is gone for the moment, because the cluster makes it
// anew for instance, counts as unchanged: pods run on with what they have read. It also fills in which workloads are held,
// and when to look again.
func (r *Reconciler) inputs(ctx context.Context, found *seen) error {
	cfg, before := &found.config, found.live.inputsOf()
	found.holds = driver.Holds{}
	cfg.DependencyHashes = map[driver.Workload]map[string]string{driver.Controller: {}, driver.Node: {}}
	if err := r.addDerived(ctx, found); err != nil {
		return err
	}
	for _, credentials := range r.Driver.Credentials {
		if credentials.Workload == "" {
			continue
		}
		hash := lastingSecret(*cfg, credentials, found.live.secrets[credentials.Secret], before[credentials.Workload][credentials.Secret])
		if hash != "" {
			cfg.DependencyHashes[credentials.Workload][credentials.Secret] = hash
			continue
		}
		if message, wait := r.waitForSecret(*cfg, credentials, found.live); message != "" {
			found.holds[credentials.Workload] = message
			found.again = status.MinRequeue(found.again, wait)
		}
	}
	if cfg.CloudCA != "" {
		// It is there, or it is none: nothing else makes it late.
		cfg.DependencyHashes[driver.Controller][r.Driver.CloudCABundle()] = apply.Digest(cfg.CloudCA)
	}
	bundle, wait, err := r.trustedCA(ctx)
	if err != nil {
		return err
	}
	for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
		hash := bundle
		if hash == "" {
			hash = before[workload][r.Driver.TrustedCABundle()]
		}
		switch {
		case hash != "":
			cfg.DependencyHashes[workload][r.Driver.TrustedCABundle()] = hash
		case wait > 0 && found.holds[workload] == "":
			found.holds[workload] = fmt.Sprintf("waiting for ConfigMap %s/%s, which the network operator fills in", r.Namespace, r.Driver.TrustedCABundle())
			found.again = status.MinRequeue(found.again, wait)
		}
	}
	return nil
}

// lastingSecret is the hash of a Secret, or the one before while it is gone for the moment.
func lastingSecret(cfg driver.Config, credentials driver.Credentials, found foundSecret, before string) string {
	switch {
	case credentials.Optional && !cfg.Requests(credentials) && found.request == cloudcredentialv1.Namespace+"/"+credentials.Request:
		// It goes with its request, for good.
		return ""
	case credentials.Optional && found.passedThrough:
		return ""
	case found.hash == "" || !credentials.Usable(found.keys):
		// A Secret may be made in several steps.
		return before
	default:
		return found.hash
	}
}

// waitForSecret says why pods wait for a Secret that is not there, and for how long at most; nothing if they do not.
func (r *Reconciler) waitForSecret(cfg driver.Config, credentials driver.Credentials, live live) (string, time.Duration) {
	message := fmt.Sprintf("waiting for Secret %s/%s", r.Namespace, credentials.Secret)
	switch {
	case !credentials.Optional:
		// The pods would not start without it.
		return message, 0
	case !cfg.Requests(credentials):
		return r.waitForMinting(cfg, live)
	}
	return r.waitForRequest(live.requests[credentials.Request], message)
}

// waitForRequest is for how long to wait at most for what a CredentialsRequest asks for, and the message meanwhile; nothing if that is over.
func (r *Reconciler) waitForRequest(request *cloudcredentialv1.CredentialsRequest, message string) (string, time.Duration) {
	if request == nil {
		return message, longestWait
	}
	if wait := r.restOfWait(request); wait > 0 {
		return message, wait
	}
	return "", 0
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
		return "", longestWait, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	if content := bundle.Data[driver.TrustedCAKey]; content != "" {
		return apply.Digest(content), 0, nil
	}
	return "", r.restOfWait(bundle), nil
}

// restOfWait is the rest of longestWait since an object was made.
func (r *Reconciler) restOfWait(object client.Object) time.Duration {
	// Clocks may differ.
	return min(longestWait, max(0, longestWait-r.Now().Sub(object.GetCreationTimestamp().Time)))
}

// inputsIn are the hashes among the annotations of a pod template.
func inputsIn(annotations map[string]string) map[string]string {
	found := map[string]string{}
	for key, value := range annotations {
		if name, isInput := strings.CutPrefix(key, driver.DependencyHashAnnotation); isInput {
			found[name] = value
		}
	}
	return found
}
