package efshealth

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// place is the cluster's location and identity in AWS.
type place struct {
	region, infraID string
	// lacksRegion is true if the cluster is in AWS and its region is unknown.
	lacksRegion bool
	endpoints   map[string]string
	tags        []configv1.AWSResourceTag
}

// connection is a client for AWS, and a hash of its configuration.
type connection struct {
	madeOf string
	cloud  Cloud
	// problem says why the operator has a Secret but no client. It is empty if the operator has a client or no Secret.
	problem string
	// credentials are the credentials from the Secret. hash is the hash of that Secret.
	hash        string
	credentials *aws.Secret
}

func (r *Reconciler) place(ctx context.Context) (place, error) {
	found := place{region: r.Region}
	if !r.HasInfrastructure {
		return found, nil
	}
	object, err := openshift.ReadInfrastructure(ctx, r.Client)
	if err != nil || object == nil {
		return found, err
	}
	found.infraID = object.Status.InfrastructureName
	if platform := object.Status.PlatformStatus; platform != nil && platform.AWS != nil {
		found.region, found.tags = cmp.Or(platform.AWS.Region, r.Region), platform.AWS.ResourceTags
		found.lacksRegion = found.region == ""
		found.endpoints = map[string]string{}
		for _, endpoint := range platform.AWS.ServiceEndpoints {
			found.endpoints[endpoint.Name] = endpoint.URL
		}
	}
	return found, nil
}

// connect returns a client with the controller's credentials. It returns nil without credentials. It creates a new client when the credentials, the
// CA bundle, the region or the endpoints change. The caches hold only hashes of Secrets, so connect reads a changed Secret live. Only the connection
// keeps the content of the Secret.
func (r *Reconciler) connect(ctx context.Context, place place) (Cloud, error) {
	hash, err := r.hashOf(ctx, r.Controller.Secret, r.Controller)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Off, hash == "", place.region == "" && !place.lacksRegion:
		r.setConnection(connection{})
		return nil, nil
	case place.lacksRegion:
		const problem = "Infrastructure cluster has no region in status.platformStatus.aws: add it, or set AWS_REGION for the operator"
		r.setConnection(connection{madeOf: problem, problem: problem})
		return nil, nil
	}
	bundle := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.TrustedCABundle()}
	if err := r.Client.Get(ctx, key, bundle); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	madeOf := apply.Digest(fmt.Sprint(hash, bundle.Data[driver.TrustedCAKey], place.region, place.endpoints))
	if r.connection.madeOf == madeOf {
		return r.connection.cloud, nil
	}
	options := aws.Options{Region: place.region, Endpoints: place.endpoints, Wrap: r.bound}
	if roots := bundle.Data[driver.TrustedCAKey]; roots != "" {
		options.RootCAs = []byte(roots)
	}
	next, err := r.open(ctx, hash, options)
	if err != nil {
		return nil, err
	}
	next.madeOf = madeOf
	r.setConnection(next)
	return next.cloud, nil
}

const (
	// maxAnswer is the maximum size of a response, in bytes. A page of AWS has 100 objects, and an object has up to 80 kB with all tags.
	maxAnswer = 16 << 20
	// maxRound is the maximum size of all responses of one poll together, in bytes. An access point takes about 1 kB, and a file system has at most
	// 10,000 access points.
	maxRound = 128 << 20
)

// bound limits the size of responses, in case a faulty endpoint answers in place of AWS.
func (r *Reconciler) bound(next http.RoundTripper) http.RoundTripper {
	return &poll.Transport{Next: next, Budget: &r.poller.answers, MaxAnswer: maxAnswer}
}

// open creates a client. It reads the Secret only if the hash has changed. Unusable credentials are no error, because a retry does not help. A change
// of the Secret or of the CA bundle triggers the next attempt.
func (r *Reconciler) open(ctx context.Context, hash string, options aws.Options) (connection, error) {
	next := connection{hash: hash, credentials: r.connection.credentials}
	if r.connection.hash != hash || next.credentials == nil {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: r.Namespace, Name: r.Controller.Secret}
		if err := r.Live.Get(ctx, key, secret); err != nil {
			return connection{}, fmt.Errorf("read Secret %s: %w", key, err)
		}
		credentials, err := aws.ReadSecret(secret.Data)
		if err != nil {
			return connection{problem: fmt.Sprintf("Secret %s can't be used: %s", key, err)}, nil
		}
		next.credentials = &credentials
	}
	options.Secret = next.credentials
	var err error
	if next.cloud, err = r.Connect(ctx, options); err != nil {
		next.cloud, next.problem = nil, err.Error()
	}
	return next, nil
}

// setConnection replaces the connection. It clears the failures of the previous connection.
func (r *Reconciler) setConnection(next connection) {
	if r.connection.madeOf == next.madeOf {
		return
	}
	r.connection = next
	r.tags.after, r.tags.denied = time.Time{}, denials{}
	r.metrics.setClient(next.cloud)
}

func (r *Reconciler) hasNodeRole(ctx context.Context) (bool, error) {
	hash, err := r.hashOf(ctx, r.Node.Secret, r.Node)
	return hash != "", err
}

// hashOf returns a hash of a Secret. It returns an empty string if the Secret is absent, is unusable, or is withheld from the pods.
func (r *Reconciler) hashOf(ctx context.Context, name string, credentials driver.Credentials) (string, error) {
	secret := &corev1.Secret{}
	err := r.Secrets[name].Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read Secret %s: %w", name, err)
	}
	keys := slices.Sorted(maps.Keys(secret.Data))
	if !credentials.Usable(keys) || (credentials.Optional && driver.PassedThrough(secret)) {
		return "", nil
	}
	text := ""
	for _, key := range keys {
		text += fmt.Sprintf("%q:%q\n", key, secret.Data[key])
	}
	return apply.Digest(text), nil
}
