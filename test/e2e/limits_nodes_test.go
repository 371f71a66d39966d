package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/test/env"
)

// RBAC lets the operator patch all of each Node. The policy leaves it only the removal of the driver's taint. Each request is a dry run.
func TestAStolenTokenOfTheOperatorRemovesOnlyTheTaintFromNodes(t *testing.T) {
	cluster := clean(t)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "tainted", Labels: map[string]string{"a": "b"}},
		Spec: corev1.NodeSpec{ProviderID: "made-up", Taints: []corev1.Taint{
			{Key: "example.com/dedicated", Effect: corev1.TaintEffectNoSchedule},
			{Key: awsefs.Driver().StartupTaint, Effect: corev1.TaintEffectNoExecute},
			{Key: awsefs.Driver().StartupTaint, Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	env.Scene{Cluster: cluster, T: t}.Keep(node)
	env.Eventually(t, "Kubernetes' own taint gone", func() error {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node)
		if slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady }) {
			err = errors.New("the node is not ready")
		}
		return err
	})
	operator := as(t, cluster, env.OperatorUser, "system:masters")
	patch := func(who client.Client, kind types.PatchType, text string) error {
		return who.Patch(t.Context(), node.DeepCopy(), client.RawPatch(kind, []byte(text)), client.DryRunAll)
	}
	remove := func(indexes ...int) string {
		text := ""
		for _, i := range indexes {
			text += fmt.Sprintf(`,{"op":"remove","path":"/spec/taints/%d"}`, i)
		}
		return "[" + text[1:] + "]"
	}
	both := remove(2, 1)
	with := func(operation string) string { return both[:len(both)-1] + "," + operation + "]" }
	env.Eventually(t, "the limits in force", func() error { return limited(patch(operator, types.JSONPatchType, remove(0))) })
	for what, text := range map[string]string{
		"remove another taint":          remove(0),
		"remove all taints":             remove(2, 1, 0),
		"add a taint":                   `[{"op":"add","path":"/spec/taints/0","value":{"key":"a","effect":"NoExecute"}}]`,
		"replace a taint":               `[{"op":"replace","path":"/spec/taints/1","value":{"key":"a","effect":"NoExecute"}}]`,
		"change the effect":             `[{"op":"replace","path":"/spec/taints/1/effect","value":"PreferNoSchedule"}]`,
		"change a label":                `[{"op":"replace","path":"/metadata/labels/a","value":"c"}]`,
		"cordon the node as well":       with(`{"op":"add","path":"/spec/unschedulable","value":true}`),
		"change a label as well":        with(`{"op":"replace","path":"/metadata/labels/a","value":"c"}`),
		"remove all labels as well":     with(`{"op":"remove","path":"/metadata/labels"}`),
		"add an annotation as well":     with(`{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}`),
		"add a finalizer as well":       with(`{"op":"add","path":"/metadata/finalizers","value":["example.com/a"]}`),
		"give the node an owner":        with(`{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"Node","name":"a","uid":"b"}]}`),
		"change what the kubelet wants": with(`{"op":"add","path":"/spec/podCIDRs","value":["10.0.0.0/24"]}`),
	} {
		if err := limited(patch(operator, types.JSONPatchType, text)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, request := range map[string]func() error{
		"create a node": func() error {
			return operator.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, client.DryRunAll)
		},
		"delete a node": func() error { return operator.Delete(t.Context(), node.DeepCopy(), client.DryRunAll) },
		"change the status of a node": func() error {
			return operator.Status().Patch(t.Context(), node.DeepCopy(), env.Merge(`{"status":{"capacity":{"cpu":"1k"}}}`), client.DryRunAll)
		},
	} {
		if err := limited(request()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := patch(operator, types.JSONPatchType, both); err != nil {
		t.Errorf("remove the taint of the driver: %v", err)
	}
	if err := patch(cluster.Client, types.JSONPatchType, remove(0)); err != nil {
		t.Errorf("somebody else removes another taint: %v", err)
	}
}
