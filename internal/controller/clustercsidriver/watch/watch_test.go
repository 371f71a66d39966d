package watch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	everydriver "github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// disk is a driver that was invented for tests.
func disk() driver.Driver {
	return driver.Driver{
		Name: "disk.example.com", Operator: "disk-operator", Prefix: "disk", Deployment: "disk-controller", DaemonSet: "disk-node", StorageClass: "disk-sc",
		Predecessors: []driver.Predecessor{{DaemonSet: "old-disk-node"}}, Credentials: []driver.Credentials{{Request: "disk", Secret: "disk-keys"}},
	}
}

// snapshots makes snapshots, by a sidecar that needs their classes.
func snapshots(d driver.Driver) driver.Driver {
	d.Sidecars = append(d.Sidecars, driver.Sidecar{Name: "snapshotter", Needs: driver.VolumeSnapshotClassKind()})
	return d
}

func all(d driver.Driver) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for kind := range OptionalKinds(d) {
		kinds[kind] = true
	}
	return kinds
}

// short is the kind of an object.
func short(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndex(name, ".")+1:]
}

func kindsOf(list []Watched) string {
	var names []string
	for _, watched := range list {
		names = append(names, short(watched.Object))
	}
	return strings.Join(names, " ")
}

func TestOnlyKindsThatTheClusterServesAreWatched(t *testing.T) {
	const before, after = "ServiceAccount ClusterRole Role ClusterRoleBinding RoleBinding", "ConfigMap CSIDriver StorageClass Service"
	const last = "PodDisruptionBudget DaemonSet Deployment Pod"
	webhooked := disk()
	webhooked.Webhook = "disk-webhook"
	for name, tc := range map[string]struct {
		driver driver.Driver
		kinds  map[schema.GroupKind]bool
		want   string
	}{
		"plain Kubernetes": {disk(), nil, "ClusterCSIDriver " + before + " " + after + " " + last},
		"OpenShift": {
			disk(), all(disk()), "ClusterCSIDriver Infrastructure CloudCredential Proxy APIServer FeatureGate " + before + " CredentialsRequest " + after +
				" ServiceMonitor " + last,
		},
		"a webhook": {webhooked, nil, "ClusterCSIDriver " + before + " " + after + " " + last + " ValidatingWebhookConfiguration"},
		"snapshots": {
			snapshots(disk()), map[schema.GroupKind]bool{driver.VolumeSnapshotClassKind(): true},
			"ClusterCSIDriver " + before + " " + after + " " + last + " VolumeSnapshotClass",
		},
		"snapshots that may come": {snapshots(disk()), nil, "ClusterCSIDriver " + before + " " + after + " " + last + " CustomResourceDefinition"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kindsOf(Served(tc.driver, "here", tc.kinds)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// What is in memory is what the operator may see, and no more.
func TestWhichPartOfEachKindIsKeptInMemory(t *testing.T) {
	d := disk()
	got := map[string]string{}
	for object, config := range CacheOptions(d, "here", all(d)) {
		var parts []string
		if config.Field != nil {
			parts = append(parts, config.Field.String())
		}
		if config.Label != nil {
			parts = append(parts, config.Label.String())
		}
		for _, namespace := range slices.Sorted(maps.Keys(config.Namespaces)) {
			part := "in " + namespace
			if selector := config.Namespaces[namespace].FieldSelector; selector != nil {
				part += " " + selector.String()
			}
			parts = append(parts, part)
		}
		if config.Transform != nil {
			parts = append(parts, "transformed")
		}
		got[short(object)] = strings.Join(parts, ", ")
	}
	const label, cluster = "app.kubernetes.io/managed-by=disk-operator", "metadata.name=cluster"
	want := map[string]string{
		"ClusterCSIDriver": "metadata.name=disk.example.com", "CSIDriver": "metadata.name=disk.example.com", "StorageClass": "metadata.name=disk-sc",
		"Infrastructure": cluster, "CloudCredential": cluster, "Proxy": cluster, "APIServer": cluster, "FeatureGate": cluster,
		"ClusterRole": label, "ClusterRoleBinding": label, "ServiceAccount": label + ", in here", "Role": label + ", in here",
		"RoleBinding": label + ", in here", "Service": label + ", in here", "ServiceMonitor": label + ", in here", "PodDisruptionBudget": label + ", in here",
		"DaemonSet": label + ", in here", "Deployment": label + ", in here", "CredentialsRequest": label + ", in openshift-cloud-credential-operator",
		"ConfigMap": label + ", in here, in openshift-config-managed metadata.name=" + d.Dashboard(),
		"Pod":       "app in (disk-controller,disk-node,old-disk-node), in here, transformed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	d.StorageClass = ""
	for object, config := range CacheOptions(d, "here", nil) {
		if short(object) == "StorageClass" && (config.Field != nil || config.Label != nil) {
			t.Errorf("of the StorageClasses only some are seen: %+v", config)
		}
	}
}

// The release's CredentialsRequest lacks our label, and a cache selects one name.
func TestTheRequestOfTheReleaseIsSeenByName(t *testing.T) {
	for _, d := range everydriver.Drivers() {
		var want string
		for _, credentials := range d.Credentials {
			if !credentials.Payload {
				continue
			}
			if want != "" || len(d.Credentials) > 1 {
				t.Errorf("%s: the cache would show only CredentialsRequest %s", d.Name, credentials.Request)
			}
			want = credentials.Request
		}
		if got := requests(d); got.Name != want || got.Namespace != "openshift-cloud-credential-operator" {
			t.Errorf("%s sees CredentialsRequest %s/%s, want %q", d.Name, got.Namespace, got.Name, want)
		}
	}
}

// The one ConfigMap of another namespace is the dashboard of ours, or the configuration of the cloud, which is OpenShift's.
func TestTheCAOfACloudIsReadFromOpenShift(t *testing.T) {
	d := disk()
	kinds := map[schema.GroupKind]bool{openshift.InfrastructureKind(): true}
	other := func(kinds map[schema.GroupKind]bool) client.ObjectKey {
		if others := configMaps(d, "here", kinds).Others; len(others) == 1 {
			return others[0]
		}
		return client.ObjectKey{}
	}
	if got := other(kinds); got != (client.ObjectKey{Namespace: "openshift-config-managed", Name: d.Dashboard()}) {
		t.Errorf("without a CA: %s", got)
	}
	d.CloudCAVariable = "CLOUD_CA"
	if got := other(kinds); got != CloudConfig() || got.String() != "openshift-config-managed/kube-cloud-config" {
		t.Errorf("with a CA: %s", got)
	}
	if got := other(nil); got != (client.ObjectKey{}) {
		t.Errorf("without OpenShift: %s", got)
	}
	for object, config := range CacheOptions(d, "here", kinds) {
		if short(object) != "ConfigMap" {
			continue
		}
		other := config.Namespaces["openshift-config-managed"]
		if other.LabelSelector == nil || !other.LabelSelector.Empty() || other.Transform == nil {
			t.Errorf("it has a label of ours, or is kept as a whole: %+v", other)
		}
	}
}

// Of what a Secret is made of, the ConfigMap is kept as it is; the Secret itself is hashed, and is the only one that is seen.
func TestADerivedSecretIsWatchedWithWhatItIsMadeOf(t *testing.T) {
	d := disk()
	from := client.ObjectKey{Namespace: "openshift-config", Name: "cloud"}
	second := client.ObjectKey{Namespace: "openshift-config-managed", Name: "more"}
	d.Derived = &driver.Derived{Name: "made", ConfigMaps: []driver.DerivedConfigMap{{ObjectKey: from}, {ObjectKey: second, Optional: true}}}
	if diff := cmp.Diff([]client.ObjectKey{from, second}, configMaps(d, "here", nil).Others); diff != "" {
		t.Errorf("the ConfigMaps (-want +got):\n%s", diff)
	}
	found := map[string]cache.ByObject{}
	for object, config := range CacheOptions(d, "here", nil) {
		found[short(object)] = config
	}
	secret := found["Secret"]
	if secret.Field == nil || secret.Field.String() != "metadata.name=made" || len(secret.Namespaces) != 1 {
		t.Errorf("Secrets are seen by %v in %v", secret.Field, secret.Namespaces)
	}
	kept, err := secret.Transform(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "plain"}},
		Data:       map[string][]byte{"key": []byte("plain")},
	})
	if text := fmt.Sprint(kept); err != nil || strings.Contains(text, "plain") || !strings.Contains(text, "a:b") {
		t.Errorf("kept is %s, %v", text, err)
	}
	config, err := found["ConfigMap"].Namespaces["openshift-config"].Transform(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud", Annotations: map[string]string{"large": "text"}}, Data: map[string]string{"config": "{}"},
	})
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Data: map[string]string{"config": "{}"}}
	if diff := cmp.Diff(want, config); err != nil || diff != "" {
		t.Errorf("%v, ConfigMap (-want +got):\n%s", err, diff)
	}
}

func TestOptionalKindsAreThoseThatADriverUses(t *testing.T) {
	names := func(d driver.Driver) []string {
		var found []string
		for kind, version := range OptionalKinds(d) {
			found = append(found, kind.Kind+" "+version)
		}
		slices.Sort(found)
		return found
	}
	usual := []string{"APIServer v1", "CloudCredential v1", "CredentialsRequest v1", "FeatureGate v1", "Infrastructure v1", "Proxy v1", "ServiceMonitor v1"}
	if diff := cmp.Diff(usual, names(disk())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	more := snapshots(disk())
	want := append(slices.Clone(usual), "VolumeSnapshotClass v1")
	slices.Sort(want)
	if diff := cmp.Diff(want, names(more)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLittleIsKeptOfAPod(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Labels: map[string]string{"app": "disk-node"}, Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}},
		},
		Spec: corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Image: "i", State: waiting}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "d", RestartCount: 7}},
		},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "disk-node"}},
		Spec:       corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa"},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{State: waiting}}, InitContainerStatuses: []corev1.ContainerStatus{{}},
		},
	}
	for range 2 {
		if _, err := stripPod(pod); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, pod); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// Most updates of a pod say nothing new.
func TestAnUpdateOfAPodMattersIfItsHealthChanges(t *testing.T) {
	pod := func(reason string, restarts int32) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Reason: reason, ContainerStatuses: []corev1.ContainerStatus{{RestartCount: restarts}}}}
	}
	for name, tc := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"nothing":           {pod("Evicted", 0), pod("Evicted", 0), false},
		"a restart":         {pod("Evicted", 0), pod("Evicted", 1), false},
		"another reason":    {pod("Evicted", 0), pod("NodeLost", 0), true},
		"anything but pods": {&configv1.Proxy{}, &configv1.Proxy{}, true},
	} {
		if got := changesHealth(tc.before, tc.after); got != tc.want {
			t.Errorf("%s matters: %t", name, got)
		}
	}
}

// Whoever reads the memory of the operator learns nothing of a policy, but whether there is one.
func TestWhatIsKeptOfASecret(t *testing.T) {
	const policy = "cloudcredential.openshift.io/aws-policy-last-applied"
	for name, tc := range map[string]struct{ have, want map[string]string }{
		"by hand":        {map[string]string{"note": "private"}, map[string]string{RequestAnnotation: ""}},
		"for a request":  {map[string]string{RequestAnnotation: "a/b"}, map[string]string{RequestAnnotation: "a/b"}},
		"minted":         {map[string]string{policy: "statements"}, map[string]string{RequestAnnotation: "", policy: "policy"}},
		"passed through": {map[string]string{policy: ""}, map[string]string{RequestAnnotation: "", policy: ""}},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: tc.have, ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
		for range 2 {
			if _, err := HashSecret(secret); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, secret.Annotations); diff != "" || secret.ManagedFields != nil {
				t.Errorf("%s -want +got:\n%s", name, diff)
			}
		}
	}
}
