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
	// unused are the class's PersistentVolumes without a PVC. volumesUnknown means that the user lacks permission to list PersistentVolumes.
	unused         []string
	volumesUnknown bool
	// hasSCCs reports whether SecurityContextConstraints set the user and the group of pods.
	hasSCCs bool
}

// sccKind is OpenShift's kind that sets the user and the group of pods.
func sccKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}
}

// observe reads the cluster. Parameter name is the name of a StorageClass, or the name of a driver with one class.
func observe(ctx context.Context, c *plugin.Cluster, name string) (s seen, err error) {
	if s.class, err = findClass(ctx, c, name); err != nil {
		return s, err
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
	err = c.List(ctx, volumes)
	if s.volumesUnknown = apierrors.IsForbidden(err); err != nil && !s.volumesUnknown {
		return s, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	for i := range volumes.Items {
		if volume := &volumes.Items[i]; volume.Spec.StorageClassName == s.class.Name && volume.Spec.ClaimRef == nil {
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

// findClass returns the StorageClass with this name. If no StorageClass has this name, the name means a driver, and findClass returns the only
// StorageClass of this driver.
func findClass(ctx context.Context, c *plugin.Cluster, name string) (storagev1.StorageClass, error) {
	var class storagev1.StorageClass
	err := c.Get(ctx, client.ObjectKey{Name: name}, &class)
	if err == nil {
		return class, nil
	}
	if !apierrors.IsNotFound(err) {
		return class, fmt.Errorf("read StorageClass %s: %w", name, err)
	}
	classes := &storagev1.StorageClassList{}
	if err := c.List(ctx, classes); err != nil {
		return class, fmt.Errorf("list StorageClasses, as none is named %s: %w", name, err)
	}
	of := slices.DeleteFunc(classes.Items, func(one storagev1.StorageClass) bool { return !isDriver(one.Provisioner, name) })
	if len(of) == 1 {
		return of[0], nil
	}
	if len(of) == 0 {
		return class, plugin.Usage("no StorageClass is named %s, and no StorageClass has a driver of this name: "+
			"\"oc get storageclass\" lists the classes and their drivers", name)
	}
	names := make([]string, len(of))
	for i := range of {
		names[i] = of[i].Name
	}
	slices.Sort(names)
	return class, plugin.Usage("driver %s has %d StorageClasses, name one of them: %s", name, len(of), strings.Join(names, ", "))
}

// isDriver reports whether a name means a driver. The name can be the driver's full name, or the first part of the full name that is not "csi". For
// instance, "efs" means efs.csi.aws.com, and "vsphere" means csi.vsphere.vmware.com.
func isDriver(driver, name string) bool {
	short, _, _ := strings.Cut(strings.TrimPrefix(driver, "csi."), ".")
	return name == driver || name == short
}

// group returns the ID that the pods use for both their user and their group. It returns nil if SecurityContextConstraints set both.
func (s seen) group() *int64 {
	if s.hasSCCs {
		return nil
	}
	// The images of this project have this user: internal/release/image.User.
	number := int64(65532)
	return &number
}

// zones returns the zones in which a pod can use the class, sorted. In a cluster without zones, the result is one empty name. If no zone is usable,
// problem says why.
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
