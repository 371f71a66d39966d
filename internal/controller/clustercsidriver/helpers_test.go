package clustercsidriver

import (
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/pendingpvc"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

var scheme = sync.OnceValues(kube.Scheme)

// began is when every test begins, by its own clock.
var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// The names of a driver that was invented for tests, and of the Secrets that it needs.
const (
	diskName = "disk.example.com"
	here     = "storage-system"
)

// disk is a removable driver with credentials for both workloads, of which those of the nodes are optional.
func disk() driver.Driver {
	const csi = "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: \"${DRIVER_NAME}\"}\nspec: {}\n"
	const class = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: disk-sc}\nprovisioner: \"${DRIVER_NAME}\"\n"
	const request = "apiVersion: cloudcredential.openshift.io/v1\nkind: CredentialsRequest\n" +
		"metadata: {name: \"${NAME}\", namespace: openshift-cloud-credential-operator}\nspec: {providerSpec: {kind: AWSProviderSpec}}\n"
	const workload = "apiVersion: apps/v1\nkind: ${KIND}\nmetadata: {name: ${NAME}, namespace: \"${NAMESPACE}\"}\nspec:\n  " +
		"selector: {matchLabels: {app: ${NAME}}}\n  template:\n    metadata: {labels: {app: ${NAME}}}\n    " +
		"spec: {containers: [{name: csi-driver, image: \"${DRIVER_IMAGE}\"}]}\n"
	asset := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return driver.Driver{
		Name: diskName, Operator: "disk-operator", Prefix: "disk", ShortPrefix: "dk", ConditionPrefix: "Disk", Platform: configv1.AWSPlatformType,
		DaemonSet: "disk-node", Deployment: "disk-controller", StorageClass: "disk-sc", Removable: true,
		LegacyFinalizers: []string{"old.example.com/driver"}, LegacyConditions: []string{"DiskOldControllerDegraded"},
		Credentials: []driver.Credentials{
			{
				Asset: "controller.yaml", Request: "disk-request", Secret: "disk-keys", Workload: driver.Controller, Condition: "DiskCredentialsController",
				RoleARNVariable: "ROLEARN", Keys: [][]string{{"credentials"}, {"id", "key"}},
			},
			{
				Asset: "node.yaml", Request: "disk-node-request", Secret: "disk-node-keys", Workload: driver.Node, Condition: "DiskNodeCredentialsController",
				RoleARNVariable: "NODE_ROLEARN", Keys: [][]string{{"credentials"}}, Optional: true,
			},
		},
		Assets: fstest.MapFS{
			"assets/csidriver.yaml": asset(csi), "assets/storageclass.yaml": asset(class),
			"assets/controller.yaml":             asset(strings.NewReplacer("${KIND}", "Deployment", "${NAME}", "disk-controller").Replace(workload)),
			"assets/node.yaml":                   asset(strings.NewReplacer("${KIND}", "DaemonSet", "${NAME}", "disk-node").Replace(workload)),
			"assets/credentials/controller.yaml": asset(strings.ReplaceAll(request, "${NAME}", "disk-request")),
			"assets/credentials/node.yaml":       asset(strings.ReplaceAll(request, "${NAME}", "disk-node-request")),
		},
	}
}

// allKinds are the optional kinds of the driver, as a cluster of OpenShift serves them.
func allKinds() map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for kind := range watch.OptionalKinds(disk()) {
		kinds[kind] = true
	}
	return kinds
}

// clocked has conditions of the driver, by a clock that the test turns.
func clocked() (conditioner, *time.Time) {
	now := began
	clock := func() time.Time { return now }
	return conditioner{
		driver: disk(), namespace: here, kinds: allKinds(), failures: &status.Failures{Now: clock},
		rollouts: &status.Rollouts{Now: clock}, waits: &status.Waits{Now: clock},
	}, &now
}

// deployment is that of a controller which runs, with two pods.
func deployment() *appsv1.Deployment {
	replicas := int32(2)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-controller", Generation: 1, UID: "deployment-1"},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2},
	}
}

// daemonSet is that of node pods which run on three nodes.
func daemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-node", Generation: 1, UID: "daemonset-1"},
		Status:     appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3},
	}
}

// request is a CredentialsRequest that was followed.
func request(name string) *cloudcredentialv1.CredentialsRequest {
	found := &cloudcredentialv1.CredentialsRequest{}
	found.Namespace, found.Name, found.Generation = cloudcredentialv1.Namespace, name, 1
	found.CreationTimestamp = metav1.NewTime(began)
	found.Status.Provisioned, found.Status.LastSyncGeneration = true, 1
	return found
}

func changed(action apply.Action, kind, namespace, name string) apply.Change {
	group := map[string]string{"Deployment": "apps", "DaemonSet": "apps", "StorageClass": "storage.k8s.io", "ClusterRole": "rbac.authorization.k8s.io"}
	return apply.Change{Action: action, Subject: apply.Subject{
		GroupVersionKind: schema.GroupVersionKind{Group: group[kind], Version: "v1", Kind: kind},
		ObjectKey:        client.ObjectKey{Namespace: namespace, Name: name},
	}}
}

func failed(kind, namespace, name string, err error) apply.Change {
	change := changed(apply.Failed, kind, namespace, name)
	change.Err = err
	return change
}

// healthy is a ClusterCSIDriver whose driver runs, and the outcome of a trip that found all in order.
func healthy() (*operatorv1.ClusterCSIDriver, outcome) {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{
		Name: diskName, UID: "cr-1", Generation: 7, ResourceVersion: "70", Finalizers: []string{disk().Finalizer()},
	}}
	cr.Spec.ManagementState = operatorv1.Managed
	found := seen{
		live: live{
			deployment: deployment(), daemonSet: daemonSet(), unready: map[driver.Workload][]string{},
			credentials: credential.Found{
				Requests: map[string]*cloudcredentialv1.CredentialsRequest{
					"disk-request": request("disk-request"), "disk-node-request": request("disk-node-request"),
				},
				Secrets: map[string]credential.Secret{
					"disk-keys": {Hash: "a", Keys: []string{"credentials"}}, "disk-node-keys": {Hash: "b", Keys: []string{"credentials"}},
				},
			},
		},
		config: driver.Config{Namespace: here, Kinds: allKinds(), CredentialsMode: operatorv1.CloudCredentialsModeMint},
	}
	return cr, outcome{seen: found, changes: apply.ChangeSet{
		changed(apply.Unchanged, "ServiceAccount", here, "disk-node-sa"), changed(apply.Unchanged, "ClusterRole", "", "disk"),
		changed(apply.Unchanged, "Deployment", here, "disk-controller"), changed(apply.Unchanged, "DaemonSet", here, "disk-node"),
	}}
}

// texts are conditions as "Status Reason: message" by their types, of which the long ones are abbreviated.
func texts(conditions []operatorv1.OperatorCondition) map[string]string {
	short := strings.NewReplacer(
		"DiskDriverControllerServiceController", "Controller", "DiskDriverNodeServiceController", "Nodes",
		"DiskDriverControlPlaneStaticResourcesController", "Inside", "DiskDriverGuestStaticResourcesController", "Everywhere",
		"DiskCredentialsController", "Keys", "DiskNodeCredentialsController", "NodeKeys",
	)
	found := map[string]string{}
	for _, condition := range conditions {
		text := string(condition.Status) + " " + condition.Reason
		if condition.Message != "" {
			text += ": " + condition.Message
		}
		found[short.Replace(condition.Type)] = short.Replace(text)
	}
	return found
}

// differing are the conditions that are not as those of a driver which runs; one that is missing is empty.
func differing(conditions []operatorv1.OperatorCondition) map[string]string {
	c, _ := clocked()
	cr, result := healthy()
	all, _, _ := c.conditions(cr, result)
	usual, found := texts(all), texts(conditions)
	for kind, text := range usual {
		if found[kind] == text {
			delete(found, kind)
		} else if _, there := found[kind]; !there {
			found[kind] = ""
		}
	}
	return found
}

// trip is a Reconciler with its cluster, its events and its clock.
type trip struct {
	*Reconciler
	cluster  *canned.Cluster
	events   *canned.Events
	now      time.Time
	registry *prometheus.Registry
}

// newTrip has a Reconciler of a driver on a cluster of OpenShift. The cache and the cluster are the same.
func newTrip(t *testing.T, d driver.Driver, objects ...client.Object) *trip {
	t.Helper()
	made := &trip{cluster: newCluster(t, objects...), events: &canned.Events{}, now: began, registry: prometheus.NewRegistry()}
	clock := func() time.Time { return made.now }
	made.Reconciler = &Reconciler{
		Client: made.cluster, Live: made.cluster, Driver: d, Events: made.events, Now: clock,
		Environment: Environment{Namespace: here, Kinds: allKinds(), Images: map[string]string{}, Version: "1.2.3"},
		Process:     Process{SetLogLevel: func(operatorv1.LogLevel) {}},
		Credentials: &credential.Source{Client: made.cluster, Driver: d, Namespace: here, Secrets: map[string]cache.Cache{}},
		Derived:     &derived.Source{Client: made.cluster, Live: made.cluster, Driver: d, Namespace: here, Version: "1.2.3"},
		Migration: &migration.Migration{
			Client: made.cluster, Live: made.cluster, Driver: d, Namespace: here, Events: made.events, Now: clock,
		},
		Nodes:   &nodes.Updater{Client: made.cluster, Live: made.cluster, Driver: d.Name, Now: clock},
		Pending: &pendingpvc.PVCs{Client: made.cluster, Live: made.cluster, Driver: d, Namespace: here, Now: clock},
	}
	made.Credentials.Kinds, made.Derived.Kinds = made.Kinds, made.Kinds
	for _, credentials := range d.Credentials {
		made.Credentials.Secrets[credentials.Secret] = secretCache{secrets: made.cluster}
	}
	for _, variable := range d.Images() {
		made.Images[variable] = "image"
	}
	var err error
	if made.Settings, err = d.ReadSettings(func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if err := made.prepareApplier(); err != nil {
		t.Fatal(err)
	}
	gauges, err := newMetrics(made.registry, d.Name)
	if err != nil {
		t.Fatal(err)
	}
	made.reporter = made.newReporter(gauges)
	return made
}

// found is the installed driver.
func (s *trip) found(t *testing.T) seen {
	t.Helper()
	found, err := s.observeLive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// infrastructure is that of a cluster on AWS.
func infrastructure() *configv1.Infrastructure {
	found := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: openshift.Singleton}}
	found.Status = configv1.InfrastructureStatus{
		InfrastructureName: "cluster-x1", ControlPlaneTopology: configv1.HighlyAvailableTopologyMode,
		InfrastructureTopology: configv1.SingleReplicaTopologyMode,
		PlatformStatus: &configv1.PlatformStatus{
			Type: configv1.AWSPlatformType, AWS: &configv1.AWSPlatformStatus{Region: "mars-1", ResourceTags: []configv1.AWSResourceTag{{Key: "a", Value: "b"}}},
		},
	}
	return found
}

// ours makes an object one that this operator has applied.
func ours[T client.Object](object T) T {
	object.SetLabels(map[string]string{openshift.ManagedByLabel: "disk-operator", "app": object.GetName()})
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "disk-operator", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1("{}"),
	}})
	return object
}

// generations are what the status remembers of a DaemonSet of generation 1.
func generations(name, uid string) []operatorv1.GenerationStatus {
	return []operatorv1.GenerationStatus{{Group: "apps", Resource: "daemonsets", Namespace: here, Name: name, LastGeneration: 1, Hash: uid}}
}

// gauges are the values of all metrics, by name and labels but that of the driver.
func (s *trip) gauges(t *testing.T) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for name, value := range canned.Metrics(t, s.registry) {
		short := strings.Replace(name, " "+diskName, "", 1)
		if short == name {
			t.Errorf("%s is not one of driver %s", name, diskName)
		}
		found[short] = value
	}
	return found
}

// csiDriver is one of the objects that the driver consists of.
func csiDriver() *storagev1.CSIDriver {
	return ours(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}})
}

func deleted[T client.Object](object T) T {
	now := metav1.NewTime(began)
	object.SetDeletionTimestamp(&now)
	object.SetFinalizers([]string{"foregroundDeletion"})
	return object
}

// bundle is the ConfigMap with the certificates that a cluster trusts.
func bundle(content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-trusted-ca-bundle", CreationTimestamp: metav1.NewTime(began)},
		Data:       map[string]string{"ca-bundle.crt": content},
	}
}

func secret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-keys"}, Data: data}
}

// driverPod is one of a workload; reason says why it is not ready, if it is not.
func driverPod(app, node, reason string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: app + "-" + node, Labels: map[string]string{"app": app}}}
	pod.Spec.NodeName, pod.Status.Reason = node, reason
	if reason == "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}
