package doctor

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// hostile is what a tenant may write: it clears the terminal, turns the direction of text, and looks like a finding with a command.
const hostile = "\x1b[2J\u202e\nERROR    forged\n  do       $(evil)"

// FuzzASubjectIsNeverWronglyHealthy asks about random objects. An object that is not in its wanted state never gives exit code 0, and what tenants
// wrote is never printed as it is, nor is it part of a command.
func FuzzASubjectIsNeverWronglyHealthy(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(askOfRandomObjects)
}

func askOfRandomObjects(t *testing.T, seed uint64) {
	m := maker{rand.New(rand.NewPCG(seed, 43)), open(t)}
	const cluster = ""
	kind := pick(m, kindPod, kindClaim, kindVolume, kindShared, kindNode, kindClass, cluster)
	wanted := m.subject(kind)
	args := []string{kind, m.name(kind)}
	if kind == cluster {
		args = nil
	}
	for range m.IntN(4) {
		m.event()
	}
	if m.maybe() {
		change(m.scene, "efs", m.class)
	}
	table, code := m.ask(plugin.Table, args...)
	if code == 0 && !wanted {
		t.Errorf("%s is not in its wanted state, and the exit code is 0:\n%s", kind, table)
	}
	text, _ := m.ask(plugin.JSON, args...)
	var report Report
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, one := range report.Findings {
		if strings.Contains(one.Command, "evil") {
			t.Errorf("a tenant's word is part of the command %q", one.Command)
		}
	}
	for _, shown := range []string{table, text} {
		forged := slices.ContainsFunc(strings.Split(shown, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "ERROR    forged") || strings.HasPrefix(line, "  do       $(")
		})
		if forged || strings.ContainsAny(shown, "\x1b\u202e") {
			t.Errorf("a tenant's word is printed as it is:\n%q", shown)
		}
	}
}

// maker makes random objects in a scene.
type maker struct {
	*rand.Rand
	*scene
}

func pick[T any](m maker, from ...T) T { return from[m.IntN(len(from))] }
func (m maker) maybe() bool            { return m.IntN(2) == 0 }
func (m maker) words() string {
	return pick(m, "", "words", "rpc error: code = Internal desc = no", hostile)
}

func (m maker) name(kind string) string {
	return map[string]string{kindPod: "web", kindClaim: "data", kindVolume: "pv-data", kindShared: "sv1", kindNode: "a", kindClass: "efs"}[kind]
}

// subject makes objects, and reports whether the subject is in its wanted state.
func (m maker) subject(kind string) bool {
	claim, volume, pod := m.claim(), m.volume(), m.pod()
	shared, node := false, false
	if kind == kindShared {
		shared = m.shared()
	}
	change(m.scene, "a", func(one *corev1.Node) {
		one.Status.Conditions[0].Status = pick(m, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown)
		one.Status.Conditions[0].Message = m.words()
		node = !m.deleted(one) && one.Status.Conditions[0].Status == corev1.ConditionTrue
	})
	if m.IntN(8) == 0 {
		drop[*corev1.PersistentVolume](m.scene)
		volume = false
	}
	if m.IntN(8) == 0 {
		drop[*corev1.PersistentVolumeClaim](m.scene)
		claim = false
	}
	return map[string]bool{
		kindPod: pod, kindClaim: claim && !m.isStuck(), kindVolume: volume, kindShared: shared, kindNode: node, kindClass: true, "": !m.isStuckWithEFS(),
	}[kind]
}

// isStuckWithEFS reports whether pod web waits on a node, and its claim has a volume of a driver that the cluster knows.
func (m maker) isStuckWithEFS() bool {
	named, ours := false, false
	for _, object := range m.Objects {
		switch one := object.(type) {
		case *corev1.PersistentVolumeClaim:
			named = named || one.Name == "data" && one.Spec.VolumeName == "pv-data"
		case *corev1.PersistentVolume:
			ours = ours || one.Name == "pv-data" && one.Spec.CSI.Driver == efsName
		}
	}
	return m.isStuck() && named && ours
}

// isStuck reports whether pod web waits for volumes on a node.
func (m maker) isStuck() bool {
	stuck := false
	change(m.scene, "web", func(one *corev1.Pod) {
		stuck = one.Spec.NodeName != "" && one.Status.Phase == corev1.PodPending && one.DeletionTimestamp == nil && !isReady(one)
	})
	return stuck
}

// deleted sets a time of deletion, or not.
func (m maker) deleted(object client.Object) bool {
	if m.IntN(4) > 0 {
		return false
	}
	now := metav1.Unix(1500, 0)
	object.SetDeletionTimestamp(&now)
	object.SetFinalizers([]string{pick(m, "kubernetes.io/pvc-protection", "a.example/b", hostile)})
	return true
}

func (m maker) claim() (wanted bool) {
	change(m.scene, "data", func(one *corev1.PersistentVolumeClaim) {
		gone := m.deleted(one)
		one.Status.Phase = pick(m, corev1.ClaimBound, corev1.ClaimPending, corev1.ClaimLost, "")
		one.Spec.VolumeName = pick(m, "pv-data", "", hostile)
		one.Spec.StorageClassName = pick(m, nil, new(string), new("efs"), new("other"), new("nowhere"), new(hostile))
		one.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{pick(m, corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany, hostile)}
		one.Spec.VolumeMode = pick(m, nil, new(corev1.PersistentVolumeBlock))
		one.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(pick(m, "1Gi", "2Gi"))}
		one.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		one.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "Resizing", Status: "True", Message: m.words()}}
		one.Annotations = map[string]string{"volume.kubernetes.io/selected-node": m.words()}
		wanted = !gone && one.Status.Phase == corev1.ClaimBound && one.Spec.Resources.Requests.Storage().String() == "1Gi"
	})
	return wanted
}

func (m maker) volume() (wanted bool) {
	change(m.scene, "pv-data", func(one *corev1.PersistentVolume) {
		gone := m.deleted(one)
		one.Status.Phase = pick(m, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed, corev1.VolumeAvailable, corev1.VolumePending, "")
		one.Status.Message, one.Status.Reason = m.words(), m.words()
		one.Spec.PersistentVolumeReclaimPolicy = pick(m, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
		one.Spec.CSI.VolumeHandle = pick(m, system+"::"+point, hostile)
		one.Spec.CSI.VolumeAttributes = map[string]string{pick(m, "path", "mounttargetip", hostile): m.words()}
		one.Spec.CSI.Driver = pick(m, efsName, efsName, "disk.example.com", hostile)
		if m.IntN(4) == 0 {
			one.Spec.ClaimRef = nil
		}
		wanted = !gone && (one.Status.Phase == corev1.VolumeBound || one.Status.Phase == corev1.VolumeAvailable)
	})
	return wanted
}

func (m maker) pod() (wanted bool) {
	change(m.scene, "web", func(one *corev1.Pod) {
		gone := m.deleted(one)
		one.Spec.NodeName = pick(m, "", "a", hostile)
		one.Status = corev1.PodStatus{Phase: pick(m, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)}
		ready := pick(m, corev1.ConditionTrue, corev1.ConditionFalse)
		one.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, Reason: m.words(), Message: m.words()}}
		if m.IntN(4) == 0 {
			one.Spec.Volumes = append(one.Spec.Volumes, corev1.Volume{Name: hostile, VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: pick(m, efsName, hostile)},
			}})
		}
		wanted = !gone && (one.Status.Phase == corev1.PodSucceeded || ready == corev1.ConditionTrue)
	})
	return wanted
}

func (m maker) shared() bool {
	status := pick(m, "True", "False", "Unknown")
	kind, reason := pick(m, v1alpha1.ConditionReady, v1alpha1.ConditionMountable), pick(m, "Bound", "Creating", hostile)
	m.share(pick(m, v1alpha1.Ready, v1alpha1.Failed), is(kind, status, reason, m.words()))
	wanted := false
	change(m.scene, "sv1", func(one *v1alpha1.SharedVolume) {
		gone := m.deleted(one)
		one.Status.Message = m.words()
		one.Status.ClaimRef.Name, one.Status.VolumeName = pick(m, "data", "", hostile), pick(m, "pv-data", "")
		wanted = !gone && one.Status.Conditions[0].Type == v1alpha1.ConditionReady && status == "True"
	})
	return wanted
}

func (m maker) event() {
	made := eventOn(pick(m, "Pod", "PersistentVolumeClaim", "PersistentVolume", "Node"), pick(m, "web", "data", "pv-data", "a"),
		pick(m, "FailedMount", "FailedAttachVolume", "ProvisioningFailed", "FailedScheduling", "VolumeFailedDelete", "Strange", hostile), m.words())
	made.Name = pick(m, "one", "two", "three")
	made.Namespace = pick(m, project, metav1.NamespaceDefault)
	m.add(made)
}

func (m maker) class(one *storagev1.StorageClass) {
	one.VolumeBindingMode = pick(m, nil, new(storagev1.VolumeBindingWaitForFirstConsumer))
	one.Parameters = map[string]string{"provisioningMode": "efs-ap", "fileSystemId": system, "directoryPerms": "700", pick(m, "unheard", hostile): m.words()}
}
