package vspherehealth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Want returns what a poll must ask the vCenters for. It waits until the caches of nodes and volumes have synced.
func (r *Reconciler) Want(ctx context.Context) (vsphere.Want, error) {
	for _, known := range []interface{ WaitForSync(context.Context) error }{r.nodes, r.volumes} {
		if err := known.WaitForSync(ctx); err != nil {
			return vsphere.Want{}, err
		}
	}
	found := cluster{}
	infrastructure, err := r.readCluster(ctx, &found)
	if err != nil {
		return vsphere.Want{}, err
	}
	want := wantOf(infrastructure, found)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if hash := hashOf(want, found); r.asked.hash != hash {
		r.asked.hash, r.asked.since = hash, r.Now()
	}
	return want, nil
}

// isOutdated reports whether the answer of the last poll lacks something that the checks need now. taken is the time of that poll.
func (r *Reconciler) isOutdated(in input, taken time.Time) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.asked.hash != hashOf(in.want, in.cluster) || taken.Before(r.asked.since)
}

// hashOf returns a hash of what a poll asks for. A change of the hash makes a poll due. The hash includes the policies that StorageClasses name,
// because a new StorageClass may name a policy that is newer than the last poll.
func hashOf(want vsphere.Want, of cluster) string {
	text := plain(want)
	for _, one := range of.classes {
		if one.policy != "" {
			text = append(text, "policy "+one.policy)
		}
	}
	slices.Sort(text[len(plain(want)):])
	return apply.Digest(strings.Join(text, "\n"))
}

// plain returns a Want as texts without pointers, because the addresses of pointers would change the hash.
func plain(want vsphere.Want) []string {
	text := []string{want.InfrastructureID, strings.Join(want.UUIDs, ","), strings.Join(want.Datastores, "\n")}
	for _, one := range want.FailureDomains {
		text = append(text, one.Name, one.Region, one.Zone, one.Server, fmt.Sprint(one.Topology))
		if isHostGroup(one) {
			text = append(text, fmt.Sprint(*one.ZoneAffinity.HostGroup))
		}
	}
	return text
}

// read returns the input of the checks, without the snapshot.
func (r *Reconciler) read(ctx context.Context, cr *operatorv1.ClusterCSIDriver) (input, error) {
	in := input{config: r.Config(), now: r.Now()}
	infrastructure, err := r.readCluster(ctx, &in.cluster)
	if err != nil {
		return in, err
	}
	in.want = wantOf(infrastructure, in.cluster)
	if settings := cr.Spec.DriverConfig.VSphere; settings != nil {
		in.cluster.maxVolumes, in.cluster.categories = int(settings.MaxAllowedBlockVolumesPerNode), settings.TopologyCategories
	}
	return in, r.readDriver(ctx, &in.cluster)
}

// readCluster reads nodes, StorageClasses, volumes and the Infrastructure from caches.
func (r *Reconciler) readCluster(ctx context.Context, found *cluster) (*configv1.Infrastructure, error) {
	classes := &storagev1.StorageClassList{}
	if err := r.Client.List(ctx, classes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	for i := range classes.Items {
		if one, ok := classOf(&classes.Items[i], r.Driver.Name); ok {
			found.classes = append(found.classes, one)
		}
	}
	r.nodes.Each(func(one node) { found.nodes = append(found.nodes, one) })
	r.volumes.Each(func(one volume) { found.volumes = append(found.volumes, one) })
	slices.SortFunc(found.nodes, func(a, b node) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(found.volumes, func(a, b volume) int { return strings.Compare(a.name, b.name) })
	infrastructure := &configv1.Infrastructure{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: openshift.Singleton}, infrastructure)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Infrastructure %s: %w", openshift.Singleton, err)
	}
	if spec := infrastructure.Spec.PlatformSpec.VSphere; spec != nil {
		found.vCenters = spec.VCenters
	}
	return infrastructure, nil
}

// wantOf computes what a poll must ask the vCenters for.
func wantOf(infrastructure *configv1.Infrastructure, found cluster) vsphere.Want {
	want := vsphere.Want{InfrastructureID: infrastructure.Status.InfrastructureName}
	if spec := infrastructure.Spec.PlatformSpec.VSphere; spec != nil {
		want.FailureDomains = spec.FailureDomains
	}
	for _, one := range found.nodes {
		if one.uuid != "" {
			want.UUIDs = append(want.UUIDs, one.uuid)
		}
	}
	for _, one := range found.classes {
		want.Datastores = append(want.Datastores, one.datastore, one.url)
	}
	for _, one := range found.volumes {
		want.Datastores = append(want.Datastores, one.datastore)
	}
	slices.Sort(want.Datastores)
	want.Datastores = slices.DeleteFunc(slices.Compact(want.Datastores), func(name string) bool { return name == "" })
	slices.Sort(want.UUIDs)
	return want
}

// readDriver finds out whether a driver is installed, and whether that driver is from another vendor.
func (r *Reconciler) readDriver(ctx context.Context, found *cluster) error {
	csiDriver, daemonSet := &storagev1.CSIDriver{}, &appsv1.DaemonSet{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: r.Driver.Name}, csiDriver)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read CSIDriver %s: %w", r.Driver.Name, err)
	}
	absent := apierrors.IsNotFound(err)
	ours := !absent && openshift.Manages(csiDriver, r.Driver.Operator)
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.DaemonSet}, daemonSet)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read DaemonSet %s/%s: %w", r.Namespace, r.Driver.DaemonSet, err)
	}
	found.installed = ours || err == nil
	if ours || absent && found.installed {
		return nil
	}
	if !absent {
		found.thirdParty = "CSIDriver " + r.Driver.Name
		return nil
	}
	var names []string
	r.csiNodes.Each(func(registered informer.Registered) { names = append(names, registered.Node) })
	slices.Sort(names)
	if len(names) > 0 {
		found.thirdParty = "on nodes " + status.ShortenTo(names, mostNamed)
	}
	return nil
}
