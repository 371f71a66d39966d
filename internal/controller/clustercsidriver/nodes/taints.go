package nodes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

// repeatInterval is the least time between two equal patches of a node. The first patch is usually enough, but the watch shows its result only after
// a moment.
const repeatInterval = time.Minute

// mostRefused is the number of failed patches after which a call of Remove stops.
const mostRefused = 10

// Taints removes Driver.StartupTaint from nodes whose kubelet has registered the driver. The driver's own account must not have the right to patch
// Nodes, because root on one node could then change all nodes. Taints is not safe for concurrent use.
type Taints struct {
	Client client.Client
	Now    func() time.Time
	// Key is Driver.StartupTaint.
	Key string
	// Tainted has the nodes with the taint. It is nil if the driver has no such taint.
	Tainted *informer.Objects[informer.Tainted]
	// Registered has the nodes whose kubelet has registered the driver.
	Registered *informer.Objects[informer.Registered]

	// sent has the last patch of each node that may still have the taint.
	sent map[string]sentPatch
	// refused has the nodes whose last patch failed, and calls counts the calls of Remove.
	refused map[string]refusal
	calls   int
}

type sentPatch struct {
	patch string
	at    time.Time
}

type refusal struct {
	// call is the call of Remove with the failed patch.
	call int
	err  error
}

// Remove removes the taint from all nodes that have the taint, and whose kubelet has registered the driver. It sends one request for each of these
// nodes. Result "again" is the time until the next call of Remove if no event comes earlier.
func (t *Taints) Remove(ctx context.Context) (again time.Duration, err error) {
	if t == nil || t.Tainted == nil {
		return 0, nil
	}
	due, again := t.due()
	t.calls++
	var removed []string
	refusals := 0
	for _, node := range due {
		if refusals == mostRefused {
			break
		}
		err := t.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Node}}, client.RawPatch(types.JSONPatchType, []byte(node.Patch)))
		switch {
		case err == nil:
			removed = append(removed, node.Node)
		case apierrors.IsNotFound(err):
		case apierrors.IsInvalid(err):
			// The taints of the node have changed, and an event about this is on its way.
			again = status.MinRequeue(again, repeatInterval)
		default:
			// Only this node may have a problem, so Remove continues with the next node.
			t.refused[node.Node] = refusal{t.calls, err}
			refusals++
			continue
		}
		delete(t.refused, node.Node)
		t.sent[node.Node] = sentPatch{node.Patch, t.Now()}
	}
	if len(removed) > 0 {
		slices.Sort(removed)
		ctrl.LoggerFrom(ctx).Info("removed the taint of nodes where the driver is registered", "taint", t.Key, "nodes", status.Shorten(removed))
	}
	if len(t.refused) > 0 {
		names := slices.Sorted(maps.Keys(t.refused))
		return again, fmt.Errorf("remove taint %s from %s, where the driver is registered: %w", t.Key, status.Shorten(names), t.refused[names[0]].err)
	}
	return again, nil
}

// isRegistered reports whether the kubelet of this Node has registered the driver. If a deleted node joins again under its name, the CSINode of the
// earlier Node stays until the garbage collector of Kubernetes deletes it. So isRegistered compares the UIDs of the Nodes.
func (t *Taints) isRegistered(node informer.Tainted) bool {
	registered, found := t.Registered.Get(node.Node)
	return found && (registered.UID == "" || registered.UID == node.UID)
}

// due returns the nodes to patch now. Nodes whose last patch failed come last. due forgets the patches of nodes that no longer have the taint.
func (t *Taints) due() (due []informer.Tainted, again time.Duration) {
	now, sent, refused := t.Now(), map[string]sentPatch{}, map[string]refusal{}
	t.Tainted.Each(func(node informer.Tainted) {
		if !t.isRegistered(node) {
			return
		}
		if before, found := t.sent[node.Node]; found && before.patch == node.Patch {
			if wait := repeatInterval - now.Sub(before.at); wait > 0 {
				sent[node.Node], again = before, status.MinRequeue(again, wait)
				return
			}
		}
		due = append(due, node)
		if failed, found := t.refused[node.Node]; found {
			refused[node.Node] = failed
		}
	})
	t.sent, t.refused = sent, refused
	slices.SortFunc(due, func(a, b informer.Tainted) int {
		return cmp.Or(cmp.Compare(refused[a.Node].call, refused[b.Node].call), cmp.Compare(a.Node, b.Node))
	})
	return due, again
}
