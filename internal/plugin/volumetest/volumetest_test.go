package volumetest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

const driver = "disk.example.com"

// live is a cluster whose pods run as soon as they are created, and end as the test says for their zone.
type live struct {
	*canned.Cluster

	ends    map[string]corev1.ContainerStateTerminated
	created []string
	sccs    bool
	// stop, if set, is called when a pod is created. deleting, if set, is called instead of a deletion, and keep instead of the read of a
	// PersistentVolume, which exists then.
	stop           context.CancelFunc
	deleting, keep func()
}

func (l *live) RESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	if l.sccs {
		mapper.Add(sccKind(), meta.RESTScopeRoot)
	}
	return mapper
}

func (l *live) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := l.Cluster.Create(ctx, object, options...); err != nil {
		return err
	}
	l.created = append(l.created, object.GetName())
	switch made := object.(type) {
	case *corev1.PersistentVolumeClaim:
		made.Status.Phase, made.Spec.VolumeName = corev1.ClaimBound, "pv-of-"+made.Name
	case *corev1.Pod:
		zone := made.Spec.NodeSelector[corev1.LabelTopologyZone]
		if ended, does := l.ends[zone]; does {
			made.Spec.NodeName = "node-" + zone
			ended.StartedAt = metav1.NewTime(plugintest.Now().Add(3 * time.Second))
			made.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &ended}}}
		} else {
			l.Objects = append(l.Objects, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: made.Namespace, Name: "event"}, Type: corev1.EventTypeWarning, Reason: "FailedMount",
				InvolvedObject: corev1.ObjectReference{Name: made.Name}, LastTimestamp: metav1.NewTime(plugintest.Now()), Message: "no route to host",
			})
		}
		if l.stop != nil {
			l.stop()
		}
	}
	l.Objects = append(l.Objects, object)
	return nil
}

func (l *live) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if l.deleting != nil {
		l.deleting()
		<-ctx.Done()
		return ctx.Err()
	}
	l.Objects = slices.DeleteFunc(l.Objects, func(each client.Object) bool {
		_, isEvent := each.(*corev1.Event)
		return each.GetName() == object.GetName() && !isEvent && sameKind(each, object)
	})
	return l.Cluster.Delete(ctx, object, options...)
}

func (l *live) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, isVolume := object.(*corev1.PersistentVolume); isVolume && l.keep != nil {
		l.keep()
		<-ctx.Done()
		return ctx.Err()
	}
	return l.Cluster.Get(ctx, key, object, options...)
}

func sameKind(a, b client.Object) bool {
	_, first := a.(*corev1.Pod)
	_, second := b.(*corev1.Pod)
	return first == second
}

// left are the objects of tests that still exist.
func (l *live) left() []string {
	var names []string
	for _, object := range l.Objects {
		if object.GetLabels()[testLabel] != "" {
			names = append(names, object.GetName())
		}
	}
	return names
}

func node(name, zone string, registered bool) []client.Object {
	made := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if registered {
		csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver}}
	}
	return []client.Object{made, csi}
}

func class(policy corev1.PersistentVolumeReclaimPolicy, zones ...string) *storagev1.StorageClass {
	made := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driver, ReclaimPolicy: &policy}
	if len(zones) > 0 {
		made.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: "topology.disk.example.com/zone", Values: zones},
		}}}
	}
	return made
}

// cluster has two zones with the driver, and one without.
func cluster(t *testing.T, class *storagev1.StorageClass) *live {
	t.Helper()
	objects := slices.Concat(node("a", "zone-a", true), node("b", "zone-b", true), node("b2", "zone-b", true), node("c", "zone-c", false))
	return &live{Cluster: plugintest.Cluster(t, append(objects, class)...)}
}

func works() corev1.ContainerStateTerminated {
	return corev1.ContainerStateTerminated{Message: `{"write":12,"read":3}`}
}

func run(t *testing.T, l *live, line ...string) plugintest.Result {
	t.Helper()
	return plugintest.Run(t, l, "y\n", Command, append([]string{"test", "fast", "--image", "registry.example/oc-storage:v1"}, line...)...)
}

// withoutNames replaces the random part of names.
func withoutNames(t *testing.T, l *live, text string) string {
	t.Helper()
	for _, name := range l.created {
		parts := strings.Split(name, "-")
		text = strings.ReplaceAll(text, parts[3], "RUN")
	}
	return text
}

func TestAClassIsTriedInEachZoneWithTheDriver(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	l.ends = map[string]corev1.ContainerStateTerminated{"zone-a": works(), "zone-b": {Message: `{"write":12,"read":3,"cached":true}`}}
	result := run(t, l)
	golden.CompareText(t, "works.txt", withoutNames(t, l, result.Text()))
	if left := l.left(); len(left) > 0 || len(l.created) != 4 {
		t.Errorf("%v are left of %v", left, l.created)
	}
	golden.CompareText(t, "writes.txt", withoutNames(t, l, strings.Join(l.Writes, "\n")+"\n"+strings.Join(l.Bodies[:2], "\n")+"\n"))
}

func TestAProblemIsNamedAndNothingIsLeft(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	l.ends = map[string]corev1.ContainerStateTerminated{"zone-a": {ExitCode: 1, Message: "write 4194304 bytes: no space left on device"}}
	golden.CompareText(t, "problem.txt", withoutNames(t, l, run(t, l, "--timeout", "20ms").Text()))
	if left := l.left(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// interrupt runs a test that gets the first Ctrl-C when it creates its first pod.
func interrupt(t *testing.T, l *live, stopped <-chan struct{}) (problems string, failure error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	p, said := plugintest.Plugin(t, l, ""), &bytes.Buffer{}
	p.Streams.ErrOut, p.Stopped = said, stopped
	root := p.Root("oc storage", "test", Command(p))
	root.SetArgs([]string{"test", "fast", "--image", "i", "--yes"})
	err := root.ExecuteContext(ctx)
	if plugin.Code(err) != plugin.Unfinished || len(l.created) != 2 || strings.Contains(err.Error(), "do not work") {
		t.Errorf("exit code %d, error %v after %v, want one PVC and one pod", plugin.Code(err), err, l.created)
	}
	return said.String(), err
}

func TestAnInterruptedTestLeavesNothing(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	said, _ := interrupt(t, l, nil)
	if left := l.left(); len(left) > 0 || !strings.Contains(said, "A second Ctrl-C ends the command at once") {
		t.Errorf("%v are left, it says %q", left, said)
	}
}

func TestASecondCtrlCEndsTheDeletionAndNamesWhatIsLeft(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	stopped := make(chan struct{})
	l.deleting = func() { close(stopped) }
	_, err := interrupt(t, l, stopped)
	name := l.created[0]
	run := strings.Split(name, "-")[3]
	for _, want := range []string{
		"interrupted while waiting until the pods and PVCs of this test are gone", "pod " + name + ", PVC " + name + " may be left in namespace my-project",
		"oc delete pod,pvc -l oc-storage/test=" + run + " -n my-project",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

func TestVolumesThatTheDriverKeepsAreNamed(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	stopped := make(chan struct{})
	l.keep = func() { close(stopped) }
	_, err := interrupt(t, l, stopped)
	if want := "PersistentVolume pv-of-" + l.created[0] + " may be left"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nlacks %q", err, want)
	}
	if left := l.left(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestARefusedPodIsNoFaultOfTheClass(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	l.Refuse(errors.New("exceeded quota"), "create Pod")
	result := run(t, l)
	if result.Code != plugin.Failed || !strings.Contains(result.Text(), "exceeded quota") || strings.Contains(result.Text(), "do not work") {
		t.Errorf("exit code %d: %s", result.Code, result.Text())
	}
	if left := l.left(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Kubernetes binds a PVC to a PersistentVolume of its class that has none, before it asks the driver for a new one.
func TestTheTestTakesNoVolumeOfOthers(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-a-user"}}
	volume.Spec.StorageClassName = "fast"
	l.Objects = append(l.Objects, volume)
	if result := run(t, l); result.Code != plugin.Wrong || !strings.Contains(result.Text(), "PersistentVolume of-a-user") || len(l.created) > 0 {
		t.Errorf("exit code %d, created %v: %s", result.Code, l.created, result.Text())
	}
	l = cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	l.ends = map[string]corev1.ContainerStateTerminated{"zone-a": works(), "zone-b": works()}
	l.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "", nil), "list PersistentVolume")
	if result := run(t, l); result.Code != 0 || !strings.Contains(result.Text(), "lack permission to list PersistentVolumes") {
		t.Errorf("exit code %d: %s", result.Code, result.Text())
	}
}

func TestTheNextRunDeletesWhatAKilledOneLeft(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete))
	l.ends = map[string]corev1.ContainerStateTerminated{"zone-a": works(), "zone-b": works()}
	old := metav1.ObjectMeta{Namespace: "my-project", Name: "oc-storage-test-old-0", Labels: map[string]string{testLabel: "old"}}
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "web-0", Labels: old.Labels}}
	l.Objects = append(l.Objects, &corev1.Pod{ObjectMeta: old}, &corev1.PersistentVolumeClaim{ObjectMeta: old}, stranger)
	if result := run(t, l); result.Code != 0 || !strings.Contains(result.Text(), "First delete 2 pods and PVCs of other tests") {
		t.Errorf("exit code %d: %s", result.Code, result.Text())
	}
	if left := l.left(); !slices.Equal(left, []string{"web-0"}) {
		t.Errorf("left %v, want only the pod of an application with the same label", left)
	}
}

func TestWhatCanNotBeTriedIsRefused(t *testing.T) {
	for name, example := range map[string]struct {
		class *storagev1.StorageClass
		line  []string
		want  string
		code  int
	}{
		"volumes would stay": {class(corev1.PersistentVolumeReclaimRetain), []string{"test", "fast", "--image", "i"}, "reclaimPolicy Retain", plugin.Wrong},
		"no node": {
			class(corev1.PersistentVolumeReclaimDelete, "zone-c"), []string{"test", "fast", "--image", "i"}, "registered on no ready node", plugin.Wrong,
		},
		"no class": {class(corev1.PersistentVolumeReclaimDelete), []string{"test"}, "which StorageClass or driver?", plugin.WrongUsage},
		"size":     {class(corev1.PersistentVolumeReclaimDelete), []string{"test", "fast", "--size", "-1"}, "--size", plugin.WrongUsage},
		"time":     {class(corev1.PersistentVolumeReclaimDelete), []string{"test", "fast", "--timeout", "0s"}, "--timeout", plugin.WrongUsage},
		"image":    {class(corev1.PersistentVolumeReclaimDelete), []string{"test", "fast"}, "set --image", plugin.WrongUsage},
	} {
		l := cluster(t, example.class)
		result := plugintest.Run(t, l, "y\n", Command, example.line...)
		if result.Code != example.code || !strings.Contains(result.Text(), example.want) || len(l.Writes) > 0 {
			t.Errorf("%s: exit code %d, writes %v, %s", name, result.Code, l.Writes, result.Text())
		}
	}
}

func TestTheClassChoosesTheZones(t *testing.T) {
	l := cluster(t, class(corev1.PersistentVolumeReclaimDelete, "zone-b", "zone-z"))
	l.ends, l.sccs = map[string]corev1.ContainerStateTerminated{"zone-b": works()}, true
	if result := run(t, l); result.Code != 0 || len(l.created) != 2 || strings.Contains(strings.Join(l.Bodies, ""), "fsGroup") {
		t.Errorf("exit code %d, created %v: %v", result.Code, l.created, l.Bodies)
	}
}

func TestADriverStandsForItsOneClass(t *testing.T) {
	for name, example := range map[string]struct {
		classes []string
		name    string
		want    string
		code    int
	}{
		"short name":             {[]string{"fast efs.csi.aws.com"}, "efs", "fast", 0},
		"full name":              {[]string{"fast efs.csi.aws.com", "slow ebs.csi.aws.com"}, "efs.csi.aws.com", "fast", 0},
		"name with csi before":   {[]string{"fast csi.vsphere.vmware.com"}, "vsphere", "fast", 0},
		"a class of that name":   {[]string{"efs disk.example.com", "fast efs.csi.aws.com"}, "efs", "efs", 0},
		"two classes":            {[]string{"b efs.csi.aws.com", "a efs.csi.aws.com"}, "efs", "driver efs has 2 StorageClasses, name one of them: a, b", plugin.WrongUsage},
		"no class":               {[]string{"fast ebs.csi.aws.com"}, "efs", "no StorageClass is named efs", plugin.WrongUsage},
		"csi is no driver":       {[]string{"fast csi.vsphere.vmware.com"}, "csi", "no StorageClass is named csi", plugin.WrongUsage},
		"another part of a name": {[]string{"fast efs.csi.aws.com"}, "aws", "no StorageClass is named aws", plugin.WrongUsage},
	} {
		l := &live{Cluster: plugintest.Cluster(t)}
		for _, each := range example.classes {
			class, provisioner, _ := strings.Cut(each, " ")
			l.Objects = append(l.Objects, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: provisioner})
		}
		found, err := observe(t.Context(), plugin.NewCluster(l, nil, "my-project"), example.name)
		got := found.class.Name
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, example.want) || plugin.Code(err) != example.code {
			t.Errorf("%s: got %q, exit code %d", name, got, plugin.Code(err))
		}
	}
}

func TestAPodWritesReadsAndDeletes(t *testing.T) {
	folder := t.TempDir()
	said, err := tryFolder(folder, readDirect)
	if err != nil || said.Write < 0 || said.Read < 0 {
		t.Errorf("%v %v", said, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left %v (%v)", left, err)
	}
	said, err = tryFolder(folder, func(string, int) ([]byte, error) { return nil, errors.ErrUnsupported })
	if err != nil || !said.Cached {
		t.Errorf("a file system that can't bypass the memory of the node: %v %v", said, err)
	}
	other := func(string, int) ([]byte, error) { return make([]byte, probeBytes), nil }
	if _, err := tryFolder(folder, other); err == nil || !strings.Contains(err.Error(), "other data") {
		t.Errorf("a volume with other data: %v", err)
	}
	if _, err := tryFolder(filepath.Join(folder, "missing"), readDirect); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}
