package standin

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	openshiftPrefix = "openshift-"
	// pullSecretRef is the annotation of a ServiceAccount in which the real component records the name of the Secret.
	pullSecretRef = "openshift.io/internal-registry-pull-secret-ref"
	// pullSecretAccount is the annotation of the Secret in which the real component records the name of the ServiceAccount.
	pullSecretAccount = "openshift.io/internal-registry-auth-token.service-account"
	fakeRegistry      = `{"image-registry.invalid:5000":{"username":"<token>","password":"not-a-password","email":"serviceaccount@example.org"}}`
)

// pullSecrets replaces a controller of openshift-controller-manager. The controller gives each ServiceAccount a Secret, with which pods can pull from
// the cluster's own registry. It adds this Secret to two lists of the ServiceAccount, even if another operator maintains the ServiceAccount. If that
// operator removes the Secret from the lists, the controller adds the Secret again. So that operator and the controller would write forever.
type pullSecrets struct{ client client.Client }

func (s *pullSecrets) setup(manager ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return strings.HasPrefix(object.GetNamespace(), openshiftPrefix)
	})
	return ctrl.NewControllerManagedBy(manager).
		Named("pull-secrets").
		For(&corev1.ServiceAccount{}, builder.WithPredicates(ours)).
		Owns(&corev1.Secret{}, builder.MatchEveryOwner, builder.WithPredicates(ours)).
		Complete(s)
}

// Reconcile gives one ServiceAccount its Secret.
func (s *pullSecrets) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	account := &corev1.ServiceAccount{}
	if err := s.client.Get(ctx, request.NamespacedName, account); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if account.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	name := account.Name + "-dockercfg-" + suffix(string(account.UID))
	if err := s.ensureSecret(ctx, account, name); err != nil {
		return ctrl.Result{}, ignoreTerminating(err)
	}
	return ctrl.Result{}, s.ensureReferences(ctx, account, name)
}

func (s *pullSecrets) ensureSecret(ctx context.Context, account *corev1.ServiceAccount, name string) error {
	err := s.client.Get(ctx, client.ObjectKey{Namespace: account.Namespace, Name: name}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       account.Namespace,
			Name:            name,
			Annotations:     map[string]string{pullSecretAccount: account.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID}},
		},
		Type: corev1.SecretTypeDockercfg,
		Data: map[string][]byte{corev1.DockerConfigKey: []byte(fakeRegistry)},
	}
	if err := s.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create pull Secret %s/%s: %w", account.Namespace, name, err)
	}
	return nil
}

// ensureReferences adds the Secret to the two lists of the ServiceAccount. It keeps all other entries of these lists.
func (s *pullSecrets) ensureReferences(ctx context.Context, account *corev1.ServiceAccount, name string) error {
	wanted := account.DeepCopy()
	if !slices.Contains(account.ImagePullSecrets, corev1.LocalObjectReference{Name: name}) {
		wanted.ImagePullSecrets = append(wanted.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	if !slices.ContainsFunc(account.Secrets, func(r corev1.ObjectReference) bool { return r.Name == name }) {
		wanted.Secrets = append(wanted.Secrets, corev1.ObjectReference{Name: name})
	}
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, pullSecretRef, name)
	patch := client.StrategicMergeFrom(account)
	if changed, err := changes(patch, wanted); err != nil || !changed {
		return err
	}
	if err := s.client.Patch(ctx, wanted, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("add pull Secret %s to ServiceAccount %s/%s: %w", name, account.Namespace, account.Name, err))
	}
	return nil
}

// suffix makes five characters from an ID. The result depends only on the ID, so it stays the same after a restart.
func suffix(id string) string {
	sum := sha256.Sum256([]byte(id))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:5])
}

// changes reports whether a patch would change the object.
func changes(patch client.Patch, object client.Object) (bool, error) {
	data, err := patch.Data(object)
	if err != nil {
		return false, fmt.Errorf("compute the patch of %T %s/%s: %w", object, object.GetNamespace(), object.GetName(), err)
	}
	return string(data) != "{}", nil
}

// ignoreTerminating drops the error of a write into a namespace that is being deleted.
func ignoreTerminating(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
