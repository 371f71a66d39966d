package informer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestThePatchRemovesOnlyTaintsWithTheKey(t *testing.T) {
	const key = "disk.csi.example.com/agent-not-ready"
	ours := func(effect corev1.TaintEffect) corev1.Taint { return corev1.Taint{Key: key, Effect: effect} }
	other := corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct {
		taints []corev1.Taint
		want   string
	}{
		"no taint":    {nil, ""},
		"other taint": {[]corev1.Taint{other}, ""},
		"one taint": {
			[]corev1.Taint{other, ours(corev1.TaintEffectNoExecute)},
			`[{"op":"test","path":"/metadata/uid","value":"a-uid"},{"op":"test","path":"/spec/taints/1/key","value":"` + key + `"},{"op":"remove","path":"/spec/taints/1"}]`,
		},
		"two effects": {
			[]corev1.Taint{ours(corev1.TaintEffectNoExecute), other, ours(corev1.TaintEffectNoSchedule)},
			`[{"op":"test","path":"/metadata/uid","value":"a-uid"},{"op":"test","path":"/spec/taints/2/key","value":"` + key + `"},{"op":"remove","path":"/spec/taints/2"},` +
				`{"op":"test","path":"/spec/taints/0/key","value":"` + key + `"},{"op":"remove","path":"/spec/taints/0"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, untaint(&corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "a-uid"}, Spec: corev1.NodeSpec{Taints: test.taints}}, key)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
