package nodes

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// repeatInterval is the least time between two equal patches of a node. The first one is usually enough: the watch only takes a moment to show its
// result.
const repeatInterval = time.Minute

// Taints removes Driver.StartupTaint from nodes whose kubelet has registered the driver. The driver's own account can't do this: with the right to
// patch a Node, root on one node could change all nodes. Taints is not safe for concurrent use.
type Taints struct {
	Client client.Client
	Now    func() time.Time
	// Key is Driver.StartupTaint.
	Key string
	// Tainted has the nodes with the taint. It is nil if the driver has no such taint.
	Tainted *informer.Objects[informer.Tainted]
	// Registered has the nodes whose kubelet has registered the driver.
	Registered *informer.Objects[string]

	// sent has the last patch of each node that may still have the taint.
	sent map[string]sentPatch
}

type sentPatch struct {
	patch string
	at    time.Time
}

// Remove removes the taint from all nodes that have both the taint and the driver. It sends one request for each node, and none if no node has the
// taint. again is when to call Remove again if no event comes earlier.
func (t *Taints) Remove(ctx context.Context) (again time.Duration, err error) {
	if t == nil || t.Tainted == nil {
		return 0, nil
	}
	due, again := t.due()
	var removed []string
	for _, node := range due {
		err := t.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Node}}, client.RawPatch(types.JSONPatchType, []byte(node.Patch)))
		switch {
		case err == nil:
			removed = append(removed, node.Node)
		case apierrors.IsNotFound(err):
		case apierrors.IsInvalid(err):
			// The taints of the node have changed, and an event about this is on its way.
			again = status.MinRequeue(again, repeatInterval)
		default:
			// The next nodes would probably fail for the same reason, and the retry comes soon.
			return again, fmt.Errorf("remove taint %s from node %s, where the driver is registered: %w", t.Key, node.Node, err)
		}
		t.sent[node.Node] = sentPatch{node.Patch, t.Now()}
	}
	if len(removed) > 0 {
		slices.Sort(removed)
		ctrl.LoggerFrom(ctx).Info("removed the taint of nodes where the driver is registered", "taint", t.Key, "nodes", status.Shorten(removed))
	}
	return again, nil
}

// due returns the nodes to patch now. It forgets the patches of nodes that no longer have the taint.
func (t *Taints) due() (due []informer.Tainted, again time.Duration) {
	now, sent := t.Now(), map[string]sentPatch{}
	t.Tainted.Each(func(node informer.Tainted) {
		if !t.Registered.Has(node.Node) {
			return
		}
		if before, found := t.sent[node.Node]; found && before.patch == node.Patch {
			if wait := repeatInterval - now.Sub(before.at); wait > 0 {
				sent[node.Node], again = before, status.MinRequeue(again, wait)
				return
			}
		}
		due = append(due, node)
	})
	t.sent = sent
	return due, again
}
