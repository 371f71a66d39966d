// Package pendingpvc reports PVCs that wait for RBAC or for permissions in the cloud. It also reports Secrets that StorageClasses name, but that the
// controller has no right to read. It polls the cluster.
package pendingpvc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// provisionerAnnotation is Kubernetes' annotation on a PVC. Its value is the driver that must provision the volume.
const provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

const (
	// mostReviews is the largest number of namespaces for which one poll makes access reviews. It is also the largest number of Secrets for which one
	// poll makes access reviews. The limits exist because tenants control the numbers of namespaces and Secrets.
	mostReviews = 20
	// longWait is how long a PVC must be pending before the operator reports it. Azure needs up to two minutes to create a storage account and a private
	// endpoint.
	longWait = 5 * time.Minute
)

// PVCs polls the pending PVCs of a driver page by page, at growing intervals.
type PVCs struct {
	// Client reads StorageClasses from a cache. Live reads PVCs from the cluster.
	Client client.Client
	Live   client.Reader
	Driver driver.Driver
	// Namespace is the namespace of the driver.
	Namespace string
	Now       func() time.Time

	message  string
	patience status.Patience
	next     time.Time
	// named has the Secrets that StorageClasses named at the last poll. readable has the Secrets in named that the controller may read.
	named    []secret
	readable map[secret]bool
}

// class is a StorageClass whose PVCs the operator may report.
type class struct {
	// keeps is true if the driver creates Secrets for the StorageClass. namespace is the namespace of these Secrets. If namespace is empty, the driver
	// creates a Secret in the namespace of the PVC.
	keeps     bool
	namespace string
	// advice is the advice for PVCs that are Pending for longer than longWait. It is empty if there is no advice.
	advice string
}

// Reset drops all state.
func (p *PVCs) Reset() {
	p.message, p.patience, p.next, p.named, p.readable = "", status.Patience{}, time.Time{}, nil, nil
}

// Message reports pending PVCs and unreadable Secrets. It also returns when to requeue, or 0 if no requeue is needed. It sends no request without a
// relevant StorageClass. It checks named Secrets until the controller may read all of them. After a failed poll, it logs the error and returns the
// last message.
func (p *PVCs) Message(ctx context.Context) (message string, again time.Duration, err error) {
	all, err := p.ofDriver(ctx)
	classes, secrets := p.classes(all), p.namedSecrets(all)
	if err != nil || len(classes)+len(secrets) == 0 {
		p.Reset()
		return "", 0, err
	}
	if !p.Now().Before(p.next) {
		if message, err := p.check(ctx, classes, secrets); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to look for pending PVCs")
		} else {
			p.message = message
		}
		// Tenants must not be able to speed up the polls.
		p.next = p.Now().Add(p.patience.Pause(p.Now(), ""))
	}
	if len(classes) == 0 && p.mayReadAll(secrets) {
		return p.message, 0, nil
	}
	return p.message, p.next.Sub(p.Now()), nil
}

// ofDriver returns the StorageClasses of the driver. If Driver has neither KeptSecrets nor LongWait nor NamedSecrets, it returns no StorageClass,
// because the operator then has nothing to report about PVCs.
func (p *PVCs) ofDriver(ctx context.Context) ([]storagev1.StorageClass, error) {
	if p.Driver.KeptSecrets == nil && p.Driver.LongWait == nil && p.Driver.NamedSecrets == nil {
		return nil, nil
	}
	all := &storagev1.StorageClassList{}
	if err := p.Client.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(each storagev1.StorageClass) bool { return volume.Provisioner(each.Provisioner) != p.Driver.Name }), nil
}

// classes returns the StorageClasses whose PVCs the operator may report.
func (p *PVCs) classes(all []storagev1.StorageClass) map[string]class {
	found := map[string]class{}
	for _, each := range all {
		var known class
		if p.Driver.KeptSecrets != nil {
			known.namespace, known.keeps = p.Driver.KeptSecrets.Namespace(each.Parameters)
		}
		if p.Driver.LongWait != nil {
			known.advice = p.Driver.LongWait(each.Parameters)
		}
		if known.keeps || known.advice != "" {
			found[each.Name] = known
		}
	}
	return found
}

func (p *PVCs) check(ctx context.Context, classes map[string]class, secrets []secret) (string, error) {
	waiting, err := p.pendingPVCs(ctx, classes)
	if err != nil {
		return "", err
	}
	unreadable, err := p.unreadableSecrets(ctx, secrets)
	lines := slices.DeleteFunc([]string{waiting, unreadable}, func(line string) bool { return line == "" })
	return strings.Join(lines, "\n"), err
}

// pendingPVCs returns a message about what the pending PVCs wait for. The message is empty if no PVC waits.
func (p *PVCs) pendingPVCs(ctx context.Context, classes map[string]class) (string, error) {
	if len(classes) == 0 {
		return "", nil
	}
	// secrets has the PVCs that need a Secret, by namespace of the Secret. long has the PVCs that are Pending for longer than longWait, by advice.
	secrets, long, unasked := map[string][]string{}, map[string][]string{}, 0
	err := volume.EachPage(ctx, p.Live, &corev1.PersistentVolumeClaimList{}, func(page *corev1.PersistentVolumeClaimList) {
		for _, pvc := range page.Items {
			known, isOurs := p.classOf(pvc, classes)
			if !isOurs {
				continue
			}
			name := client.ObjectKeyFromObject(&pvc).String()
			switch namespace := inNamespace(known, pvc); {
			case known.keeps && (secrets[namespace] != nil || len(secrets) < mostReviews):
				secrets[namespace] = append(secrets[namespace], name)
			case known.keeps:
				unasked++
			}
			if known.advice != "" && p.Now().Sub(pvc.CreationTimestamp.Time) >= longWait {
				long[known.advice] = append(long[known.advice], name)
			}
		}
	})
	if err != nil {
		return "", fmt.Errorf("look for PVCs that wait: %w", err)
	}
	for namespace := range secrets {
		allowed, err := p.mayKeepSecrets(ctx, namespace)
		if err != nil {
			return "", err
		}
		if allowed {
			delete(secrets, namespace)
		}
	}
	return p.describe(secrets, long, unasked), nil
}

// classOf returns the class of a PVC that is pending for the driver.
func (p *PVCs) classOf(pvc corev1.PersistentVolumeClaim, classes map[string]class) (class, bool) {
	if pvc.Spec.StorageClassName == nil || pvc.Spec.DataSource != nil || pvc.Status.Phase != corev1.ClaimPending ||
		pvc.Annotations[provisionerAnnotation] != p.Driver.Name {
		return class{}, false
	}
	known, found := classes[*pvc.Spec.StorageClassName]
	return known, found
}

// inNamespace returns the namespace in which the driver would create the Secret of a PVC.
func inNamespace(known class, pvc corev1.PersistentVolumeClaim) string {
	if known.namespace != "" {
		return known.namespace
	}
	return pvc.Namespace
}

// mayKeepSecrets reports whether the driver's controller has the right to create Secrets in a namespace.
func (p *PVCs) mayKeepSecrets(ctx context.Context, namespace string) (bool, error) {
	return p.controllerMay(ctx, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "secrets"})
}

func (p *PVCs) controllerMay(ctx context.Context, right authorizationv1.ResourceAttributes) (bool, error) {
	user := "system:serviceaccount:" + p.Namespace + ":" + p.Driver.ControllerServiceAccount()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.Namespace, "system:authenticated"},
		ResourceAttributes: &right,
	}}
	if err := p.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask whether %s may %s Secrets in namespace %s: %w", user, right.Verb, right.Namespace, err)
	}
	return review.Status.Allowed, nil
}

// describe returns the message, with a line for each remedy.
func (p *PVCs) describe(secrets, long map[string][]string, unasked int) string {
	var lines []string
	if len(secrets) > 0 {
		names := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(secrets))...)))
		lines = append(lines, fmt.Sprintf("PVCs are pending because driver %s may not create Secrets in namespace %s. %d pending: %s%s. %s",
			p.Driver.Name, status.Shorten(slices.Sorted(maps.Keys(secrets))), len(names), status.Shorten(names), more(unasked),
			p.Driver.KeptSecrets.Advice))
	}
	for _, advice := range slices.Sorted(maps.Keys(long)) {
		slices.Sort(long[advice])
		lines = append(lines, fmt.Sprintf("PVCs of driver %s have been pending for more than %s. %d pending: %s. %s",
			p.Driver.Name, longWait, len(long[advice]), status.Shorten(long[advice]), advice))
	}
	return strings.Join(lines, "\n")
}

// more returns a text with the number of objects that the operator did not check because of mostReviews. The text is empty if the number is 0.
func more(unasked int) string {
	if unasked == 0 {
		return ""
	}
	return fmt.Sprintf("; %d more were not checked", unasked)
}
