package drivers

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// "2/2" on three nodes hides a node on which pods wait for ever.
func TestNodesWithoutANodePodAreNamed(t *testing.T) {
	made := func(name, system string, taints ...corev1.Taint) *corev1.Node {
		one := &corev1.Node{ObjectMeta: named("", name), Spec: corev1.NodeSpec{Taints: taints}}
		one.Labels = map[string]string{corev1.LabelOSStable: system, "disk": "slow"}
		return one
	}
	selects := daemonSet(5)
	selects.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	objects := []client.Object{
		cr(efs, well()...), csiDriver(efs), deployment(home, "aws-efs-csi-driver-operator", 1), selects, csiDriver("disk.example.com"),
		made("a", "linux"), made("b", "linux", corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}), made("w", "windows"),
	}
	for _, want := range []string{"4/5 of 6", "nothing; nodes without a node pod: b (taint gpu:NoSchedule)"} {
		c, _, out, _ := set(t, objects...)
		if err := c.run(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: want %q:\n%s", err, want, out)
		}
	}
	selects.Spec.Template.Spec.NodeSelector["disk"] = "fast"
	c, cluster, out, _ := set(t, objects...)
	if err := c.run(t.Context()); err != nil || !strings.Contains(out.String(), "a (node selector disk=fast), b (node selector disk=fast)") {
		t.Errorf("%v:\n%s", err, out)
	}
	cluster.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no")), "list Node")
	out.Reset()
	if err := c.run(t.Context()); err != nil || !strings.Contains(out.String(), "4/5 ") || !strings.Contains(out.String(), "You lack permission to read nodes") {
		t.Errorf("%v:\n%s", err, out)
	}
}
