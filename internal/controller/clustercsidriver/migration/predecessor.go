package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/informer"
)

// accessFor is how long the operator caches the result of an access review.
const accessFor = 30 * time.Second

// csvLabel is OLM's label on an operator's Deployment. Its value is the name of the ClusterServiceVersion.
const csvLabel = "olm.owner"

// Predecessor finds an operator that ran the driver before this operator. It also finds the leftovers of that operator.
type Predecessor struct {
	driver.Predecessor
	// Reader reads at least the objects whose names are in driver.Predecessor.
	Reader client.Reader
	// May checks whether a ServiceAccount has a right.
	May func(ctx context.Context, account client.ObjectKey, right authorizationv1.ResourceAttributes) (bool, error)
	// Driver is the driver. Namespace is the namespace of this operator. A Deployment of our name in Namespace is this operator itself.
	Driver    driver.Driver
	Namespace string
	// Constraints reports whether the cluster has SecurityContextConstraints.
	Constraints bool

	cache cache.Cache

	mutex   sync.Mutex
	access  map[client.ObjectKey]bool
	checked time.Time
}

// SecurityContextConstraintsKind returns the kind of the objects by which OpenShift admits pods.
func SecurityContextConstraintsKind() schema.GroupKind {
	return schema.GroupKind{Group: securityv1.GroupName, Kind: "SecurityContextConstraints"}
}

// WatchPredecessor adds to the manager a cache of the objects whose names are in argument "names".
func WatchPredecessor(manager ctrl.Manager, d driver.Driver, names driver.Predecessor, namespace string, constraints bool) (*Predecessor, error) {
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	deployments := named(names.Operator)
	deployments.Transform = stripDeployment
	parts := map[client.Object]cache.ByObject{&appsv1.Deployment{}: deployments, &appsv1.DaemonSet{}: named(names.DaemonSet)}
	if names.ServiceAccount != "" {
		accounts := named(names.ServiceAccount)
		accounts.Namespaces = map[string]cache.Config{namespace: {}}
		parts[&corev1.ServiceAccount{}] = accounts
	}
	constraints = constraints && names.SecurityContextConstraints != ""
	if constraints {
		parts[&securityv1.SecurityContextConstraints{}] = named(names.SecurityContextConstraints)
	}
	own, err := informer.NewCache(manager, "what "+names.Title+" leaves", parts)
	if err != nil {
		return nil, err
	}
	return &Predecessor{
		Predecessor: names, Reader: own, cache: own, May: AskAccess(manager.GetClient()),
		Driver: d, Namespace: namespace, Constraints: constraints,
	}, nil
}

// AskAccess returns a function that checks, with a SubjectAccessReview, whether a ServiceAccount has a right.
func AskAccess(writer client.Writer) func(context.Context, client.ObjectKey, authorizationv1.ResourceAttributes) (bool, error) {
	return func(ctx context.Context, account client.ObjectKey, right authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + account.Namespace + ":" + account.Name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
			ResourceAttributes: &right,
		}}
		if err := writer.Create(ctx, review); err != nil {
			return false, fmt.Errorf("ask what ServiceAccount %s may do: %w", account, err)
		}
		return review.Status.Allowed, nil
	}
}

// Running returns a Deployment of the predecessor that is not scaled to zero, as "namespace/name". It returns an empty string if no such Deployment
// exists.
func (p *Predecessor) Running(ctx context.Context) (string, error) {
	found, err := p.running(ctx)
	if found == nil {
		return "", err
	}
	return found.Namespace + "/" + found.Name, nil
}

// running finds a running Deployment of the predecessor. It returns nil if no such Deployment exists. Any tenant can create a Deployment with the
// predecessor's name. So running also checks that the Deployment's ServiceAccount has a right that only the predecessor has.
func (p *Predecessor) running(ctx context.Context) (*appsv1.Deployment, error) {
	all, err := p.deployments(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		deployment := &all[i]
		stopped := deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0 && deployment.Status.Replicas == 0
		if deployment.Name != p.Operator || stopped || p.isSelf(deployment) || p.isYounger(all, deployment) {
			continue
		}
		account := client.ObjectKey{Namespace: deployment.Namespace, Name: cmp.Or(deployment.Spec.Template.Spec.ServiceAccountName, "default")}
		may, err := p.may(ctx, account)
		if err != nil {
			return nil, err
		}
		if may {
			return deployment, nil
		}
	}
	return nil, nil
}

func (p *Predecessor) isSelf(deployment *appsv1.Deployment) bool {
	return deployment.Namespace == p.Namespace && deployment.Name == p.Driver.Operator
}

// deployments lists all Deployments with the predecessor's name, whoever owns them.
func (p *Predecessor) deployments(ctx context.Context) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	if err := p.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("look for %s: %w", p.Title, err)
	}
	return list.Items, nil
}

// howToStop returns the advice to uninstall the predecessor.
func (p *Predecessor) howToStop(deployment *appsv1.Deployment) string {
	where := deployment.Namespace
	if csv := deployment.Labels[csvLabel]; csv != "" {
		return fmt.Sprintf("let OLM upgrade it to this operator: change the source of the Subscription of package %[1]s in namespace %[2]s, and "+
			"nothing else. If this operator has a Subscription already, delete the Subscription of package %[1]s instead, and then: "+
			"oc delete clusterserviceversion %[3]s -n %[2]s", p.Package, where, csv)
	}
	return fmt.Sprintf("delete its Subscription and ClusterServiceVersion if it has them, or else: oc delete deployment %s -n %s",
		deployment.Name, where)
}

// daemonSets lists the DaemonSets that have the name of the predecessor's DaemonSet, and that mount the host directory of the driver's socket.
func (p *Predecessor) daemonSets(ctx context.Context) ([]appsv1.DaemonSet, error) {
	all := &appsv1.DaemonSetList{}
	if err := p.Reader.List(ctx, all); err != nil {
		return nil, fmt.Errorf("look for DaemonSets of %s: %w", p.Title, err)
	}
	var found []appsv1.DaemonSet
	for _, daemonSet := range all.Items {
		if daemonSet.Name != p.DaemonSet {
			continue
		}
		if p.Driver.MountsSocket(daemonSet.Spec.Template.Spec.Volumes) {
			found = append(found, daemonSet)
		}
	}
	return found, nil
}

// HasLeft reports whether our namespace still has the predecessor's DaemonSet. In that case, no operator has migrated the predecessor's driver yet. A
// tenant without access to our namespace can't fake this DaemonSet.
func (p *Predecessor) HasLeft(ctx context.Context) (bool, error) {
	found, err := p.daemonSets(ctx)
	return slices.ContainsFunc(found, func(daemonSet appsv1.DaemonSet) bool {
		return p.Label != "" && daemonSet.Namespace == p.Namespace && daemonSet.Labels[p.Label] == "true"
	}), err
}

// leftovers lists objects that only the predecessor's node pods need.
func (p *Predecessor) leftovers(ctx context.Context) ([]client.Object, error) {
	var wanted []client.Object
	if p.ServiceAccount != "" {
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = p.Namespace, p.ServiceAccount
		wanted = append(wanted, account)
	}
	if p.Constraints && p.SecurityContextConstraints != "" {
		constraints := &securityv1.SecurityContextConstraints{}
		constraints.Name = p.SecurityContextConstraints
		wanted = append(wanted, constraints)
	}
	var found []client.Object
	for _, object := range wanted {
		err := p.Reader.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read %T %s: %w", object, object.GetName(), err)
		case object.GetLabels()[p.Label] == "true":
			// The label shows that the object belongs to the predecessor. An object without the label may have another owner, so it stays.
			found = append(found, object)
		}
	}
	return found, nil
}

// Events returns a source of the events of the predecessor's Deployment. The deletion of the Deployment triggers a reconcile, which continues the
// migration.
func (p *Predecessor) Events(handle handler.EventHandler) source.Source {
	return source.Kind(p.cache, client.Object(&appsv1.Deployment{}), handle)
}

// AllEvents returns sources of the events of all watched objects of the predecessor.
func (p *Predecessor) AllEvents(handle handler.EventHandler) []source.Source {
	all := []source.Source{p.Events(handle), source.Kind(p.cache, client.Object(&appsv1.DaemonSet{}), handle)}
	if p.ServiceAccount != "" {
		all = append(all, source.Kind(p.cache, client.Object(&corev1.ServiceAccount{}), handle))
	}
	if p.Constraints {
		all = append(all, source.Kind(p.cache, client.Object(&securityv1.SecurityContextConstraints{}), handle))
	}
	return all
}

// may returns the result of May, and caches it.
func (p *Predecessor) may(ctx context.Context, account client.ObjectKey) (bool, error) {
	if may, known := p.remembered(account); known {
		return may, nil
	}
	may, err := p.May(ctx, account, p.Right)
	if err != nil {
		return false, err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.access[account] = may
	return may, nil
}

func (p *Predecessor) remembered(account client.ObjectKey) (may, known bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.access == nil || time.Since(p.checked) > accessFor {
		p.access, p.checked = map[client.ObjectKey]bool{}, time.Now()
	}
	may, known = p.access[account]
	return may, known
}

// stripDeployment keeps only the fields that show whether the Deployment runs, and who installed it.
func stripDeployment(object any) (any, error) {
	if deployment, ok := object.(*appsv1.Deployment); ok {
		deployment.ManagedFields, deployment.Annotations = nil, nil
		template := deployment.Spec.Template
		deployment.Spec = appsv1.DeploymentSpec{Replicas: deployment.Spec.Replicas}
		deployment.Spec.Template.Spec.ServiceAccountName = template.Spec.ServiceAccountName
		if value, set := template.Annotations[YieldsAnnotation]; set {
			deployment.Spec.Template.Annotations = map[string]string{YieldsAnnotation: value}
		}
		deployment.Status = appsv1.DeploymentStatus{Replicas: deployment.Status.Replicas}
	}
	return object, nil
}
