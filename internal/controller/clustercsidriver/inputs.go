package clustercsidriver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// inputs fills in the hashes of the Secrets and certificates that pods read when they start. A missing input counts as unchanged, because running
// pods have already read it. For example, a client may be recreating a Secret.
func (r *Reconciler) inputs(ctx context.Context, found *seen) error {
	cfg, before := &found.config, found.live.inputsOf()
	cfg.DependencyHashes = map[driver.Workload]map[string]string{driver.Controller: {}, driver.Node: {}}
	if err := r.addDerived(ctx, found, before); err != nil {
		return err
	}
	for _, credentials := range r.Driver.Credentials {
		if credentials.Workload == "" {
			continue
		}
		if hash := found.live.credentials.Lasting(*cfg, credentials, before[credentials.Workload][credentials.Secret]); hash != "" {
			cfg.DependencyHashes[credentials.Workload][credentials.Secret] = hash
		}
	}
	if cfg.CloudCA != "" {
		cfg.DependencyHashes[driver.Controller][r.Driver.CloudCABundle()] = apply.Digest(cfg.CloudCA)
	}
	bundle, wait, err := r.trustedCA(ctx)
	if err != nil {
		return err
	}
	found.bundleWait = wait
	for _, workload := range workloads() {
		if hash := cmp.Or(bundle, before[workload][r.Driver.TrustedCABundle()]); hash != "" {
			cfg.DependencyHashes[workload][r.Driver.TrustedCABundle()] = hash
		}
	}
	return nil
}

// addDerived fills in the hash of the Secret of Driver.Derived. Argument "before" has the hashes of the live workloads.
func (r *Reconciler) addDerived(ctx context.Context, found *seen, before map[driver.Workload]map[string]string) error {
	if r.Driver.Derived == nil {
		return nil
	}
	last := ""
	for _, workload := range r.Driver.Derived.Workloads {
		last = cmp.Or(last, before[workload][r.Driver.Derived.Name])
	}
	var err error
	if found.derived, err = r.Derived.Secret(ctx, found.live.credentials, found.config, last); err != nil {
		return err
	}
	if problem := found.derived.Problem; problem != "" {
		if found.derived.Hash != "" {
			problem += "; the driver keeps its previous configuration"
		}
		found.problems = append(slices.Clone(found.problems), problem)
	}
	for _, workload := range r.Driver.Derived.Workloads {
		if found.derived.Hash != "" {
			found.config.DependencyHashes[workload][r.Driver.Derived.Name] = found.derived.Hash
		}
	}
	return nil
}

// trustedCA returns the hash of the CA bundle. Without a CA bundle, it returns how long to wait for the bundle.
func (r *Reconciler) trustedCA(ctx context.Context) (string, time.Duration, error) {
	if !r.Kinds[openshift.ProxyKind()] {
		// In a cluster without Proxies, no network operator fills in the bundle.
		return "", 0, nil
	}
	bundle := &corev1.ConfigMap{}
	name := r.Driver.TrustedCABundle()
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, bundle)
	if apierrors.IsNotFound(err) {
		return "", credential.LongestWait, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	if content := bundle.Data[driver.TrustedCAKey]; content != "" {
		// Earlier versions of this operator hashed the bundle twice, so this version must do the same. A different hash would restart all pods.
		return apply.Digest(apply.Hashed(content)), 0, nil
	}
	return "", credential.RestOfWait(bundle, r.Now()), nil
}

// inputsIn returns the hashes of inputs from the annotations of a pod template.
func inputsIn(annotations map[string]string) map[string]string {
	found := map[string]string{}
	for key, value := range annotations {
		if name, isInput := strings.CutPrefix(key, driver.DependencyHashAnnotation); isInput {
			found[name] = value
		}
	}
	return found
}
