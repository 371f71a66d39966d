// Package openshift reads the configuration of an OpenShift cluster. It reads each object of the configuration once, and skips the kinds that the
// cluster does not serve. It also has the names of objects, labels and annotations that OpenShift defines.
package openshift

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is the configuration of a cluster. The field for a missing object is zero.
type Cluster struct {
	// Infrastructure is nil if the cluster has none.
	Infrastructure *configv1.Infrastructure
	// Proxy is the status of the Proxy, because the network operator validates and completes the spec, and writes the result into the status.
	Proxy configv1.ProxyStatus
	// TLS is the profile for servers. If the cluster's profile is invalid, TLS has the profile Intermediate, and TLS.Problem says why.
	TLS ServerTLS
	// CredentialsMode is the mode of the cloud-credential-operator.
	CredentialsMode operatorv1.CloudCredentialsMode
	// FeatureGate is nil if the cluster has none.
	FeatureGate *configv1.FeatureGate
}

// Read reads the configuration objects of these kinds. The cluster must serve all these kinds. A missing object is no error.
func Read(ctx context.Context, reader client.Reader, kinds map[schema.GroupKind]bool) (Cluster, error) {
	var found Cluster
	infrastructure, proxy, gate := &configv1.Infrastructure{}, &configv1.Proxy{}, &configv1.FeatureGate{}
	credential, apiServer := &operatorv1.CloudCredential{}, APIServer()
	for _, one := range []struct {
		kind   schema.GroupKind
		object client.Object
		found  func()
	}{
		{InfrastructureKind(), infrastructure, func() { found.Infrastructure = infrastructure }},
		{FeatureGateKind(), gate, func() { found.FeatureGate = gate }},
		{ProxyKind(), proxy, func() { found.Proxy = proxy.Status }},
		{CloudCredentialKind(), credential, func() { found.CredentialsMode = credential.Spec.CredentialsMode }},
		{APIServerKind().GroupKind(), apiServer, func() {}},
	} {
		if !kinds[one.kind] {
			continue
		}
		exists, err := read(ctx, reader, one.kind, one.object)
		if err != nil {
			return found, err
		}
		if exists {
			one.found()
		}
	}
	var err error
	if found.TLS, err = ServerTLSOf(apiServer); err != nil {
		// An invalid TLS profile must not stop storage. So continue with the profile Intermediate, and report the problem.
		found.TLS = ServerTLS{Profile: IntermediateTLS(), Problem: fmt.Sprintf(
			"TLS security profile: %s: Intermediate is used instead; correct spec.tlsSecurityProfile of APIServer %s", err, Singleton)}
	}
	return found, nil
}

// ReadInfrastructure reads only the Infrastructure. It returns nil if the cluster has none.
func ReadInfrastructure(ctx context.Context, reader client.Reader) (*configv1.Infrastructure, error) {
	infrastructure := &configv1.Infrastructure{}
	if exists, err := read(ctx, reader, InfrastructureKind(), infrastructure); err != nil || !exists {
		return nil, err
	}
	return infrastructure, nil
}

// read reads the only object of a kind. It returns false if the object does not exist.
func read(ctx context.Context, reader client.Reader, kind schema.GroupKind, object client.Object) (bool, error) {
	err := reader.Get(ctx, client.ObjectKey{Name: Singleton}, object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %s %s: %w", kind.Kind, Singleton, err)
	}
	return !apierrors.IsNotFound(err), nil
}

// PlatformOf returns the platform that an Infrastructure names, in its current or its deprecated field. It returns an empty platform if the
// Infrastructure names none.
func PlatformOf(status configv1.InfrastructureStatus) configv1.PlatformType {
	var named configv1.PlatformType
	if status.PlatformStatus != nil {
		named = status.PlatformStatus.Type
	}
	return cmp.Or(named, status.Platform) //nolint:staticcheck // Old clusters have only this one.
}

// Literal escapes a value for an argument or variable of a container. Without Literal, the kubelet would expand $(NAME) in the value, and replace $$
// by $ (kubernetes v1.36.3, third_party/forked/golang/expansion/expand.go).
func Literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// ProxyVariables returns the environment variables for the cluster's proxy. It returns none if the cluster has no proxy.
func ProxyVariables(proxy configv1.ProxyStatus) []corev1.EnvVar {
	all := []corev1.EnvVar{
		{Name: "HTTP_PROXY", Value: Literal(proxy.HTTPProxy)}, {Name: "HTTPS_PROXY", Value: Literal(proxy.HTTPSProxy)},
		{Name: "NO_PROXY", Value: Literal(proxy.NoProxy)},
	}
	return slices.DeleteFunc(all, func(variable corev1.EnvVar) bool { return variable.Value == "" })
}
