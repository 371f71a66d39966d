package sharedvolume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func podOn(node, name string) client.Object {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc-sv1"},
	}}}
	return pod
}

func TestPodsAreReadFromTheClusterWithTheZonesOfTheirNodes(t *testing.T) {
	sv := owner("ns", "sv1")
	w := newWorking(t, podOn("b", "web"), podOn("a", "app"), podOn("", "waits"), podOn("gone", "lost"),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1b"}}})
	holders, err := w.holdersOf(t.Context(), sv)
	if diff := cmp.Diff([]string{"app", "lost", "web"}, holders); diff != "" || err != nil {
		t.Errorf("holders (-want +got):\n%s %v", diff, err)
	}
	outside, err := w.usersOutside(t.Context(), sv, "us-east-1a")
	if diff := cmp.Diff([]string{"lost on node gone in an unknown zone", "web on node b in us-east-1b"}, outside); diff != "" || err != nil {
		t.Errorf("outside (-want +got):\n%s %v", diff, err)
	}
	if len(w.cached.Reads) > 0 {
		t.Errorf("the cache was asked: %q", w.cached.Reads)
	}
	w.live.Refuse(textError("no answer"))
	if _, err := w.holdersOf(t.Context(), sv); err == nil || err.Error() != "list pods of namespace ns: no answer" {
		t.Errorf("error %v", err)
	}
}

// A PVC that has lost its label is in the cluster only.
func TestAPVCThatTheCacheLacksIsFoundInTheCluster(t *testing.T) {
	sv := owner("ns", "sv1")
	w := newWorking(t)
	w.live.Objects = append(w.live.Objects, boundPair(sv, nil)...)
	found, err := w.observe(t.Context(), w.Client, sv)
	if err != nil || found.live || found.plain != nil || found.pvc != nil || !found.noDriver || found.limits.List != "*" {
		t.Fatalf("the cache has %+v (%v)", found, err)
	}
	if err := w.readLive(t.Context(), sv, &found); err != nil || !found.live || found.pvc == nil || found.plain == nil {
		t.Errorf("the cluster has %+v (%v)", found, err)
	}
}
