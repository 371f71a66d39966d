package efshealth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// uses has the cluster's objects that depend on EFS, sorted by name.
type uses struct {
	volumes []volume
	classes []class
	// nodes are the nodes where users' pods can run, and zones are their zones.
	nodes []nodePlace
	zones []string
	// nodeRole is true if the node pods have credentials.
	nodeRole bool
}

type volume struct {
	name, fileSystem, accessPoint string
	created                       time.Time
	// placed is true if the volume has a node affinity.
	placed bool
	// remote is true if nodes mount the volume by address or from another account. The file systems of this account don't matter for such a volume.
	remote bool
	// shared is true if the volume belongs to a SharedVolume.
	shared bool
}

// sharedLabel is the label that the volumes of SharedVolumes have.
const sharedLabel = "openshift.io/aws-efs-operator-owned"

type class struct {
	name, fileSystem string
	// placed is true if the volumes of the StorageClass get a node affinity, or if a mount option tells the mount helper the zone.
	placed bool
}

func (r *Reconciler) uses(ctx context.Context) (uses, error) {
	var found uses
	classes := &storagev1.StorageClassList{}
	if err := r.Classes.List(ctx, classes, client.UnsafeDisableDeepCopy); err != nil {
		return found, fmt.Errorf("list StorageClasses: %w", err)
	}
	r.volumes.Each(func(one volume) { found.volumes = append(found.volumes, one) })
	slices.SortFunc(found.volumes, func(a, b volume) int { return strings.Compare(a.name, b.name) })
	for i := range classes.Items {
		if one, ok := classOf(&classes.Items[i], r.Driver.Name); ok {
			found.classes = append(found.classes, one)
		}
	}
	slices.SortFunc(found.classes, func(a, b class) int { return strings.Compare(a.name, b.name) })
	found.nodes = r.usableNodes()
	found.zones = zonesOf(found.nodes)
	var err error
	found.nodeRole, err = r.hasNodeRole(ctx)
	return found, err
}

// nodePlace is the zone and the instance of a node, and whether the node is reserved for the control plane.
type nodePlace struct {
	name, zone string
	// instance is the ID of the instance in EC2. It is empty if the node is not an instance in EC2.
	instance     string
	controlPlane bool
}

// placeOf returns the place of a node. The second result is false if the node has no zone.
func placeOf(object client.Object) (nodePlace, bool) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return nodePlace{}, false
	}
	zone := node.Labels[corev1.LabelTopologyZone]
	// An example of a provider ID is aws:///us-east-1a/i-0123456789abcdef0. The node of a Fargate pod has another name in place of the instance.
	instance := node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:]
	if zone == "" {
		return nodePlace{}, false
	}
	if !strings.HasPrefix(node.Spec.ProviderID, "aws://") || !strings.HasPrefix(instance, "i-") {
		instance = ""
	}
	return nodePlace{name: node.Name, zone: zone, instance: instance, controlPlane: slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == "node-role.kubernetes.io/control-plane" || taint.Key == "node-role.kubernetes.io/master"
	})}, true
}

// usableNodes returns the nodes where users' pods can run, sorted by name. If the cluster has only control-plane nodes, it returns all nodes.
func (r *Reconciler) usableNodes() []nodePlace {
	var usable, all []nodePlace
	r.nodes.Each(func(node nodePlace) {
		all = append(all, node)
		if !node.controlPlane {
			usable = append(usable, node)
		}
	})
	if len(usable) == 0 {
		usable = all
	}
	slices.SortFunc(usable, func(a, b nodePlace) int { return strings.Compare(a.name, b.name) })
	return usable
}

// zones returns the zones of usableNodes.
func (r *Reconciler) zones() []string { return zonesOf(r.usableNodes()) }

func zonesOf(nodes []nodePlace) []string {
	zones := map[string]bool{}
	for _, node := range nodes {
		zones[node.zone] = true
	}
	return slices.Sorted(maps.Keys(zones))
}

// Method "of" returns the volumes of SharedVolumes if shared is true, and all other volumes if shared is false.
func (u uses) of(shared bool) []volume {
	return slices.DeleteFunc(slices.Clone(u.volumes), func(one volume) bool { return one.shared != shared })
}

// fileSystems returns the IDs of the file systems in use.
func (u uses) fileSystems() []string {
	ids := map[string]bool{}
	for _, one := range u.volumes {
		if !one.remote {
			ids[one.fileSystem] = true
		}
	}
	for _, one := range u.classes {
		ids[one.fileSystem] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// fingerprint returns a text that changes when the next poll must ask AWS about other objects.
func (u uses) fingerprint() string {
	text := &strings.Builder{}
	for _, one := range u.volumes {
		fmt.Fprintln(text, one.fileSystem, one.accessPoint)
	}
	for _, one := range u.classes {
		fmt.Fprintln(text, one.fileSystem)
	}
	fmt.Fprintln(text, u.zones)
	return apply.Digest(text.String())
}

func volumeOf(from *corev1.PersistentVolume, driverName string) (volume, bool) {
	source := from.Spec.CSI
	if source == nil || source.Driver != driverName {
		return volume{}, false
	}
	names, known := efs.NamesOf(from)
	one := volume{
		name: from.Name, fileSystem: names.FileSystem, accessPoint: names.AccessPoint, created: from.CreationTimestamp.Time,
		placed: from.Spec.NodeAffinity != nil, shared: from.Labels[sharedLabel] != "",
	}
	one.remote = source.VolumeAttributes["mounttargetip"] != "" || source.VolumeAttributes["crossaccount"] == "true"
	for _, option := range from.Spec.MountOptions {
		switch key, _, _ := strings.Cut(option, "="); key {
		case "mounttargetip", "rolearn", "region", "crossaccount":
			one.remote = true
		}
	}
	return one, known
}

// classOf reads a StorageClass of the driver. Since driver 2.3, parameter enforceZoneAffinity gives the volumes a node affinity. Parameter az is for
// file systems of other accounts. Mount option az allows mounts from other zones.
func classOf(from *storagev1.StorageClass, driverName string) (class, bool) {
	parameters := from.Parameters
	one := class{
		name: from.Name, fileSystem: parameters["fileSystemId"],
		placed: parameters["enforceZoneAffinity"] == "true" || slices.ContainsFunc(from.MountOptions, func(option string) bool {
			return strings.HasPrefix(option, "az=") || strings.HasPrefix(option, "azid=")
		}),
	}
	remote := parameters["csi.storage.k8s.io/provisioner-secret-name"] != ""
	return one, from.Provisioner == driverName && !remote && efs.IsFileSystem(one.fileSystem)
}

// isZone reports whether a zone can have EFS mount targets. Local Zones and similar zones have longer names, and can't have mount targets
// (https://docs.aws.amazon.com/efs/latest/ug/accessing-fs.html).
func isZone(zone, region string) bool {
	letter, found := strings.CutPrefix(zone, region)
	return found && len(letter) == 1
}

func stripClass(object any) (any, error) {
	if from, ok := object.(*storagev1.StorageClass); ok {
		return &storagev1.StorageClass{
			TypeMeta: from.TypeMeta, ObjectMeta: bare(from.ObjectMeta), Provisioner: from.Provisioner, Parameters: from.Parameters,
			MountOptions: from.MountOptions,
		}, nil
	}
	return object, nil
}

func bare(from metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion, CreationTimestamp: from.CreationTimestamp}
}
