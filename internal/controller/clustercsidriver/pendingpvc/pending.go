// Package pendingpvc names PVCs that wait for a binding or for permissions in the cloud, and Secrets that StorageClasses name and the controller may
// not read. It watches none of them.
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

// provisionerAnnotation is what Kubernetes puts on a PVC that a driver is to provision.
const provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"

const (
	// mostReviews is for how many namespaces, and for how many Secrets, a look asks at most: tenants decide how many there are.
	mostReviews = 20
	// longWait is after which time a PVC waits for long. Azure makes a storage account and a private endpoint within two minutes.
	longWait = 5 * time.Minute
)

// PVCs are those that a driver is to provision. They are not watched, but listed by the page, the less often the longer it goes on.
type PVCs struct {
	// Client reads StorageClasses from a cache, Live reads PVCs.
	Client client.Client
	Live   client.Reader
	Driver driver.Driver
	// Namespace is that of the driver.
	Namespace string
	Now       func() time.Time

	message  string
	patience status.Patience
	next     time.Time
	// named are the Secrets of the last look, readable those among them that the controller may read.
	named    []secret
	readable map[secret]bool
}

// class is what is known of a StorageClass of which PVCs may wait.
type class struct {
	// keeps tells whether the driver keeps Secrets for it, namespace where; empty is that of the PVC.
	keeps     bool
	namespace string
	// advice is for PVCs that wait for long.
	advice string
}

// Forget ends what is known.
func (p *PVCs) Forget() {
	p.message, p.patience, p.next, p.named, p.readable = "", status.Patience{}, time.Time{}, nil, nil
}

// Message names PVCs that wait, and says when to ask again; zero is never. It sends no request without a StorageClass of which they may wait, nor
// again for named Secrets once the controller may read all of them. A look that fails changes nothing, and is logged.
func (p *PVCs) Message(ctx context.Context) (message string, again time.Duration, err error) {
	all, err := p.ofDriver(ctx)
	classes, secrets := p.classes(all), p.namedSecrets(all)
	if err != nil || len(classes)+len(secrets) == 0 {
		p.Forget()
		return "", 0, err
	}
	if !p.Now().Before(p.next) {
		if message, err := p.look(ctx, classes, secrets); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "which PVCs wait is not known")
		} else {
			p.message = message
		}
		// What tenants do makes no look come sooner.
		p.next = p.Now().Add(p.patience.Pause(p.Now(), ""))
	}
	if len(classes) == 0 && p.mayReadAll(secrets) {
		return p.message, 0, nil
	}
	return p.message, p.next.Sub(p.Now()), nil
}

// ofDriver are the StorageClasses of the driver, if it matters what is in them.
func (p *PVCs) ofDriver(ctx context.Context) ([]storagev1.StorageClass, error) {
	if p.Driver.KeptSecrets == nil && p.Driver.LongWait == nil && p.Driver.NamedSecrets == "" {
		return nil, nil
	}
	all := &storagev1.StorageClassList{}
	if err := p.Client.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(each storagev1.StorageClass) bool { return each.Provisioner != p.Driver.Name }), nil
}

// classes are the StorageClasses of which PVCs may wait.
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

// look asks the cluster what is to be said.
func (p *PVCs) look(ctx context.Context, classes map[string]class, secrets []secret) (string, error) {
	waiting, err := p.lookForPVCs(ctx, classes)
	if err != nil {
		return "", err
	}
	unreadable, err := p.lookForSecrets(ctx, secrets)
	lines := slices.DeleteFunc([]string{waiting, unreadable}, func(line string) bool { return line == "" })
	return strings.Join(lines, "\n"), err
}

// lookForPVCs lists the PVCs, and says what those wait for that are not bound.
func (p *PVCs) lookForPVCs(ctx context.Context, classes map[string]class) (string, error) {
	if len(classes) == 0 {
		return "", nil
	}
	// Which PVCs wait for a Secret in a namespace, and which for long, by what to do.
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

// classOf is the class of a PVC that waits for the driver.
func (p *PVCs) classOf(pvc corev1.PersistentVolumeClaim, classes map[string]class) (class, bool) {
	if pvc.Spec.StorageClassName == nil || pvc.Spec.DataSource != nil || pvc.Status.Phase != corev1.ClaimPending ||
		pvc.Annotations[provisionerAnnotation] != p.Driver.Name {
		return class{}, false
	}
	known, found := classes[*pvc.Spec.StorageClassName]
	return known, found
}

// inNamespace is where the driver would keep the Secret of a PVC.
func inNamespace(known class, pvc corev1.PersistentVolumeClaim) string {
	if known.namespace != "" {
		return known.namespace
	}
	return pvc.Namespace
}

// mayKeepSecrets asks whether the driver's controller may create Secrets in a namespace.
func (p *PVCs) mayKeepSecrets(ctx context.Context, namespace string) (bool, error) {
	return p.controllerMay(ctx, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "secrets"})
}

// controllerMay asks for a right of the driver's controller.
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

// describe is the message, a line for what can be done.
func (p *PVCs) describe(secrets, long map[string][]string, unasked int) string {
	var lines []string
	if len(secrets) > 0 {
		names := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(secrets))...)))
		lines = append(lines, fmt.Sprintf("PVCs wait because driver %s may not keep Secrets in namespace %s (%d): %s%s. %s",
			p.Driver.Name, status.Shorten(slices.Sorted(maps.Keys(secrets))), len(names), status.Shorten(names), more(unasked),
			p.Driver.KeptSecrets.Advice))
	}
	for _, advice := range slices.Sorted(maps.Keys(long)) {
		slices.Sort(long[advice])
		lines = append(lines, fmt.Sprintf("PVCs of driver %s wait for more than %s (%d): %s. %s", p.Driver.Name, longWait, len(long[advice]),
			status.Shorten(long[advice]), advice))
	}
	return strings.Join(lines, "\n")
}

// more says that mostReviews left some out.
func more(unasked int) string {
	if unasked == 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more were not asked for", unasked)
}
