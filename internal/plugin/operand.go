package plugin

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FindDaemonSet finds a driver's DaemonSet in all namespaces, because OLM can install the operator in every namespace. If there is no such
// DaemonSet, the result is nil.
func (c *Cluster) FindDaemonSet(ctx context.Context, name string) (*appsv1.DaemonSet, error) {
	found := &appsv1.DaemonSetList{}
	if _, err := c.FindAll(ctx, found, client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, err
	}
	if len(found.Items) > 1 {
		var namespaces []string
		for i := range found.Items {
			namespaces = append(namespaces, found.Items[i].Namespace)
		}
		return nil, fmt.Errorf("several namespaces have a DaemonSet %s: %s. Only one of these DaemonSets may run the driver: uninstall the other operators",
			name, strings.Join(namespaces, ", "))
	}
	if len(found.Items) == 0 {
		return nil, nil //nolint:nilnil // A missing DaemonSet is not a failure.
	}
	return &found.Items[0], nil
}
