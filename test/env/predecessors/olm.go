package predecessors

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	csvFinalizer  = "operators.coreos.com/csv-cleanup"
	copiedLabel   = "olm.copiedFrom"
	elsewhereName = "default"
)

// OLMOperator is the operator of a driver that OLM installed in OpenShift 4.5, and a stand-in for both: for OLM, which removes the
// operator when its ClusterServiceVersion goes, and for the operator, which removes the driver when its configuration goes. It writes
// down what must never happen.
type OLMOperator struct {
	// Entry is the driver, Namespace where the operator was installed, and Finalizer what it has put on its configuration.
	Entry                catalogue.Entry
	Namespace, Finalizer string

	cluster *env.Cluster
	mutex   sync.Mutex
	found   []string
}

// FollowOLMOperator makes the stand-ins work until the test ends, and fails the test if they saw what must never happen. The kinds
// must be there.
func FollowOLMOperator(t *testing.T, c *env.Cluster, entry catalogue.Entry, namespace, finalizer string) *OLMOperator {
	t.Helper()
	f := &OLMOperator{Entry: entry, Namespace: namespace, Finalizer: finalizer, cluster: c}
	// The context of a test ends before its last checks.
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for kind, act := range map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured) error{
		versionKind(): f.asOLM, entry.Predecessor.Configuration: f.asOperator,
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		stream, err := c.Client.Watch(ctx, list)
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		group.Go(func() {
			for event := range stream.ResultChan() {
				if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Deleted && object.GetDeletionTimestamp() != nil {
					if err := act(ctx, object); err != nil && ctx.Err() == nil {
						f.violation("stand-in: " + err.Error())
					}
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		group.Wait()
		for _, text := range f.found {
			t.Error("forbidden: " + text)
		}
	})
	return f
}

func versionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}
}

// asOLM removes what a ClusterServiceVersion owns, and then lets it go.
func (f *OLMOperator) asOLM(ctx context.Context, version *unstructured.Unstructured) error {
	if version.GetName() != f.version("").GetName() || version.GetLabels()[copiedLabel] != "" {
		return nil
	}
	for _, subscription := range f.Subscriptions() {
		if err := f.cluster.Client.Get(ctx, client.ObjectKeyFromObject(subscription), subscription); err == nil {
			f.violation(fmt.Sprintf("%s goes before Subscription %s, from which OLM would install it anew", version.GetName(), subscription.GetName()))
		}
	}
	for _, object := range []client.Object{f.Deployment(), f.version(elsewhereName)} {
		if err := client.IgnoreNotFound(f.cluster.Client.Delete(ctx, object)); err != nil {
			return err
		}
	}
	version.SetFinalizers(nil)
	return client.IgnoreNotFound(f.cluster.Client.Update(ctx, version))
}

// asOperator removes the driver, as the finalizer asks for. It does so as long as anybody could have started it.
func (f *OLMOperator) asOperator(ctx context.Context, configuration *unstructured.Unstructured) error {
	if !slices.Contains(configuration.GetFinalizers(), f.Finalizer) {
		return nil
	}
	f.violation(fmt.Sprintf("%s is deleted with finalizer %s, which removes the driver", configuration.GetKind(), f.Finalizer))
	err := f.cluster.Client.Delete(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: f.Entry.Name}})
	return client.IgnoreNotFound(err)
}

func (f *OLMOperator) violation(text string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.found = append(f.found, text)
}

// Install puts the operator with all that OLM has of it, from a mirrored catalog, and its configuration. It waits until it runs.
func (f *OLMOperator) Install(ctx context.Context, settings map[string]any) error {
	if err := f.cluster.Namespace(ctx, f.Namespace); err != nil {
		return err
	}
	version := f.version("")
	version.SetFinalizers([]string{csvFinalizer})
	configuration := f.Configuration()
	configuration.SetFinalizers([]string{f.Finalizer})
	configuration.Object["spec"] = settings
	deployment := f.Deployment()
	objects := append(f.Subscriptions(), version, f.version(elsewhereName), configuration, deployment)
	for _, object := range objects {
		if object == client.Object(deployment) {
			// OLM makes the ClusterServiceVersion an owner that does not block (operator-lifecycle-manager, ownerutil.AddNonBlockingOwner).
			deployment.OwnerReferences = []metav1.OwnerReference{OwnerOf(version)}
		}
		if err := f.cluster.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("install the predecessor of %s: %w", f.Entry.Title, err)
		}
	}
	return env.Await(ctx, "the predecessor runs", func() error {
		deployment := f.Deployment()
		if err := f.cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if deployment.Status.ReadyReplicas != 1 {
			return fmt.Errorf("%d pods are ready", deployment.Status.ReadyReplicas)
		}
		return nil
	})
}

// OwnerOf refers to a ClusterServiceVersion as OLM does in what it installs.
func OwnerOf(version client.Object) metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{
		APIVersion: versionKind().GroupVersion().String(), Kind: versionKind().Kind, Name: version.GetName(), UID: version.GetUID(),
		BlockOwnerDeletion: &no, Controller: &no,
	}
}

// Gone checks that nothing of the operator is left.
func (f *OLMOperator) Gone(ctx context.Context) error {
	for _, object := range append(f.Subscriptions(), f.version(""), f.version(elsewhereName), f.Deployment(), f.Configuration()) {
		if err := f.cluster.Gone(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// Subscriptions returns two: the operator's, and one in another namespace that never installed anything.
func (f *OLMOperator) Subscriptions() []client.Object {
	var all []client.Object
	for name, namespace := range map[string]string{"storage-from-our-mirror": f.Namespace, "forgotten": elsewhereName} {
		one := f.object(schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}, namespace, name+"-"+f.Entry.Operator)
		one.Object["spec"] = map[string]any{
			"name": f.Entry.Predecessor.Package, "channel": "4.5", "source": "our-mirror", "sourceNamespace": "our-marketplace",
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b client.Object) int { return len(b.GetName()) - len(a.GetName()) })
	return all
}

// version is the ClusterServiceVersion, or the copy of it in a namespace.
func (f *OLMOperator) version(copied string) *unstructured.Unstructured {
	name := f.Entry.Predecessor.Package + ".v4.5.0-202012"
	if copied == "" {
		return f.object(versionKind(), f.Namespace, name)
	}
	object := f.object(versionKind(), copied, name)
	object.SetLabels(map[string]string{copiedLabel: f.Namespace})
	return object
}

// Configuration is the one custom resource of the operator.
func (f *OLMOperator) Configuration() *unstructured.Unstructured {
	return f.object(f.Entry.Predecessor.Configuration, "", "cluster")
}

// Deployment is that of the operator.
func (f *OLMOperator) Deployment() *appsv1.Deployment {
	name := f.Entry.Predecessor.Deployment
	labels := map[string]string{"name": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: map[string]string{
			"olm.owner": f.version("").GetName(), "olm.owner.namespace": f.Namespace, "olm.owner.kind": "ClusterServiceVersion",
		}},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.example/former-operator:4.5"}}},
		}},
	}
}

func (f *OLMOperator) object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
