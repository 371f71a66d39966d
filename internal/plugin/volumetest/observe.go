package volumetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// seen is what the test depends on.
type seen struct {
	class    storagev1.StorageClass
	nodes    []corev1.Node
	csiNodes []storagev1.CSINode
	// unused are the PersistentVolumes of the class that no PVC has. volumesUnknown means that the user may not list PersistentVolumes.
	unused         []string
	volumesUnknown bool
	// hasSCCs reports whether SecurityContextConstraints set the user and the group of pods.
	hasSCCs bool
}

// sccKind is OpenShift's kind that sets the user and the group of pods.
func sccKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}
}

func observe(ctx context.Context, c *plugin.Cluster, class string) (seen, error) {
	var s seen
	if err := c.Get(ctx, client.ObjectKey{Name: class}, &s.class); err != nil {
		return s, fmt.Errorf("read StorageClass %s: %w", class, err)
	}
	nodes, csiNodes := &corev1.NodeList{}, &storagev1.CSINodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return s, fmt.Errorf("list nodes: %w", err)
	}
	if err := c.List(ctx, csiNodes); err != nil {
		return s, fmt.Errorf("list CSINodes: %w", err)
	}
	s.nodes, s.csiNodes = nodes.Items, csiNodes.Items
	volumes := &corev1.PersistentVolumeList{}
	err := c.List(ctx, volumes)
	if s.volumesUnknown = apierrors.IsForbidden(err); err != nil && !s.volumesUnknown {
		return s, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	for i := range volumes.Items {
		if volume := &volumes.Items[i]; volume.Spec.StorageClassName == class && volume.Spec.ClaimRef == nil {
			s.unused = append(s.unused, volume.Name)
		}
	}
	_, err = c.RESTMapper().RESTMapping(sccKind().GroupKind(), sccKind().Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return s, fmt.Errorf("find out whether the cluster has SecurityContextConstraints: %w", err)
	}
	s.hasSCCs = err == nil
	return s, nil
}

// group returns the number that is the user and the group of the pods. It returns nil if SecurityContextConstraints set both.
func (s seen) group() *int64 {
	if s.hasSCCs {
		return nil
	}
	// The images of this project have this user: internal/release/image.User.
	number := int64(65532)
	return &number
}

// zones returns the zones in which a pod can use the class, sorted. In a cluster without zones, the only name is empty. If no zone is usable, problem
// says why.
func (s seen) zones() (zones []string, problem string) {
	if s.class.ReclaimPolicy != nil && *s.class.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return nil, fmt.Sprintf("StorageClass %s has reclaimPolicy Retain, so the volumes of the test would stay: use a class with reclaimPolicy Delete",
			s.class.Name)
	}
	if len(s.unused) > 0 {
		return nil, fmt.Sprintf("PersistentVolume %s of StorageClass %s has no PVC, so a PVC of the test would get this volume instead of a new one: "+
			"use a class without such volumes", status.Shorten(s.unused), s.class.Name)
	}
	found := map[string]bool{}
	for i := range s.nodes {
		if node := &s.nodes[i]; usable(node) && s.serves(node.Name) && s.allows(node.Labels[corev1.LabelTopologyZone]) {
			found[node.Labels[corev1.LabelTopologyZone]] = true
		}
	}
	if len(found) == 0 {
		return nil, fmt.Sprintf("driver %s of StorageClass %s is registered on no ready node that the class allows: "+
			"\"oc storage doctor class %s\" checks the class", s.class.Provisioner, s.class.Name, s.class.Name)
	}
	return slices.Sorted(maps.Keys(found)), ""
}

// usable reports whether the scheduler may put the pod on a node.
func usable(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
	return ready && !node.Spec.Unschedulable && !tainted
}

// serves reports whether the kubelet of a node has registered the driver.
func (s seen) serves(node string) bool {
	return slices.ContainsFunc(s.csiNodes, func(each storagev1.CSINode) bool {
		return each.Name == node && slices.ContainsFunc(each.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == s.class.Provisioner })
	})
}

// allows reports whether the class allows a zone. Drivers have topology keys of their own for zones, such as topology.ebs.csi.aws.com/zone and
// topology.csi.vmware.com/openshift-zone.
func (s seen) allows(zone string) bool {
	limited := false
	for _, term := range s.class.AllowedTopologies {
		for _, each := range term.MatchLabelExpressions {
			if strings.HasSuffix(each.Key, "zone") {
				limited = true
				if slices.Contains(each.Values, zone) {
					return true
				}
			}
		}
	}
	return !limited
}
