package clustercsidriver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/volume"
)

// pageSize bounds the memory of a look-up in a large cluster.
const pageSize = 500

// user is a pod that is not finished and uses a claim that is bound to a volume of the driver.
type user struct {
	// pod is "namespace/pod"; node is empty before it is scheduled.
	pod, node string
}

// podsInUse returns all users, as "namespace/pod" and sorted.
func podsInUse(ctx context.Context, live client.Reader, driverName string) ([]string, error) {
	claims, err := boundClaims(ctx, live, driverName)
	if err != nil {
		return nil, err
	}
	users, err := usersOf(ctx, live, claims)
	if err != nil {
		return nil, err
	}
	var pods []string
	for _, user := range users {
		pods = append(pods, user.pod)
	}
	return pods, nil
}

// usersOf returns the users of claims, sorted. Only the namespaces of the claims are read.
func usersOf(ctx context.Context, live client.Reader, claims map[client.ObjectKey]bool) ([]user, error) {
	namespaces := map[string]bool{}
	for claim := range claims {
		namespaces[claim.Namespace] = true
	}
	var found []user
	for namespace := range namespaces {
		users, err := usersIn(ctx, live, claims, client.InNamespace(namespace))
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", namespace, err)
		}
		found = append(found, users...)
	}
	slices.SortFunc(found, func(a, b user) int { return strings.Compare(a.pod, b.pod) })
	return found, nil
}

// usersIn returns the users of claims in a namespace, or on a node.
func usersIn(ctx context.Context, live client.Reader, claims map[client.ObjectKey]bool, where client.ListOption) ([]user, error) {
	var found []user
	if len(claims) == 0 {
		return nil, nil
	}
	err := eachPage(ctx, live, &corev1.PodList{}, func(list *corev1.PodList) {
		for i := range list.Items {
			if pod := &list.Items[i]; uses(pod, claims) {
				found = append(found, user{pod: pod.Namespace + "/" + pod.Name, node: pod.Spec.NodeName})
			}
		}
	}, where)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return found, nil
}

// boundClaims returns the claims that PersistentVolumes of the driver are bound to.
func boundClaims(ctx context.Context, live client.Reader, driverName string) (map[client.ObjectKey]bool, error) {
	claims := map[client.ObjectKey]bool{}
	err := eachPage(ctx, live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			claim := list.Items[i].Spec.ClaimRef
			// A volume that is released still names its former claim.
			bound := list.Items[i].Status.Phase == corev1.VolumeBound && claim != nil
			if bound && volume.DriverOf(&list.Items[i]) == driverName {
				claims[client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}] = true
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	return claims, nil
}

func uses(pod *corev1.Pod, claims map[client.ObjectKey]bool) bool {
	if isFinished(pod) {
		return false
	}
	for _, volume := range pod.Spec.Volumes {
		name := ""
		switch {
		case volume.PersistentVolumeClaim != nil:
			name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			// The claim of a generic ephemeral volume is named after pod and volume (KEP-1698).
			name = pod.Name + "-" + volume.Name
		}
		if name != "" && claims[client.ObjectKey{Namespace: pod.Namespace, Name: name}] {
			return true
		}
	}
	return false
}

func eachPage[L client.ObjectList](
	ctx context.Context, live client.Reader, list L, visit func(L), options ...client.ListOption,
) error {
	token := ""
	for {
		page := append([]client.ListOption{client.Limit(pageSize), client.Continue(token)}, options...)
		err := live.List(ctx, list, page...)
		if err != nil {
			return err //nolint:wrapcheck // The callers say what was listed.
		}
		visit(list)
		token = list.GetContinue()
		if token == "" {
			return nil
		}
	}
}
