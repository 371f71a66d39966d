package clustercsidriver

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
)

// everyPayloadDriver runs a test for each driver that is part of a cluster and never removed. test/drivers runs one driver of each shape in a
// cluster; here all drivers meet the same answers.
func everyPayloadDriver(t *testing.T, test func(*testing.T, driver.Driver)) {
	t.Helper()
	tried := 0
	for _, d := range all.Drivers() {
		if d.Removable || d.RemovedByState {
			continue
		}
		tried++
		t.Run(d.Name, func(t *testing.T) { test(t, d) })
	}
	if tried < 6 {
		t.Errorf("%d drivers", tried)
	}
}

// answered is a cloud that has answered.
type answered struct{}

func (answered) Facts() driver.CloudFacts {
	return driver.CloudFacts{Known: true, ShareTypes: []string{"default"}, ComputeZones: []string{"nova"}, VolumeZones: []string{"nova"}}
}
func (answered) Failure() derived.CloudFailure                          { return derived.CloudFailure{} }
func (answered) SetInputs(string)                                       {}
func (answered) Changed() <-chan event.TypedGenericEvent[client.Object] { return nil }

// tripOf has a Reconciler of a driver on a cluster of its platform, with all that the driver reads there but its Secret, and with these objects.
func tripOf(t *testing.T, d driver.Driver, objects ...client.Object) *trip {
	t.Helper()
	return tripOn(t, d.Platform, d, objects...)
}

// tripOn is tripOf on a cluster of another platform.
func tripOn(t *testing.T, platform configv1.PlatformType, d driver.Driver, objects ...client.Object) *trip {
	t.Helper()
	cluster := infrastructure()
	cluster.Status.InfrastructureTopology = configv1.HighlyAvailableTopologyMode
	cluster.Status.PlatformStatus = &configv1.PlatformStatus{Type: platform}
	namespace := d.OperandNamespace(here)
	objects = append(slices.Clone(objects), cluster, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.TrustedCABundle()}, Data: map[string]string{driver.TrustedCAKey: "certificates"},
	})
	if d.Derived != nil {
		for _, config := range d.Derived.ConfigMaps {
			if config.Optional {
				continue
			}
			objects = append(objects, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: config.Namespace, Name: config.Name}, Data: map[string]string{"config": `{"cloud": "AzurePublicCloud"}`},
			})
		}
	}
	s := newTrip(t, d, objects...)
	s.Namespace, s.Credentials.Namespace, s.Derived.Namespace = namespace, namespace, namespace
	s.Migration.Namespace, s.Pending.Namespace = namespace, namespace
	s.Kinds = map[schema.GroupKind]bool{}
	for kind := range watch.OptionalKinds(d) {
		s.Kinds[kind] = true
	}
	s.Credentials.Kinds, s.Derived.Kinds = s.Kinds, s.Kinds
	if d.Cloud != nil {
		s.Derived.Cloud = answered{}
	}
	if err := s.prepareApplier(); err != nil {
		t.Fatal(err)
	}
	s.reporter = s.newReporter(s.reporter.metrics)
	return s
}

// payloadKeys is the Secret of a driver.
func payloadKeys(d driver.Driver) *corev1.Secret {
	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.OperandNamespace(here), Name: d.Credentials[0].Secret}, Data: map[string][]byte{}}
	for _, key := range d.Credentials[0].Keys[0] {
		found.Data[key] = []byte("clouds: {openstack: {auth: {auth_url: https://cloud.example}}}")
	}
	return found
}

func payloadCR(d driver.Driver, state operatorv1.ManagementState) *operatorv1.ClusterCSIDriver {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.Name, UID: "cr-1", Generation: 7, ResourceVersion: "70"}}
	cr.Spec.ManagementState = state
	return cr
}

// appliedObjects are the names of what a cluster has of a driver, and the objects as its operator has applied them.
func appliedObjects(t *testing.T, d driver.Driver) (names []string, objects []client.Object) {
	t.Helper()
	for _, object := range variants.Render(t, d, func(cfg *driver.Config) { cfg.Namespace, cfg.Cloud = d.OperandNamespace(here), answered{}.Facts() }) {
		names = append(names, "apply "+nameOf(t, object))
		object.SetUID(types.UID(nameOf(t, object)))
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: d.Operator, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
		}})
		objects = append(objects, object)
	}
	slices.Sort(names)
	return names, objects
}

func nameOf(t *testing.T, object client.Object) string {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := apiutil.GVKForObject(object, known)
	if err != nil {
		t.Fatal(err)
	}
	return kind.Kind + " " + strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/")
}

// reconciled are the writes of one reconcile to other objects than the ClusterCSIDriver, and the conditions that it reports.
func (s *trip) reconciled(t *testing.T) (writes []string, conditions map[string]string) {
	t.Helper()
	if _, err := s.Reconcile(t.Context(), s.request()); err != nil {
		t.Fatal(err)
	}
	status := "apply status ClusterCSIDriver " + s.Driver.Name
	for _, write := range s.cluster.Writes {
		if write != status && write != "create SelfSubjectAccessReview " {
			writes = append(writes, write)
		}
	}
	slices.Sort(writes)
	if cr := canned.Written[operatorv1.ClusterCSIDriver](t, s.cluster, status); cr != nil {
		conditions = texts(cr.Status.Conditions)
	}
	return writes, conditions
}

func TestADriverOfThePayloadWaitsForItsSecret(t *testing.T) {
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		writes, conditions := tripOf(t, d, payloadCR(d, operatorv1.Managed)).reconciled(t)
		secret := d.Credentials[0].Secret
		keys := conditions[d.Credentials[0].Condition+"Available"]
		if !strings.Contains(keys, secret+" is missing") || !strings.Contains(keys, d.Credentials[0].Request) {
			t.Errorf("%s says %q", d.Credentials[0].Condition, keys)
		}
		if all := conditions["Available"]; !strings.HasPrefix(all, "False ") || !strings.Contains(all, secret) {
			t.Errorf("Available is %q", all)
		}
		if deployment := "apply Deployment " + d.OperandNamespace(here) + "/" + d.Deployment; slices.Contains(writes, deployment) {
			t.Error("the controller is started")
		}
	})
}

// The release brings the CredentialsRequest, which the operator finds by its name.
func TestADriverOfThePayloadNamesASecretInTheWayOfItsRequest(t *testing.T) {
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		request := &cloudcredentialv1.CredentialsRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredentialv1.Namespace, Name: d.Credentials[0].Request},
		}
		request.Status.Conditions = []cloudcredentialv1.CredentialsRequestCondition{
			{Type: "CredentialsProvisionFailure", Status: corev1.ConditionTrue, Message: "no user"},
		}
		writes, conditions := tripOf(t, d, payloadCR(d, operatorv1.Managed), payloadKeys(d), request).reconciled(t)
		keys := conditions[d.Credentials[0].Condition+"Available"]
		if !strings.HasPrefix(keys, "True ActionRequired: ") || !strings.Contains(keys, "delete the existing Secret") || !strings.Contains(keys, "no user") {
			t.Errorf("%s says %q", d.Credentials[0].Condition, keys)
		}
		if deployment := "apply Deployment " + d.OperandNamespace(here) + "/" + d.Deployment; !slices.Contains(writes, deployment) {
			t.Error("the controller is not started")
		}
	})
}

// Pods that mount what is made of a ConfigMap are not started without one.
func TestADriverOfThePayloadWaitsForTheConfigurationOfItsCloud(t *testing.T) {
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		if d.Derived == nil {
			return
		}
		for _, config := range d.Derived.ConfigMaps {
			if config.Optional {
				continue
			}
			s := tripOf(t, d, payloadCR(d, operatorv1.Managed), payloadKeys(d))
			s.cluster.Objects = slices.DeleteFunc(s.cluster.Objects, func(object client.Object) bool { return object.GetName() == config.Name })
			writes, conditions := s.reconciled(t)
			if want := "ConfigMap " + config.String() + ", which configures the driver for the cloud, is missing"; !strings.Contains(conditions["Available"], want) {
				t.Errorf("Available is %q, without %q", conditions["Available"], want)
			}
			for _, write := range writes {
				if strings.HasPrefix(write, "apply Deployment") || strings.HasPrefix(write, "apply DaemonSet") || strings.HasSuffix(write, "/"+d.Derived.Name) {
					t.Error(write)
				}
			}
		}
	})
}

// What is applied is all that is rendered, and the operator has a right for each write.
func TestADriverOfThePayloadIsInstalledAsRendered(t *testing.T) {
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		writes, conditions := tripOf(t, d, payloadCR(d, operatorv1.Managed), payloadKeys(d)).reconciled(t)
		want, objects := appliedObjects(t, d)
		if diff := cmp.Diff(want, writes); diff != "" {
			t.Errorf("-rendered +applied:\n%s", diff)
		}
		if keys := conditions[d.Credentials[0].Condition+"Available"]; !strings.HasPrefix(keys, "True ") {
			t.Errorf("%s says %q", d.Credentials[0].Condition, keys)
		}
		mayWrite(t, d, objects)
	})
}

// mayWrite checks that the role of the operator has what it takes to make these objects, to change and to remove them.
func mayWrite(t *testing.T, d driver.Driver, objects []client.Object) {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	everywhere, inside, err := rbac.Rules(d, known, here)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, known)
		if err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		rules := everywhere
		if in := object.GetNamespace(); in == here || in == d.OperandNamespace(here) {
			rules = slices.Concat(everywhere, inside)
		}
		for _, verb := range []string{"get", "create", "patch", "delete"} {
			if !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.APIGroups, kind.Group) && slices.Contains(rule.Resources, resource.Resource) && slices.Contains(rule.Verbs, verb) &&
					(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, object.GetName()))
			}) {
				t.Errorf("the operator may not %s %s", verb, nameOf(t, object))
			}
		}
	}
}

func TestADriverOfThePayloadIsNotRemovedByItsState(t *testing.T) {
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		now := metav1.NewTime(began)
		removed, gone := payloadCR(d, operatorv1.Removed), payloadCR(d, operatorv1.Managed)
		gone.DeletionTimestamp = &now
		_, objects := appliedObjects(t, d)
		for name, cr := range map[string]*operatorv1.ClusterCSIDriver{
			"Removed": removed, "deleted": gone, "Unmanaged": payloadCR(d, operatorv1.Unmanaged),
		} {
			writes, conditions := tripOf(t, d, append(slices.Clone(objects), cr, payloadKeys(d))...).reconciled(t)
			if len(writes) > 0 {
				t.Errorf("%s: %v", name, writes)
			}
			if refused := strings.HasPrefix(conditions["ManagementStateDegraded"], "True "); refused != (name == "Removed") {
				t.Errorf("%s: ManagementStateDegraded is %q", name, conditions["ManagementStateDegraded"])
			}
		}
	})
}

// In a cluster of another platform the workloads go first, and then all the rest.
func TestADriverOfThePayloadGoesWithItsPlatform(t *testing.T) {
	everyPayloadDriver(t, func(t *testing.T, d driver.Driver) {
		cr := payloadCR(d, operatorv1.Managed)
		cr.Annotations = map[string]string{openshift.NotWantedAnnotation: string(configv1.NutanixPlatformType)}
		removes := func(objects, going []client.Object) {
			t.Helper()
			var want, got []string
			for _, object := range going {
				want = append(want, "delete "+nameOf(t, object))
			}
			writes, conditions := tripOn(t, configv1.NutanixPlatformType, d, append(objects, cr, payloadKeys(d))...).reconciled(t)
			for _, write := range writes {
				name, _ := strings.CutSuffix(write, " Foreground")
				name, _ = strings.CutSuffix(name, " Background")
				got = append(got, name)
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-what is to go +what goes:\n%s", diff)
			}
			if why := conditions["ManagementStateDegraded"]; !strings.Contains(why, "the platform of the cluster is now Nutanix") {
				t.Errorf("ManagementStateDegraded is %q", why)
			}
		}
		_, objects := appliedObjects(t, d)
		isWorkload := func(object client.Object) bool {
			kind, _, _ := strings.Cut(nameOf(t, object), " ")
			return kind == "Deployment" || kind == "DaemonSet"
		}
		workloads := slices.DeleteFunc(slices.Clone(objects), func(object client.Object) bool { return !isWorkload(object) })
		removes(objects, workloads)
		objects = slices.DeleteFunc(objects, isWorkload)
		removes(objects, objects)
	})
}
