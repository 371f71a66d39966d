package reports

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
)

// names has the file systems and the pods of the mounts in an answer. It is immutable.
type names struct {
	// systems has file systems by volume. pods has "namespace/name" by node and UID. A value is empty if the object no longer exists.
	systems map[string]string
	pods    map[podKey]string
}

type podKey struct{ node, uid string }

// resolve returns the names for the mounts of a new answer. It asks the API server only for names that n does not have. After an error, some names
// are missing, and the condition has the UID instead.
func (n names) resolve(ctx context.Context, live client.Reader, named []mount) (names, error) {
	next := names{systems: map[string]string{}, pods: map[podKey]string{}}
	lists := map[string]map[podKey]string{}
	for _, one := range named {
		key := podKey{one.node, one.podUID}
		pod, known := n.pods[key]
		if !known && one.podUID != "" {
			if lists[one.node] == nil {
				list, err := podsOn(ctx, live, one.node)
				if err != nil {
					return next, err
				}
				lists[one.node] = list
			}
			pod = lists[one.node][key]
		}
		next.pods[key] = pod
		system, known := n.systems[one.volume]
		if !known && one.volume != "" {
			var err error
			if system, err = systemOf(ctx, live, one.volume); err != nil {
				return next, err
			}
		}
		next.systems[one.volume] = system
	}
	return next, nil
}

// podsOn lists the pods of one node only, so that a node can't name pods of other nodes.
func podsOn(ctx context.Context, live client.Reader, node string) (map[podKey]string, error) {
	list := &corev1.PodList{}
	if err := live.List(ctx, list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	found := map[podKey]string{}
	for _, pod := range list.Items {
		found[podKey{node, string(pod.UID)}] = pod.Namespace + "/" + pod.Name
	}
	return found, nil
}

// systemOf returns the file system of a volume. The result is empty if the volume no longer exists, or belongs to another driver.
func systemOf(ctx context.Context, live client.Reader, name string) (string, error) {
	volume := &corev1.PersistentVolume{}
	if err := live.Get(ctx, client.ObjectKey{Name: name}, volume); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read PersistentVolume %s: %w", name, err)
	}
	share, _ := efs.NamesOf(volume)
	return share.FileSystem, nil
}
