package nodes

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// Replacer replaces the node pods of one driver. It is used by one goroutine.
type Replacer struct {
	Client client.Client
	// Live reads from the cluster: a cache that lags would let too many pods go.
	Live   client.Reader
	Driver string
	// IsOld reports whether a node pod is a predecessor's.
	IsOld func(*corev1.Pod) bool
	Now   func() time.Time

	// users are the pods that used volumes when they were surveyed.
	users    []volume.User
	surveyed time.Time
}

// Survey sorts a driver's node pods, those of predecessors included, and reads who uses volumes. The caller has read the pods from the
// cluster. Desired is how many nodes are to have a plugin. The DaemonSet is nil if it is not ours yet.
func (r *Replacer) Survey(ctx context.Context, pods []corev1.Pod, daemonSet *appsv1.DaemonSet, desired int) (Fleet, error) {
	if r.Now().Sub(r.surveyed) >= surveyInterval {
		// Each new node pod wakes the controller up, and a whole cluster is not read for each. Right before a node pod is deleted, its node is
		// read again.
		users, err := volume.Users(ctx, r.Live, r.Driver)
		if err != nil {
			return Fleet{}, err
		}
		r.users, r.surveyed = users, r.Now()
	}
	healths, err := r.unready(ctx, pods)
	pods = withoutDeparted(pods, healths)
	fleet := newFleet(pods, r.users, healths, desired, r.IsOld)
	r.sort(&fleet, pods, daemonSet)
	return fleet, err
}

// Replace deletes the pods that are next, so that ours follow. Those of nodes in use are deleted only if that is accepted.
func (r *Replacer) Replace(ctx context.Context, nodes Fleet, accepted bool) (apply.ChangeSet, error) {
	var deleted apply.ChangeSet
	for i := range nodes.Unscheduled {
		deleted = append(deleted, apply.Delete(ctx, r.Client, &nodes.Unscheduled[i]))
	}
	next := nodes.Next(accepted)
	if len(next) == 0 {
		return deleted, nil
	}
	// A pod may have come since with a new PVC. It would lose its mounts.
	pvcs, err := volume.BoundPVCs(ctx, r.Live, r.Driver)
	if err != nil {
		return deleted, err
	}
	for _, node := range next {
		pod := nodes.Old[node]
		if pod == nil {
			pod = nodes.Outdated[node]
		}
		if !accepted {
			late, err := volume.UsersIn(ctx, r.Live, pvcs, client.MatchingFields{"spec.nodeName": node})
			if err != nil {
				return deleted, err
			}
			if len(late) > 0 {
				continue
			}
		}
		deleted = append(deleted, apply.Delete(ctx, r.Client, pod))
	}
	return deleted, nil
}

// sort finds, among pods of ours, those of an earlier version of the DaemonSet, and whether one of its newest version serves. While pods of
// a predecessor wait, nobody else would replace the outdated ones.
func (r *Replacer) sort(fleet *Fleet, pods []corev1.Pod, daemonSet *appsv1.DaemonSet) {
	fleet.Outdated = map[string]*corev1.Pod{}
	if daemonSet == nil {
		return
	}
	number := NumberOf(daemonSet)
	fleet.Unproven = true
	for i := range pods {
		pod := &pods[i]
		made := pod.Labels[templateLabel]
		switch {
		case r.IsOld(pod) || fleet.Down[pod.Spec.NodeName] || !metav1.IsControlledBy(pod, daemonSet):
		case made == number && Serves(pod):
			fleet.Unproven = false
		case made != number && made != "" && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil:
			fleet.Outdated[pod.Spec.NodeName] = pod
		}
	}
}

// unready are the nodes with a plugin that is not ready, with their health.
func (r *Replacer) unready(ctx context.Context, pods []corev1.Pod) (map[string]health, error) {
	found := map[string]health{}
	for i := range pods {
		name := pods[i].Spec.NodeName
		if _, known := found[name]; name == "" || known || Serves(&pods[i]) {
			continue
		}
		var err error
		if found[name], err = healthOf(ctx, r.Live, name); err != nil {
			return nil, err
		}
	}
	return found, nil
}
