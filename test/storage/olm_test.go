package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// odd is where an administrator has let OLM install operators.
const odd = "storage-team"

// entryOf is that of a driver.
func entryOf(t *testing.T, name string) catalogue.Entry {
	t.Helper()
	for _, entry := range catalogue.All() {
		if entry.Name == name {
			return entry
		}
	}
	t.Fatalf("the catalogue has no %s", name)
	return catalogue.Entry{}
}

// predecessor gives the cluster OLM's API and a stand-in for OLM and an operator that it has installed. All of it goes with the test, so that
// the others see a cluster without OLM.
func (s *scene) predecessor(driver, finalizer string) *predecessors.OLMOperator {
	s.t.Helper()
	env.Must(s.t, s.ApplyFile(s.t.Context(), "testdata/olm.yaml"))
	crds := []string{
		"subscriptions.operators.coreos.com", "clusterserviceversions.operators.coreos.com",
		"awsebsdrivers.csi.openshift.io", "maniladrivers.csi.openshift.io",
	}
	env.Must(s.t, s.Served(s.t.Context(), crds...))
	s.t.Cleanup(func() {
		ctx := context.Background()
		_, err := s.Kubectl(ctx, append([]string{"delete", "crds", "--timeout=1m"}, crds...)...)
		if err != nil {
			s.t.Error(err)
		}
		if err := predecessors.RemoveLegacyEBS(ctx, s.Cluster); err != nil {
			s.t.Error(err)
		}
		_, err = s.Kubectl(ctx, "delete", "deployments", "--all", "-n", odd)
		if err != nil {
			s.t.Error(err)
		}
	})
	return predecessors.FollowOLMOperator(s.t, s.Cluster, entryOf(s.t, driver), odd, finalizer)
}

// ebs is the EBS operator of OpenShift 4.5.
func (s *scene) ebs() *predecessors.OLMOperator {
	s.t.Helper()
	return s.predecessor("ebs.csi.aws.com", "operator.csi.openshift.io")
}

// manila is the Manila operator of OpenShift 4.5.
func (s *scene) manila() *predecessors.OLMOperator {
	s.t.Helper()
	return s.predecessor("manila.csi.openstack.org", "finalizer.manila.csi.openshift.io")
}

// settings are those of an administrator who looked for an error.
func settings() map[string]any {
	return map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "Trace", "somethingElse": "yes"}
}

// hasSettings checks that these are in the ClusterCSIDriver.
func (s *scene) hasSettings(driver string) error {
	spec := s.driver(driver).Spec.OperatorSpec
	want := operatorv1.OperatorSpec{ManagementState: operatorv1.Managed, LogLevel: operatorv1.Debug, OperatorLogLevel: operatorv1.Trace}
	if diff := cmp.Diff(want, spec); diff != "" {
		return errors.New("the ClusterCSIDriver (-old settings +spec):\n" + diff)
	}
	return nil
}

func TestTheEBSOperatorOfOLMIsReplacedAndItsDriverHandedOver(t *testing.T) {
	s := fresh(t, configv1.AWSPlatformType)
	predecessor := s.ebs()
	env.Must(t, errors.Join(predecessors.PutLegacyEBS(t.Context(), s.Cluster), predecessor.Install(t.Context(), settings()), s.Namespace(t.Context(), "shop")))
	t.Cleanup(func() { s.forget("shop") })
	env.Must(t, s.PutVolume(t.Context(), predecessors.EBSDriver, "shop", "data"))
	app := s.RunPod(t, env.Application("shop", "web", "worker-0", "data"))
	kept := s.identity()
	sampler := predecessors.SampleEBS(1, "shop")
	stop := sampler.Follow(t, s.Cluster)
	// Somebody keeps the Subscription: nothing after it may go.
	subscription := predecessor.Subscriptions()[0]
	s.hold(subscription, `["example.com/hold"]`)

	s.install(env.Release{Version: release})
	s.says("AWSEBSOLMOperatorRemovalProgressing", operatorv1.ConditionTrue, "Subscription "+client.ObjectKeyFromObject(subscription).String())
	s.operatorSays(configv1.OperatorProgressing, configv1.ConditionTrue, "OLM")
	env.Must(t, s.hasSettings(predecessors.EBSDriver))
	configuration := predecessor.Configuration()
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration))
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(predecessor.Deployment()), predecessor.Deployment()))
	if len(configuration.GetFinalizers()) == 0 {
		t.Error("the finalizer has gone although the operator runs")
	}
	env.Must(t, s.Gone(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: predecessor.Entry.Operator}}))
	s.hold(subscription, "null")

	s.eventually("the old operator gone", func() error { return predecessor.Gone(t.Context()) })
	s.eventually("only the node in use has its old plugin", func() error { return s.oldPlugins("worker-0") })
	s.says("AWSEBSCSIDriverOperatorCRProgressing", operatorv1.ConditionTrue, "worker-0 (shop/web)")
	sampler.Expect(app)
	env.Must(t, s.Client.Delete(t.Context(), app))
	s.reach(release)
	env.Must(t, errors.Join(s.oldPlugins(), s.hasSettings(predecessors.EBSDriver)))
	s.eventually("no RBAC is left in the old namespace", func() error {
		return s.Gone(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: predecessors.LegacyEBSNamespace, Name: predecessor.Entry.Operator + "-role"}})
	})
	if diff := cmp.Diff(kept, s.identity()); diff != "" {
		t.Errorf("what has no namespace (-before +after):\n%s", diff)
	}
	stop()
	if replaced, most := sampler.Counts(t, s.Cluster); replaced != 4 || most != 1 {
		t.Errorf("the sampler saw %d old plugins go, of 4, and %d nodes without", replaced, most)
	}
	// It is the cluster's from now on, and nothing of the old one is reported any more.
	storage := s.storage()
	for _, condition := range storage.Status.Conditions {
		if strings.Contains(condition.Type, "OLMOperatorRemoval") {
			t.Errorf("condition %s is still there", condition.Type)
		}
	}
}

func TestTheManilaOperatorOfOLMIsReplaced(t *testing.T) {
	env.OnlySoak(t)
	s := fresh(t, configv1.OpenStackPlatformType)
	predecessor := s.manila()
	old := settings()
	old["managementState"] = "Removed"
	no := false
	driver := &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: predecessor.Entry.Name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no, PodInfoOnMount: &no},
	}
	env.Must(t, errors.Join(predecessor.Install(t.Context(), old), s.Client.Create(t.Context(), driver)))
	tenant := s.tenantOfOLM(predecessor)
	s.install(env.Release{Version: release})
	s.eventually("the old operator gone", func() error { return predecessor.Gone(t.Context()) })
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: predecessor.Entry.Operator}}
	s.eventually("its own operator runs", func() error {
		err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)
		if err == nil && deployment.Status.AvailableReplicas != 1 {
			err = fmt.Errorf("%d pods are available", deployment.Status.AvailableReplicas)
		}
		return err
	})
	env.Must(t, s.hasSettings(predecessor.Entry.Name))
	uid := driver.UID
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(driver), driver))
	if driver.UID != uid || driver.DeletionTimestamp != nil {
		t.Errorf("the CSIDriver was made anew: UID %s, before %s", driver.UID, uid)
	}
	s.says("ManilaCSIDriverOperatorCRAvailable", operatorv1.ConditionTrue, "")
	tenant.keeps(s)

	// Without a configuration the next program leaves everything as it is, also what has the names of the old operator.
	lookalikes := predecessor.Subscriptions()[:1]
	for _, object := range lookalikes {
		object.SetNamespace(tenantNamespace)
		env.Must(t, s.Client.Create(t.Context(), object))
	}
	tenant.objects = append(tenant.objects, lookalikes...)
	s.restart()
	s.repaired(predecessor.Entry.Name)
	tenant.keeps(s)
}

// tenantNamespace is that of somebody who may install operators there, and nothing in other namespaces.
const tenantNamespace = "tenant-of-olm"

// olmTenant is an operator of another package, and a Deployment that claims to be of the old operator and of that one.
type olmTenant struct{ objects []client.Object }

func (s *scene) tenantOfOLM(predecessor *predecessors.OLMOperator) *olmTenant {
	s.t.Helper()
	env.Must(s.t, s.Namespace(s.t.Context(), tenantNamespace))
	version := &unstructured.Unstructured{}
	version.SetAPIVersion("operators.coreos.com/v1alpha1")
	version.SetKind("ClusterServiceVersion")
	version.SetNamespace(tenantNamespace)
	version.SetName("important.v1.0.0")
	env.Must(s.t, s.Client.Create(s.t.Context(), version))
	deployment := predecessor.Deployment()
	deployment.Namespace = tenantNamespace
	deployment.Labels["olm.owner"], deployment.Labels["olm.owner.namespace"] = version.GetName(), tenantNamespace
	deployment.OwnerReferences = []metav1.OwnerReference{predecessors.OwnerOf(version)}
	// It has no pods: the operator would have to wait for them, as nobody knows whose they are.
	none := int32(0)
	deployment.Spec.Replicas = &none
	env.Must(s.t, s.Client.Create(s.t.Context(), deployment))
	s.t.Cleanup(func() {
		if _, err := s.Kubectl(context.Background(), "delete", "deployments", "--all", "-n", tenantNamespace); err != nil {
			s.t.Error(err)
		}
	})
	return &olmTenant{objects: []client.Object{version, deployment}}
}

// keeps checks that nothing of the tenant's was deleted.
func (o *olmTenant) keeps(s *scene) {
	s.t.Helper()
	for _, object := range o.objects {
		uid := object.GetUID()
		err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object)
		if err != nil || object.GetUID() != uid || object.GetDeletionTimestamp() != nil {
			s.t.Errorf("%T %s of the tenant was deleted (%v)", object, object.GetName(), err)
		}
	}
}

// identity is that of the objects of the EBS driver that have no namespace.
func (s *scene) identity() map[string]types.UID {
	s.t.Helper()
	found := map[string]types.UID{}
	for _, object := range predecessors.LegacyEBS() {
		if object.GetNamespace() == "" {
			env.Must(s.t, s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
			found[fmt.Sprintf("%T %s", object, object.GetName())] = object.GetUID()
		}
	}
	return found
}

// oldPlugins checks that these nodes, and no others, have a plugin in the old namespace.
func (s *scene) oldPlugins(nodes ...string) error {
	pods := &corev1.PodList{}
	if err := s.Client.List(s.t.Context(), pods, client.InNamespace(predecessors.LegacyEBSNamespace)); err != nil {
		return err
	}
	var have []string
	for i := range pods.Items {
		have = append(have, pods.Items[i].Spec.NodeName)
	}
	if diff := cmp.Diff(nodes, have); diff != "" {
		return errors.New("nodes with an old plugin (-want +have):\n" + diff)
	}
	return nil
}

// hold sets the finalizers of an object.
func (s *scene) hold(object client.Object, finalizers string) {
	s.t.Helper()
	patch := env.Merge(`{"metadata":{"finalizers":` + finalizers + `}}`)
	env.Must(s.t, s.Client.Patch(s.t.Context(), object, patch))
}

// forget deletes the applications of a namespace, with their PVCs.
func (s *scene) forget(namespace string) {
	for _, kind := range []string{"pods", "persistentvolumeclaims"} {
		if _, err := s.Kubectl(context.Background(), "delete", kind, "--all", "-n", namespace); err != nil {
			s.t.Error(err)
		}
	}
}
