package migration

import (
	"context"
	"sync"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

var scheme = sync.OnceValues(kube.Scheme)

// began is when every test begins, by its own clock.
var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

const (
	// here is the operator's namespace, old that of its predecessor for EBS.
	here = "openshift-cluster-csi-drivers"
	old  = "openshift-aws-ebs-csi-driver"
	// The label and the owner of all objects of the community's operator.
	communityLabel = "openshift.io/aws-efs-operator-owned"
	communityOwner = "sharedvolumes.aws-efs.managed.openshift.io"
)

// move is a Migration with what it reads, its events and its clock.
type move struct {
	*Migration
	cache, live *cluster
	events      *canned.Events
	now         time.Time
	// without are the namespaces of accounts that have no right which only a predecessor has.
	without map[string]bool
	asked   []client.ObjectKey
	// noAnswer, if set, is why nobody tells.
	noAnswer error
}

// newMove has a Migration of a driver. The cache and the cluster have the same objects.
func newMove(t *testing.T, d driver.Driver, objects ...client.Object) *move {
	t.Helper()
	made := &move{cache: newCluster(t, objects...), live: newCluster(t, objects...), events: &canned.Events{}, now: began, without: map[string]bool{}}
	made.Migration = &Migration{
		Client: made.cache, Live: made.live, Driver: d, Namespace: here, Inheritable: d.Inheritable(func(string) string { return "" }),
		Events: made.events, Now: func() time.Time { return made.now },
	}
	for _, names := range d.Predecessors {
		if names.Namespace == "" {
			made.Predecessors = append(made.Predecessors, &Predecessor{
				Predecessor: names, Reader: made.cache, Driver: d, Namespace: here, Constraints: true, May: made.may,
			})
		}
	}
	applier := &apply.Applier{
		Client: made.cache, Live: made.live, FieldManager: d.Operator, Labels: client.MatchingLabels{"app.kubernetes.io/managed-by": d.Operator},
		PredecessorLabels: []string{communityLabel}, PredecessorOwners: []string{communityOwner}, Mutations: apply.NewMutationCache(),
	}
	for _, one := range []struct{ kind, namespace, name string }{
		{"ServiceAccount", here, "a"}, {"ClusterRole", "", "b"}, {"ConfigMap", here, "c"},
	} {
		group := map[string]string{"ClusterRole": "rbac.authorization.k8s.io"}[one.kind]
		applier.Inventory = append(applier.Inventory, apply.Subject{
			GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: one.kind},
			ObjectKey:        client.ObjectKey{Namespace: one.namespace, Name: one.name},
		})
	}
	made.Use(applier)
	return made
}

func (m *move) may(_ context.Context, account client.ObjectKey, _ authorizationv1.ResourceAttributes) (bool, error) {
	m.asked = append(m.asked, account)
	return !m.without[account.Namespace], m.noAnswer
}

// replaceObjects changes what is there. What the Migration remembers stays.
func (m *move) replaceObjects(objects ...client.Object) {
	m.cache.Objects, m.live.Objects = objects, objects
	m.cache.Reads, m.live.Reads = nil, nil
}

// managed is a ClusterCSIDriver.
func managed(annotations ...string) *operatorv1.ClusterCSIDriver {
	cr := &operatorv1.ClusterCSIDriver{}
	for _, annotation := range annotations {
		cr.Annotations = map[string]string{annotation: "true"}
	}
	return cr
}

// named is the metadata of an object whose UID is its name.
func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(began)}
}

// sockets are volumes with the folder of a driver's socket.
func sockets(driver string) []corev1.Volume {
	return []corev1.Volume{{Name: "plugin", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/" + driver + "/"},
	}}}
}

// nodePod is one of EFS that runs on a node, under the account of the community's operator.
func nodePod(namespace, name, app, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: named(namespace, name)}
	pod.Labels = map[string]string{"app": app}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName, pod.Spec.Volumes = node, "efs-csi-sa", sockets("efs.csi.aws.com")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// ebsPod is a pod of the driver in the old namespace, and of a controller without a node's socket.
func ebsPod(namespace, name, app string) *corev1.Pod {
	pod := nodePod(namespace, name, app, "node-1")
	pod.Spec.Volumes = sockets("ebs.csi.aws.com")
	return pod
}

// operatorOf is the Deployment of an operator that runs.
func operatorOf(namespace, name string) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: named(namespace, name)}
	deployment.UID = types.UID(namespace + "-" + name)
	deployment.Spec.Template.Spec.ServiceAccountName = name
	deployment.Status.Replicas = 1
	return deployment
}

// daemonSetOf mounts volumes of EFS.
func daemonSetOf(namespace, name string) *appsv1.DaemonSet {
	daemonSet := &appsv1.DaemonSet{ObjectMeta: named(namespace, name)}
	daemonSet.Spec.Template.Spec.Volumes = sockets("efs.csi.aws.com")
	return daemonSet
}

// csiDriver is one that somebody else has made.
func csiDriver(version string) *storagev1.CSIDriver {
	found := &storagev1.CSIDriver{ObjectMeta: named("", "efs.csi.aws.com")}
	found.ResourceVersion = version
	return found
}

// ours makes an object one that this operator has applied.
func ours[T client.Object](operator string, object T) T {
	object.SetLabels(map[string]string{"app.kubernetes.io/managed-by": operator})
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: operator, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
	}})
	return object
}

// labelled puts the mark of the community's operator on an object.
func labelled[T client.Object](object T) T {
	object.SetLabels(map[string]string{communityLabel: "true"})
	return object
}

// going makes an object one that is being deleted.
func going[T client.Object](object T) T {
	now := metav1.NewTime(began)
	object.SetDeletionTimestamp(&now)
	object.SetFinalizers([]string{"foregroundDeletion"})
	return object
}

// controlled makes an object one of a workload, whose UID is its name.
func controlled[T client.Object](object T, by string) T {
	is := true
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: by, UID: types.UID(by), Controller: &is}})
	return object
}

// account and constraints are what the node pods of the community's operator need.
func account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: named(here, "efs-csi-sa")}
}

func constraints() *securityv1.SecurityContextConstraints {
	return &securityv1.SecurityContextConstraints{ObjectMeta: named("", "efs-csi-scc")}
}

func changed(action apply.Action, kind, name string) apply.Change {
	group := map[string]string{"Deployment": "apps", "DaemonSet": "apps", "ClusterRole": "rbac.authorization.k8s.io"}[kind]
	return apply.Change{Action: action, Subject: apply.Subject{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, ObjectKey: client.ObjectKey{Namespace: here, Name: name},
	}}
}

// ours is the DaemonSet of the operator as the cache has it, which the trip reads.
func (m *move) ours(ctx context.Context) (*appsv1.DaemonSet, error) {
	return apply.Newest[appsv1.DaemonSet](ctx, m.applier, client.ObjectKey{Namespace: here, Name: m.Driver.DaemonSet})
}

// Observe is Migration.Observe with that.
func (m *move) Observe(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (State, error) {
	ours, err := m.ours(ctx)
	if err != nil {
		return State{}, err
	}
	return m.Migration.Observe(ctx, cr, ours)
}

// Advance is Migration.Advance with that.
func (m *move) Advance(ctx context.Context, state State, changes apply.ChangeSet, holds driver.Holds) (Moved, error) {
	ours, err := m.ours(ctx)
	if err != nil {
		return Moved{}, err
	}
	return m.Migration.Advance(ctx, state, changes, holds, ours)
}
