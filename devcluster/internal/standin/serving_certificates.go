package standin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/pki"
)

const (
	servingSecretName = "service.beta.openshift.io/serving-cert-secret-name"
	servingSignedBy   = "service.beta.openshift.io/serving-cert-signed-by"
	servingSignedByV0 = "service.alpha.openshift.io/serving-cert-signed-by"
	servingError      = "service.beta.openshift.io/serving-cert-generation-error"
	servingServiceUID = "service.beta.openshift.io/originating-service-uid"
	servingService    = "service.beta.openshift.io/originating-service-name"
	servingSigner     = "openshift-service-serving-signer@devcluster"
)

// servingCertificates replaces service-ca-operator. If the annotation of a Service names a Secret, the stand-in writes a certificate for the
// Service's DNS names into this Secret. The Service owns the Secret. If the Secret is lost or damaged, the stand-in makes it again. If another
// owner has a Secret of that name, the stand-in does not change it.
type servingCertificates struct {
	client    client.Client
	authority *pki.Authority
}

func (s *servingCertificates) setup(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		Named("serving-certificates").
		For(&corev1.Service{}).
		Owns(&corev1.Secret{}, builder.MatchEveryOwner).
		Complete(s)
}

// Reconcile gives one Service its certificate.
func (s *servingCertificates) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	service := &corev1.Service{}
	if err := s.client.Get(ctx, request.NamespacedName, service); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name := service.Annotations[servingSecretName]
	if name == "" || service.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: service.Namespace, Name: name}, secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, err
	}
	if err == nil && !belongsTo(secret, service) {
		message := fmt.Sprintf("secret %s/%s does not have corresponding service UID %s", service.Namespace, name, service.UID)
		return ctrl.Result{}, s.annotate(ctx, service, map[string]string{servingError: message})
	}
	if err != nil || !s.valid(secret, service) {
		if err := s.issue(ctx, service, name); err != nil {
			return ctrl.Result{}, ignoreTerminating(err)
		}
	}
	return ctrl.Result{}, s.annotate(ctx, service, map[string]string{servingSignedBy: servingSigner, servingSignedByV0: servingSigner})
}

func (s *servingCertificates) issue(ctx context.Context, service *corev1.Service, name string) error {
	pair, err := s.authority.Serving(hosts(service)[0], hosts(service)...)
	if err != nil {
		return err
	}
	secret := corev1ac.Secret(name, service.Namespace).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion("v1").WithKind("Service").WithName(service.Name).WithUID(service.UID)).
		WithAnnotations(map[string]string{servingService: service.Name, servingServiceUID: string(service.UID)}).
		WithType(corev1.SecretTypeTLS).
		WithData(map[string][]byte{corev1.TLSCertKey: append(pair.Cert, s.authority.Cert...), corev1.TLSPrivateKeyKey: pair.Key})
	if err := s.client.Apply(ctx, secret, client.ForceOwnership); err != nil {
		return fmt.Errorf("write serving certificate Secret %s/%s: %w", service.Namespace, name, err)
	}
	return nil
}

// annotate sets annotations of the Service. If the annotations contain no error, annotate removes the annotation with an earlier error.
func (s *servingCertificates) annotate(ctx context.Context, service *corev1.Service, annotations map[string]string) error {
	wanted := service.DeepCopy()
	for key, value := range annotations {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, key, value)
	}
	if annotations[servingError] == "" {
		delete(wanted.Annotations, servingError)
	}
	patch := client.MergeFrom(service)
	if changed, err := changes(patch, wanted); err != nil || !changed {
		return err
	}
	if err := s.client.Patch(ctx, wanted, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("annotate Service %s/%s: %w", service.Namespace, service.Name, err))
	}
	return nil
}

// valid reports whether the Secret still has the certificate of the Service.
func (s *servingCertificates) valid(secret *corev1.Secret, service *corev1.Service) bool {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	return err == nil && slices.Equal(cert.DNSNames, hosts(service)) && s.authority.Signed(secret.Data[corev1.TLSCertKey])
}

func belongsTo(secret *corev1.Secret, service *corev1.Service) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == service.UID })
}

func hosts(service *corev1.Service) []string {
	name := service.Name + "." + service.Namespace + ".svc"
	return []string{name, name + ".cluster.local"}
}
