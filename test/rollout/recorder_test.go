package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
)

// recorder sees every change of every pod, in the order in which the API server made them.
type recorder struct {
	mutex sync.Mutex
	pods  map[types.UID]*corev1.Pod
	// removals are the node pods that were deleted, in that order, and most is how many nodes were without one at the worst moment; the same
	// for nodes in use.
	removals        []removal
	most, mostInUse int
	served, pulled  map[string]bool
	// bound is how many nodes may be without one.
	bound   int
	stopped chan struct{}
	stream  watch.Interface
}

// removal is the deletion of a node pod. It was ready, or not, and on a node in use, or not.
type removal struct {
	node         string
	ready, inUse bool
	// pulled says that a pod had pulled images there.
	pulled bool
	// missing is how many nodes were without a plugin then, this one included.
	missing int
}

// record follows the pods from now on.
func (s *scene) record(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{pods: map[types.UID]*corev1.Pod{}, served: map[string]bool{}, pulled: map[string]bool{}, bound: s.bound, stopped: make(chan struct{})}
	pods := &corev1.PodList{}
	env.Must(t, s.Client.List(t.Context(), pods))
	for i := range pods.Items {
		r.see(watch.Added, &pods.Items[i])
	}
	stream, err := s.Client.Watch(context.Background(), &corev1.PodList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion}})
	env.Must(t, err)
	r.stream = stream
	go func() {
		defer close(r.stopped)
		for event := range stream.ResultChan() {
			if pod, isPod := event.Object.(*corev1.Pod); isPod {
				r.see(event.Type, pod)
			}
		}
	}()
	t.Cleanup(r.stop)
	return r
}

func (r *recorder) stop() {
	r.stream.Stop()
	<-r.stopped
}

func isPlugin(pod *corev1.Pod) bool {
	return pod.Namespace == env.OperatorNamespace && pod.Labels["app"] == daemonSet && pod.Spec.NodeName != ""
}

func (r *recorder) see(change watch.EventType, pod *corev1.Pod) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before := r.pods[pod.UID]
	if change == watch.Deleted {
		delete(r.pods, pod.UID)
	} else {
		r.pods[pod.UID] = pod
	}
	if pod.Labels["app"] == driver.ImagesOf(daemonSet) && env.IsReady(pod) {
		r.pulled[pod.Spec.NodeName] = true
	}
	if !isPlugin(pod) {
		return
	}
	missing, inUse := r.count()
	r.most, r.mostInUse = max(r.most, missing), max(r.mostInUse, inUse)
	leaves := (change == watch.Deleted || pod.DeletionTimestamp != nil) && before != nil && before.DeletionTimestamp == nil
	if leaves {
		node := pod.Spec.NodeName
		r.removals = append(r.removals, removal{node: node, ready: env.IsReady(before), inUse: r.users(node) > 0, pulled: r.pulled[node], missing: missing})
	}
}

// count is how many nodes are without a plugin that is ready, of those that had one.
func (r *recorder) count() (missing, inUse int) {
	ready := map[string]bool{}
	for _, pod := range r.pods {
		if isPlugin(pod) && pod.DeletionTimestamp == nil && env.IsReady(pod) {
			ready[pod.Spec.NodeName], r.served[pod.Spec.NodeName] = true, true
		}
	}
	for node := range r.served {
		if !ready[node] {
			missing++
			if r.users(node) > 0 {
				inUse++
			}
		}
	}
	return missing, inUse
}

// users is how many applications run on a node.
func (r *recorder) users(node string) int {
	users := 0
	for _, pod := range r.pods {
		if pod.Namespace == project && pod.Spec.NodeName == node && pod.Status.Phase == corev1.PodRunning && len(pod.Spec.Volumes) > 0 &&
			slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.PersistentVolumeClaim != nil }) {
			users++
		}
	}
	return users
}

// seen is what was recorded so far.
func (r *recorder) seen() recorder {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return recorder{removals: slices.Clone(r.removals), most: r.most, mostInUse: r.mostInUse}
}

// replaced is how many node pods were deleted.
func (r *recorder) replaced() int { return len(r.seen().removals) }

// disturbed are the nodes in use that lost a plugin that was ready.
func (r *recorder) disturbed() []string {
	var found []string
	for _, removal := range r.seen().removals {
		if removal.inUse && removal.ready {
			found = append(found, removal.node)
		}
	}
	return found
}

// check looks for what no roll-out of ours may do: too many nodes without a plugin, nodes in use before idle ones or more than one at a time.
func (r *recorder) check(t *testing.T) {
	t.Helper()
	seen := r.seen()
	if seen.most > r.bound || seen.mostInUse > 1 {
		t.Errorf("%d nodes were without a plugin, %d in use; %d and 1 may be", seen.most, seen.mostInUse, r.bound)
	}
	inUse := false
	for i, removal := range seen.removals {
		switch {
		case removal.ready && removal.inUse:
			inUse = true
			if removal.missing > 1 {
				t.Errorf("node %s, in use, lost its plugin while %d nodes were without one", removal.node, removal.missing)
			}
		case removal.ready && inUse:
			t.Errorf("idle node %s came after nodes in use: %s", removal.node, fmt.Sprint(seen.removals[:i+1]))
		}
	}
}
