package drivers

import (
	"maps"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/rbac"
	"github.com/csi-operators/csi-operators/internal/driver"
	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
	"github.com/csi-operators/csi-operators/test/env"
)

// scene is a driver in a cluster, and what is expected of it.
type scene struct {
	cluster  *env.Cluster
	driver   driver.Driver
	operator *env.Operator
	// classes are the StorageClasses, with what they say about being the default.
	classes         map[string]string
	snapshotClasses []string
	// keys are those of the Secret with credentials; without any it has what is not real.
	keys map[string]string
	// facts are what the cloud of the driver answers.
	facts driver.CloudFacts
	// before is what is in the cluster before the operator.
	before []client.Object
	// otherClass is the name of a class that is there before, and of another driver.
	otherClass string
	// key is a key to encrypt volumes with.
	key operatorv1.CSIDriverConfigSpec
}

// start starts the driver's operator.
func (s *scene) start(t *testing.T) {
	t.Helper()
	env.Must(t, s.cluster.Namespace(t.Context(), s.namespace()))
	env.Must(t, s.cluster.PutDriverAccount(t.Context(), s.driver, rbac.Rules))
	var err error
	s.operator, err = s.cluster.StartDriverOperator(t.Context(), s.driver)
	env.Must(t, err)
}

// quit stops the operator. The pool takes away what is left.
func (s *scene) quit(t *testing.T) {
	if s.operator == nil {
		return
	}
	if t.Failed() {
		t.Logf("the operator printed:\n%s", env.LastLines(s.operator.Output()))
	}
	if err := s.operator.Stop(); err != nil {
		t.Error(err)
	}
}

// namespace is where the driver runs.
func (s *scene) namespace() string { return s.driver.OperandNamespace(env.OperatorNamespace) }

func (s *scene) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: s.driver.Deployment}}
}

func (s *scene) daemonSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: s.driver.DaemonSet}}
}

// secret holds the keys that the driver wants.
func (s *scene) secret() *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace(), Name: s.driver.Credentials[0].Secret}}
	secret.StringData = map[string]string{}
	for _, key := range s.driver.Credentials[0].Keys[0] {
		secret.StringData[key] = "not real"
	}
	maps.Copy(secret.StringData, s.keys)
	return secret
}

func (s *scene) get(t *testing.T, object client.Object) {
	t.Helper()
	env.Must(t, s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
}

func (s *scene) cr(t *testing.T) *operatorv1.ClusterCSIDriver {
	t.Helper()
	cr := env.CR(s.driver.Name, "")
	s.get(t, cr)
	return cr
}

// message is what a condition of the ClusterCSIDriver says.
func (s *scene) message(t *testing.T, kind string) string {
	t.Helper()
	for _, condition := range s.cr(t).Status.Conditions {
		if condition.Type == kind {
			return condition.Message
		}
	}
	return ""
}

// change changes the ClusterCSIDriver as an administrator.
func (s *scene) change(t *testing.T, change func(*operatorv1.ClusterCSIDriverSpec)) {
	t.Helper()
	cr := s.cr(t)
	before := cr.DeepCopy()
	change(&cr.Spec)
	env.Must(t, s.cluster.Client.Patch(t.Context(), cr, client.MergeFrom(before)))
}

// settle waits until the newest generation is available, rolled out and healthy.
func (s *scene) settle(t *testing.T) {
	t.Helper()
	env.Eventually(t, s.driver.Name+" settles", func() error { return s.cluster.SettledOf(t.Context(), s.driver.Name) })
}

func (s *scene) containers(t *testing.T) []string {
	t.Helper()
	deployment := s.deployment()
	s.get(t, deployment)
	var names []string
	for _, container := range deployment.Spec.Template.Spec.Containers {
		names = append(names, container.Name)
	}
	return names
}

// defaultClass is the name of the class that is the default of a new cluster, or of the only one.
func (s *scene) defaultClass() string {
	for name, isDefault := range s.classes {
		if isDefault == "true" || len(s.classes) == 1 {
			return name
		}
	}
	return ""
}

func (s *scene) class(t *testing.T, name string) *storagev1.StorageClass {
	t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.get(t, class)
	return class
}

func (s *scene) liveClasses(t *testing.T) map[string]string {
	t.Helper()
	list := &storagev1.StorageClassList{}
	env.Must(t, s.cluster.Client.List(t.Context(), list))
	found := map[string]string{}
	for _, class := range list.Items {
		found[class.Name] = class.Annotations["storageclass.kubernetes.io/is-default-class"]
	}
	return found
}

func (s *scene) liveSnapshotClasses(t *testing.T) []string {
	t.Helper()
	list := &snapshotv1.VolumeSnapshotClassList{}
	env.Must(t, s.cluster.Client.List(t.Context(), list))
	var names []string
	for _, class := range list.Items {
		names = append(names, class.Name)
	}
	slices.Sort(names)
	return names
}

// uids are the UIDs of all objects of the driver, by kind and name.
func (s *scene) uids(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, object := range s.all(t) {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if kind == driver.VolumeSnapshotClassKind().Kind {
			continue
		}
		if err := s.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if object.GetUID() != "" {
			found[kind+" "+object.GetName()] = string(object.GetUID())
		}
	}
	if len(found) < 20 {
		t.Fatalf("%d objects", len(found))
	}
	return found
}

// all are the objects that the driver may have.
func (s *scene) all(t *testing.T) []client.Object {
	t.Helper()
	settings, err := s.driver.ReadSettings(func(string) string { return "" })
	env.Must(t, err)
	objects, err := s.driver.Everything(s.cluster.Scheme, s.namespace(), settings)
	env.Must(t, err)
	return objects
}
