package informer

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Tainted is a node with a taint.
type Tainted struct {
	Node string
	UID  types.UID
	// Patch is the JSON patch that removes all taints with the key. The API server refuses the patch if the taints of the node have changed, or if
	// another Node has this name now.
	Patch string
}

// TaintedNodes returns Objects with the nodes that have a taint with this key.
func TaintedNodes(api client.WithWatch, key string, request reconcile.Request) *Objects[Tainted] {
	list := func() client.ObjectList { return &corev1.NodeList{} }
	return New(api, &corev1.Node{}, list, request, func(object client.Object) (Tainted, bool) {
		node, ok := object.(*corev1.Node)
		if !ok {
			return Tainted{}, false
		}
		patch := untaint(node, key)
		return Tainted{Node: node.Name, UID: node.UID, Patch: patch}, patch != ""
	})
}

// untaint returns Tainted.Patch. It is empty if no taint has the key. Each removal follows a test of the same index, so the patch removes no other
// taint. The highest index comes first, because a removal moves the later taints.
func untaint(node *corev1.Node, key string) string {
	var patch []string
	for i, taint := range slices.Backward(node.Spec.Taints) {
		if taint.Key == key {
			patch = append(patch, fmt.Sprintf(`{"op":"test","path":"/spec/taints/%d/key","value":%q},{"op":"remove","path":"/spec/taints/%d"}`, i, key, i))
		}
	}
	if len(patch) == 0 {
		return ""
	}
	return fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},%s]`, node.UID, strings.Join(patch, ","))
}
