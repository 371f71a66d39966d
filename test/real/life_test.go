package real

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	snapshotv1 "github.com/csi-operators/csi-operators/internal/kube/snapshot/v1"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// hasClass tells whether there is a StorageClass to make volumes of.
func hasClass(v *variant) bool { return v.first("StorageClass") != "" }

// A PVC is provisioned, attached, resized, modified, snapshotted, copied and deleted, as far as the sidecars of the driver do that. No
// request is refused, and no rule of the rendered roles is without use.
func TestVolumesLiveUnderTheRenderedRoles(t *testing.T) {
	seen := &usage{held: map[rbac.Right]int{}, idle: map[rbac.Right]int{}}
	for _, folder := range slices.Sorted(maps.Keys(suite.variants)) {
		t.Run(folder, func(t *testing.T) {
			if base := suite.variants[folder][0]; base.name != baseName {
				t.Fatalf("driver %s has no variant %s", folder, baseName)
			}
			v := living(folder)
			profile := suite.profiles[folder]
			node := joinedNode(t, v.driverName(), profile)
			mark := now(t)
			controller, plugin := deploy(t, v, profile.at(node.Name, node.Labels[profile.TopologyKey]))
			env.Must(t, controller.await(t.Context(), "leases", controller.leads))
			for _, metrics := range controller.metrics(t) {
				metrics.check(t, controller)
			}
			l := &life{
				pod: controller, node: node.Name, can: profile.Capabilities, class: v.first("StorageClass"), namespace: "life-" + folder,
				inTree: profile.InTree.Provisioner,
			}
			if l.class == "" {
				l.class = administratorsClass(t, v.driverName())
			}
			l.live(t)
			noneRefused(t, mark, controller, plugin)
			env.Must(t, errors.Join(controller.stop(), controller.resigned(t.Context())))
			seen.add(t, mark, controller, plugin)
		})
	}
	if rbac.Complete() && !t.Failed() {
		seen.check(t)
	}
}

// living is the variant of a driver with which volumes live.
func living(folder string) *variant {
	// Where the classes follow from what the cloud has, the base has none: it knows of no cloud.
	return suite.variants[folder][max(0, slices.IndexFunc(suite.variants[folder], hasClass))]
}

// administratorsClass makes a StorageClass for a driver that brings none.
func administratorsClass(t *testing.T, driver string) string {
	t.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "administrators"}, Provisioner: driver, AllowVolumeExpansion: new(true)}
	env.Must(t, suite.cluster.Client.Create(t.Context(), class))
	t.Cleanup(func() {
		if err := suite.cluster.Client.Delete(context.Background(), class); err != nil {
			t.Error(err)
		}
	})
	return class.Name
}

// first is the name of the first object of a kind.
func (v *variant) first(kind string) string {
	for _, object := range v.objects {
		if object.GetKind() == kind {
			return object.GetName()
		}
	}
	return ""
}

// joinedNode is a node on which a kubelet has registered the driver, with its zone if the driver has any: its labels, its annotation and its CSINode say so.
func joinedNode(t *testing.T, driver string, profile driverProfile) *corev1.Node {
	t.Helper()
	ctx, topologyKey := t.Context(), profile.TopologyKey
	nodes := &corev1.NodeList{}
	env.Must(t, suite.cluster.Client.List(ctx, nodes))
	i := slices.IndexFunc(nodes.Items, func(node corev1.Node) bool { return len(node.Spec.Taints) == 0 })
	if i < 0 {
		t.Fatal("the cluster has no worker")
	}
	node := &nodes.Items[i]
	before := node.DeepCopy()
	var keys []string
	if topologyKey != "" {
		node.Labels[topologyKey], keys = node.Labels[corev1.LabelTopologyZone], []string{topologyKey}
	}
	if label := profile.InTree.Zone; label != "" {
		node.Labels[label] = node.Labels[corev1.LabelTopologyZone]
	}
	if region := profile.InTree.Region; region != "" {
		node.Labels[corev1.LabelTopologyRegion] = region
		t.Cleanup(func() {
			now := node.DeepCopy()
			now.Labels[corev1.LabelTopologyRegion] = before.Labels[corev1.LabelTopologyRegion]
			if err := suite.cluster.Client.Patch(context.Background(), now, client.MergeFrom(node)); err != nil {
				t.Error(err)
			}
		})
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, "volumes.kubernetes.io/controller-managed-attach-detach", "true")
	env.Must(t, suite.cluster.Client.Patch(ctx, node, client.MergeFrom(before)))
	registration := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	env.Must(t, created(ctx, registration))
	joined := registration.DeepCopy()
	if plugin := profile.InTree.Provisioner; plugin != "" {
		// The kubelet lists all in-tree plugins that it has no code for (Kubernetes v1.36.3, pkg/volume/csi/nodeinfomanager, setMigrationAnnotation).
		metav1.SetMetaDataAnnotation(&joined.ObjectMeta, corev1.MigratedPluginsAnnotationKey, plugin)
	}
	joined.Spec.Drivers = append(joined.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, NodeID: profile.nodeID(node.Name), TopologyKeys: keys})
	env.Must(t, suite.cluster.Client.Patch(ctx, joined, client.MergeFrom(registration)))
	return node
}

// life is what happens to the volumes of a driver.
type life struct {
	pod       *pod
	node      string
	can       []string
	class     string
	namespace string
	// inTree is the in-tree provisioner that the driver replaces, or empty.
	inTree string
}

func (l *life) live(t *testing.T) {
	ctx := t.Context()
	env.Must(t, suite.cluster.Namespace(ctx, l.namespace))
	t.Cleanup(func() { l.clear(t) })
	first := l.newPVC("first", nil)
	if l.does("MODIFY_VOLUME") {
		l.attributes(t, l.namespace+"-silver", "100")
		l.attributes(t, l.namespace+"-gold", "200")
		first.Spec.VolumeAttributesClassName = new(l.namespace + "-silver")
	}
	l.create(t, first)
	l.use(t, "first")
	l.eventually(t, "the first PVC is bound", func() error { return l.bound(ctx, "first") })
	if l.does("PUBLISH_UNPUBLISH_VOLUME") {
		l.eventually(t, "the first volume is attached", func() error { return l.attached(ctx, 1) })
	}
	if l.does("EXPAND_VOLUME") {
		for i, size := range []string{"2Gi", "3Gi"} {
			l.change(t, "first", func(pvc *corev1.PersistentVolumeClaim) {
				pvc.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
			})
			l.eventually(t, "the first PVC has "+size, func() error { return l.status(ctx, "first", size, "") })
			// The resizer writes the PVC that it has patched into its cache, over a newer one, and then the event: a change in between is seen
			// by its next list only (external-resizer v2.3.0, pkg/controller/resize_status.go, markOverallExpansionAsFinished).
			l.eventually(t, "the resizer has ended", func() error { return l.hasEvent(ctx, "VolumeResizeSuccessful", int32(i+1)) })
		}
		l.eventually(t, "the resizer says what it does", func() error { return l.hasEvent(ctx, "Resizing", 2) })
	}
	if l.does("MODIFY_VOLUME") {
		l.change(t, "first", func(pvc *corev1.PersistentVolumeClaim) {
			pvc.Spec.VolumeAttributesClassName = new(l.namespace + "-gold")
		})
		l.eventually(t, "the first volume has other attributes", func() error { return l.status(ctx, "first", "3Gi", l.namespace+"-gold") })
	}
	snapshots := l.does("CREATE_DELETE_SNAPSHOT")
	if snapshots {
		l.create(t, l.snapshot("copy", "first"))
		l.eventually(t, "the snapshot is ready", func() error { return l.ready(ctx, "copy") })
		group := snapshotv1.GroupVersion().Group
		l.create(t, l.newPVC("restored", &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "copy"}))
		l.use(t, "restored")
		l.eventually(t, "the restored PVC is bound", func() error { return l.bound(ctx, "restored") })
	}
	if l.does("CLONE_VOLUME") {
		l.create(t, l.newPVC("cloned", &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "first"}))
		l.use(t, "cloned")
		l.eventually(t, "the cloned PVC is bound", func() error { return l.bound(ctx, "cloned") })
	}
	if l.inTree != "" {
		l.liveInTree(t)
	}
	l.create(t, l.newPVC("impossible", &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "missing"}))
	l.use(t, "impossible")
	l.eventually(t, "the provisioner says what is wrong", func() error { return l.hasEvent(ctx, "ProvisioningFailed", 2) })
	l.end(t, snapshots)
}

func (l *life) does(capability string) bool { return slices.Contains(l.can, capability) }

func (l *life) eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	env.Must(t, l.pod.await(t.Context(), what, check))
}

func (l *life) create(t *testing.T, object client.Object) {
	t.Helper()
	env.Must(t, suite.cluster.Client.Create(t.Context(), object))
}

// newPVC asks for a gibibyte of the driver's class, or for a copy.
func (l *life) newPVC(name string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	size := "1Gi"
	if source != nil {
		size = "3Gi"
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &l.class, DataSource: source,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

// use makes a pod with a PVC, on the node that has the driver. It is scheduled by the real scheduler.
func (l *life) use(t *testing.T, pvc string) {
	t.Helper()
	l.create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: pvc},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: l.node},
			Containers: []corev1.Container{{
				Name: "application", Image: "registry.example/application", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc},
			}}},
		},
	})
}

// attributes makes a VolumeAttributesClass of the driver.
func (l *life) attributes(t *testing.T, name, value string) {
	t.Helper()
	class := &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: l.pod.v.driverName(), Parameters: map[string]string{"iops": value},
	}
	l.create(t, class)
	t.Cleanup(func() {
		if err := suite.cluster.Client.Delete(context.Background(), class); err != nil {
			t.Error(err)
		}
	})
}

func (l *life) snapshot(name, pvc string) *unstructured.Unstructured {
	object := l.object("VolumeSnapshot", name)
	object.Object["spec"] = map[string]any{
		"volumeSnapshotClassName": l.pod.v.first("VolumeSnapshotClass"), "source": map[string]any{"persistentVolumeClaimName": pvc},
	}
	return object
}

func (l *life) object(kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: snapshotv1.GroupVersion().Group, Version: "v1", Kind: kind})
	object.SetNamespace(l.namespace)
	object.SetName(name)
	return object
}

func (l *life) get(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	pvc := l.newPVC(name, nil)
	return pvc, suite.cluster.Client.Get(ctx, client.ObjectKeyFromObject(pvc), pvc)
}

func (l *life) change(t *testing.T, name string, change func(*corev1.PersistentVolumeClaim)) {
	t.Helper()
	pvc, err := l.get(t.Context(), name)
	env.Must(t, err)
	before := pvc.DeepCopy()
	change(pvc)
	env.Must(t, suite.cluster.Client.Patch(t.Context(), pvc, client.MergeFrom(before)))
}

func (l *life) bound(ctx context.Context, name string) error {
	pvc, err := l.get(ctx, name)
	if err == nil && pvc.Status.Phase != corev1.ClaimBound {
		err = fmt.Errorf("PVC %s is %s%s", name, pvc.Status.Phase, l.pod.words("csi-provisioner"))
	}
	return err
}

// status checks the size of a PVC, and its class of attributes if one is given.
func (l *life) status(ctx context.Context, name, size, attributes string) error {
	pvc, err := l.get(ctx, name)
	if err != nil {
		return err
	}
	if have := pvc.Status.Capacity[corev1.ResourceStorage]; have.String() != size {
		return fmt.Errorf("PVC %s has %s, want %s%s", name, have.String(), size, l.pod.words("csi-resizer"))
	}
	if have := pvc.Status.CurrentVolumeAttributesClassName; attributes != "" && (have == nil || *have != attributes) {
		return fmt.Errorf("PVC %s has not the attributes %s%s", name, attributes, l.pod.words("csi-resizer"))
	}
	return nil
}

// attached checks how many volumes of the driver are attached.
func (l *life) attached(ctx context.Context, want int) error {
	attachments := &storagev1.VolumeAttachmentList{}
	if err := suite.cluster.Client.List(ctx, attachments); err != nil {
		return err
	}
	attached := 0
	for _, attachment := range attachments.Items {
		if attachment.Spec.Attacher == l.pod.v.driverName() && (attachment.Status.Attached || want == 0) {
			attached++
		}
	}
	if attached != want {
		return fmt.Errorf("%d volumes are attached, want %d%s", attached, want, l.pod.words("csi-attacher"))
	}
	return nil
}

func (l *life) ready(ctx context.Context, name string) error {
	snapshot := l.object("VolumeSnapshot", name)
	if err := suite.cluster.Client.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot); err != nil {
		return err
	}
	if ready, _, _ := unstructured.NestedBool(snapshot.Object, "status", "readyToUse"); !ready {
		return fmt.Errorf("snapshot %s is not ready%s", name, l.pod.words("csi-snapshotter"))
	}
	return nil
}

// gone checks that nothing of the driver is left.
func (l *life) gone(ctx context.Context) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := suite.cluster.Client.List(ctx, volumes); err != nil {
		return err
	}
	for _, one := range volumes.Items {
		if volume.DriverOf(&one) == l.pod.v.driverName() {
			return fmt.Errorf("volume %s is %s%s", one.Name, one.Status.Phase, l.pod.words("csi-provisioner"))
		}
	}
	return l.attached(ctx, 0)
}

// end deletes all, the snapshot before what it was taken of.
func (l *life) end(t *testing.T, snapshots bool) {
	ctx := t.Context()
	if snapshots {
		env.Must(t, suite.cluster.Client.Delete(ctx, l.object("VolumeSnapshot", "copy")))
		l.eventually(t, "the snapshot has gone", func() error {
			contents := &unstructured.UnstructuredList{}
			contents.SetGroupVersionKind(l.object("VolumeSnapshotContentList", "").GroupVersionKind())
			if err := suite.cluster.Client.List(ctx, contents); err != nil || len(contents.Items) == 0 {
				return err
			}
			return fmt.Errorf("%d contents of snapshots are left%s", len(contents.Items), l.pod.words("csi-snapshotter"))
		})
	}
	l.clear(t)
	l.eventually(t, "all volumes have gone", func() error { return l.gone(ctx) })
}

// clear deletes the namespace and all in it.
func (l *life) clear(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	if err := suite.cluster.Client.Delete(context.Background(), namespace); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// hasEvent checks that a sidecar has reported something so many times: it creates the first event and patches it when it happens again.
func (l *life) hasEvent(ctx context.Context, reason string, times int32) error {
	events := &corev1.EventList{}
	if err := suite.cluster.Client.List(ctx, events, client.InNamespace(l.namespace)); err != nil {
		return err
	}
	for _, event := range events.Items {
		if event.Reason == reason && event.Count >= times {
			return nil
		}
	}
	return fmt.Errorf("there is no event %s with a count of %d", reason, times)
}
