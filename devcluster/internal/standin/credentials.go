package standin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	requestNamespace  = "openshift-cloud-credential-operator"
	requestFinalizer  = "cloudcredential.openshift.io/deprovision"
	requestAnnotation = "cloudcredential.openshift.io/credentials-request"
	// policyAnnotation is an annotation of Secrets with keys of AWS. Its value is the policy of the user that was minted for the request. If no user was
	// minted, the value is empty.
	policyAnnotation = "cloudcredential.openshift.io/aws-policy-last-applied"
	// modeAnnotation is an annotation of the administrator's Secret. It says whether the keys in this Secret can mint other keys.
	modeAnnotation = "cloudcredential.openshift.io/mode"
)

// rootSecret returns the name of the Secret with the keys that the administrator gave to a cluster on AWS.
func rootSecret() client.ObjectKey {
	return client.ObjectKey{Namespace: "kube-system", Name: "aws-creds"}
}

// copiedRoots returns the names of the administrator's Secrets that the real operator copies, by the kind of the request. For a request of such a
// kind, the real operator mints no credentials (cloud-credential-operator b187feee6, pkg/openstack/actuator.go and pkg/vsphere/actuator/actuator.go,
// sync).
func copiedRoots() map[string]client.ObjectKey {
	return map[string]client.ObjectKey{
		"OpenStackProviderSpec": {Namespace: "kube-system", Name: "openstack-credentials"},
		"VSphereProviderSpec":   {Namespace: "kube-system", Name: "vsphere-creds"},
	}
}

// mode says how the cluster provides credentials. It follows from the cluster's configuration.
type mode int

const (
	mint mode = iota
	// passthrough copies the administrator's keys.
	passthrough
	manual
	// sts is manual mode with an issuer of tokens that the cloud trusts.
	sts
)

// credentials replaces cloud-credential-operator. In mint mode, each CredentialsRequest gets a Secret with fake keys of its cloud. In passthrough
// mode on AWS, all requests get the same keys. If the configuration sets no mode, an annotation of Secret kube-system/aws-creds sets it. Without this
// annotation, the mode is mint. The real operator asks AWS what the keys may do, and sets the annotation accordingly. A change between mint and
// passthrough does not change existing Secrets. In manual mode, the administrator creates the Secrets. If the cluster also has an issuer that the
// cloud trusts, a request with a role gets a Secret for that role.
type credentials struct{ client client.Client }

func (s *credentials) setup(manager ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(s.allRequests)
	return ctrl.NewControllerManagedBy(manager).
		Named("credentials").
		For(newRequest()).
		// If a minted Secret is lost, the stand-in creates it again. If the administrator's Secret changes, the stand-in copies it again
		// (cloud-credential-operator b187feee6, pkg/operator/credentialsrequest/credentialsrequest_controller.go:216-231).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(s.requestsOfSecret)).
		// The namespace of the Secret can be created after the request.
		Watches(&corev1.Namespace{}, all).
		// These two hold the mode.
		Watches(&operatorv1.CloudCredential{}, all).
		Watches(&configv1.Authentication{}, all).
		Complete(s)
}

// Reconcile provides the Secret of one CredentialsRequest. If the request is being deleted, it deletes the Secret.
func (s *credentials) Reconcile(ctx context.Context, key ctrl.Request) (ctrl.Result, error) {
	if key.Namespace != requestNamespace {
		return ctrl.Result{}, nil
	}
	object := newRequest()
	if err := s.client.Get(ctx, key.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	request, err := decodeRequest(object)
	if err != nil {
		return ctrl.Result{}, err
	}
	mode, err := s.mode(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	data := secretData(request, mode)
	if err := s.copyRoot(ctx, request, &data); err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case object.GetDeletionTimestamp() != nil:
		return ctrl.Result{}, s.takeBack(ctx, request, mode)
	case data.content == nil:
		return ctrl.Result{}, nil
	default:
		return ctrl.Result{}, s.provide(ctx, request, data)
	}
}

// copyRoot replaces the content of a request's Secret by the administrator's credentials. It does this only for the kinds of copiedRoots, and only if
// the administrator's Secret exists.
func (s *credentials) copyRoot(ctx context.Context, request *credentialsRequest, data *provided) error {
	key, copied := copiedRoots()[request.Spec.ProviderSpec.Kind]
	if data.content == nil || !copied {
		return nil
	}
	root := &corev1.Secret{}
	err := s.client.Get(ctx, key, root)
	if err == nil {
		data.content, data.isRoot = root.Data, true
	}
	return client.IgnoreNotFound(err)
}

// mode reads from the configuration how the cluster provides credentials.
func (s *credentials) mode(ctx context.Context) (mode, error) {
	config := &operatorv1.CloudCredential{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: "cluster"}, config); err != nil {
		return 0, fmt.Errorf("get CloudCredential cluster: %w", err)
	}
	switch config.Spec.CredentialsMode {
	case operatorv1.CloudCredentialsModeMint:
		return mint, nil
	case operatorv1.CloudCredentialsModePassthrough:
		return passthrough, nil
	case operatorv1.CloudCredentialsModeManual:
	default:
		return s.defaultMode(ctx)
	}
	authentication := &configv1.Authentication{}
	if err := s.client.Get(ctx, client.ObjectKey{Name: "cluster"}, authentication); err != nil {
		return 0, fmt.Errorf("get Authentication cluster: %w", err)
	}
	if authentication.Spec.ServiceAccountIssuer == "" {
		return manual, nil
	}
	return sts, nil
}

// defaultMode returns the mode that fits the administrator's keys.
func (s *credentials) defaultMode(ctx context.Context) (mode, error) {
	root := &corev1.Secret{}
	err := s.client.Get(ctx, rootSecret(), root)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("get Secret %s: %w", rootSecret(), err)
	}
	if root.Annotations[modeAnnotation] == "passthrough" {
		return passthrough, nil
	}
	return mint, nil
}

// provide makes the Secret of a request, and updates the status of the request.
func (s *credentials) provide(ctx context.Context, request *credentialsRequest, data provided) error {
	object := request.object
	if !controllerutil.ContainsFinalizer(object, requestFinalizer) {
		wanted := object.DeepCopy()
		controllerutil.AddFinalizer(wanted, requestFinalizer)
		if err := s.client.Patch(ctx, wanted, optimistic(object)); err != nil {
			return fmt.Errorf("add the finalizer to CredentialsRequest %s: %w", request.key(), err)
		}
		// The change of the object causes an event, whose reconcile continues.
		return nil
	}
	namespace := &corev1.Namespace{}
	err := s.client.Get(ctx, client.ObjectKey{Name: request.Spec.SecretRef.Namespace}, namespace)
	if apierrors.IsNotFound(err) {
		return s.setStatus(ctx, request, false)
	}
	if err != nil {
		return err
	}
	if err := s.ensureSecret(ctx, request, data); err != nil {
		return ignoreTerminating(err)
	}
	return s.setStatus(ctx, request, true)
}

func (s *credentials) ensureSecret(ctx context.Context, request *credentialsRequest, data provided) error {
	reference := request.Spec.SecretRef
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	goods := []provided{data, secretData(request, mint), secretData(request, passthrough)}
	if data.isRoot {
		goods = goods[:1]
	}
	for _, good := range goods {
		if err == nil && data.forUser == good.forUser && good.is(secret, request.key()) {
			return nil
		}
	}
	wanted := corev1ac.Secret(reference.Name, reference.Namespace).WithAnnotations(data.annotations(request.key())).WithData(data.content)
	if err := s.client.Apply(ctx, wanted, client.ForceOwnership); err != nil {
		return fmt.Errorf("write Secret %s/%s of CredentialsRequest %s: %w", reference.Namespace, reference.Name, request.key(), err)
	}
	return nil
}

// takeBack deletes the Secret that the stand-in made for the request, and removes the finalizer of the request. In manual mode, takeBack keeps the
// Secret.
func (s *credentials) takeBack(ctx context.Context, request *credentialsRequest, mode mode) error {
	object := request.object
	if !controllerutil.ContainsFinalizer(object, requestFinalizer) {
		return nil
	}
	if mode != manual {
		if err := s.deleteSecret(ctx, request); err != nil {
			return err
		}
	}
	wanted := object.DeepCopy()
	controllerutil.RemoveFinalizer(wanted, requestFinalizer)
	if err := s.client.Patch(ctx, wanted, optimistic(object)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("drop the finalizer of CredentialsRequest %s: %w", request.key(), err))
	}
	return nil
}

func (s *credentials) deleteSecret(ctx context.Context, request *credentialsRequest) error {
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: request.Spec.SecretRef.Namespace, Name: request.Spec.SecretRef.Name}, secret)
	if err != nil || secret.Annotations[requestAnnotation] != request.key() {
		return client.IgnoreNotFound(err)
	}
	if err := s.client.Delete(ctx, secret); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("delete Secret %s/%s of CredentialsRequest %s: %w",
			secret.Namespace, secret.Name, request.key(), err))
	}
	return nil
}

// setStatus updates the status of the request, unless the status is already right.
func (s *credentials) setStatus(ctx context.Context, request *credentialsRequest, provisioned bool) error {
	wanted, changed, err := request.withStatus(provisioned)
	if err != nil || !changed {
		return err
	}
	if err := s.client.Status().Patch(ctx, wanted, client.MergeFrom(request.object)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the status of CredentialsRequest %s: %w", request.key(), err))
	}
	return nil
}

func (s *credentials) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	list := newRequestList()
	if err := s.client.List(ctx, list, client.InNamespace(requestNamespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list CredentialsRequests")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// requestsOfSecret returns the request to which a minted Secret belongs. For a Secret of the administrator, it returns all requests.
func (s *credentials) requestsOfSecret(ctx context.Context, object client.Object) []reconcile.Request {
	roots := append(slices.Collect(maps.Values(copiedRoots())), rootSecret())
	if slices.Contains(roots, client.ObjectKeyFromObject(object)) {
		return s.allRequests(ctx, object)
	}
	namespace, name, found := strings.Cut(object.GetAnnotations()[requestAnnotation], "/")
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// optimistic returns a patch that fails if another client has changed the object meanwhile. The patch replaces the whole list of finalizers, and
// would otherwise undo a change of the list by that client.
func optimistic(object client.Object) client.Patch {
	return client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
}
