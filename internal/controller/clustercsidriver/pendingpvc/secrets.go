package pendingpvc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// secret is the name of a Secret that a StorageClass names.
type secret struct{ namespace, name string }

// String is safe to print, because both parts are valid names in Kubernetes.
func (s secret) String() string { return s.namespace + "/" + s.name }

// namedSecrets returns the Secrets that sidecars read for these StorageClasses, sorted and without duplicates (external-provisioner v6.3.0,
// pkg/controller/controller.go, secretParamsMap and getSecretReference). External-resizer reads the Secret whose name the provisioner has copied from
// the StorageClass into the PersistentVolume. namedSecrets skips names with placeholders, because the author of a PVC controls the resulting name. If
// such a name is wrong, events of the PVC report the problem. namedSecrets also skips the Secret that the rendered RBAC lets the controller read.
func (p *PVCs) namedSecrets(classes []storagev1.StorageClass) []secret {
	if p.Driver.NamedSecrets == nil {
		return nil
	}
	granted := secret{namespace: p.Namespace, name: p.Driver.NamedSecrets.Granted}
	const prefix = "csi.storage.k8s.io/"
	var found []secret
	for _, class := range classes {
		for _, keys := range [][2]string{
			{prefix + "secret-name", prefix + "secret-namespace"},
			{prefix + "provisioner-secret-name", prefix + "provisioner-secret-namespace"},
			{"csiProvisionerSecretName", "csiProvisionerSecretNamespace"},
			{prefix + "controller-publish-secret-name", prefix + "controller-publish-secret-namespace"},
			{prefix + "controller-expand-secret-name", prefix + "controller-expand-secret-namespace"},
			{prefix + "controller-modify-secret-name", prefix + "controller-modify-secret-namespace"},
		} {
			one := secret{name: class.Parameters[keys[0]], namespace: class.Parameters[keys[1]]}
			// A template such as ${pvc.namespace} is no valid name.
			if len(validation.IsDNS1123Subdomain(one.name))+len(validation.IsDNS1123Label(one.namespace)) == 0 && one != granted {
				found = append(found, one)
			}
		}
	}
	slices.SortFunc(found, func(a, b secret) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(found)
}

// mayReadAll reports whether the last poll checked these Secrets, and found that the controller may read all of them.
func (p *PVCs) mayReadAll(secrets []secret) bool {
	return slices.Equal(p.named, secrets) && len(p.readable) == len(secrets)
}

// unreadableSecrets returns a message with the Secrets that the controller has no right to read. A call checks at most mostReviews Secrets, and skips
// Secrets that an earlier call found readable. If StorageClasses name other Secrets than before, it checks all of them again.
func (p *PVCs) unreadableSecrets(ctx context.Context, secrets []secret) (string, error) {
	if !slices.Equal(p.named, secrets) {
		p.named, p.readable = secrets, map[secret]bool{}
	}
	unknown := slices.DeleteFunc(slices.Clone(secrets), func(one secret) bool { return p.readable[one] })
	asked := unknown[:min(len(unknown), mostReviews)]
	var refused []string
	for _, one := range asked {
		allowed, err := p.controllerMay(ctx, authorizationv1.ResourceAttributes{Namespace: one.namespace, Name: one.name, Verb: "get", Resource: "secrets"})
		if err != nil {
			return "", err
		}
		if allowed {
			p.readable[one] = true
		} else {
			refused = append(refused, one.String())
		}
	}
	if len(refused) == 0 {
		return "", nil
	}
	return fmt.Sprintf("StorageClasses of driver %s name Secrets that the driver's controller may not read. %d unreadable: %s%s. New PVCs of these "+
		"classes stay pending, and their volumes can't grow. %s", p.Driver.Name, len(refused), status.Shorten(refused), more(len(unknown)-len(asked)),
		p.Driver.NamedSecrets.Advice), nil
}
