package migration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// PlannedChange is a value that the predecessor's driver accepted and that the new driver refuses, or treats in another way.
type PlannedChange struct {
	// Object has the form "Kind name".
	Object string `json:"object"`
	// Refused is true if the new driver refuses the value. Otherwise, it treats the value in another way.
	Refused bool `json:"refused,omitempty"`
	// Unused is true for a PersistentVolume without a PersistentVolumeClaim. For a StorageClass, Unused is true if the StorageClass is not the default
	// and no PersistentVolume names it.
	Unused bool   `json:"unused,omitempty"`
	What   string `json:"what"`
	// Instead says what to write in place of the value. It can be empty.
	Instead string `json:"instead,omitempty"`
}

// String returns the object and what changes.
func (c PlannedChange) String() string {
	if c.Unused {
		return c.Object + ", not in use: " + c.What
	}
	return c.Object + ": " + c.What
}

// refuses says why the new driver refuses to mount a PersistentVolume that the predecessor's driver mounted. The text is empty if the new driver
// accepts the PersistentVolume, or if the predecessor's driver refused it, too.
func (m *Migration) refuses(one *corev1.PersistentVolume) string {
	if !accepted(m.olds, one) {
		return ""
	}
	var texts []string
	for _, problem := range m.Accepts.Volume(one) {
		text := problem.What
		if problem.Instead != "" {
			text += "; write " + problem.Instead
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// previewChanged adds to the plan the values that the new driver refuses, or treats in another way than the predecessor's driver.
func (m *Migration) previewChanged(ctx context.Context, objects []client.Object, plan *Plan) error {
	pods, err := m.plugins(ctx)
	if err != nil {
		return err
	}
	if pods = m.oldOf(pods); len(pods) == 0 {
		return nil
	}
	plan.Predecessor = m.versions(pods)
	olds, changes, named := m.tables(plan.Predecessor), m.changesFrom(plan.Predecessor), map[string]bool{}
	_, err = volume.OfDriver(ctx, m.Live, m.Driver.Name, func(one *corev1.PersistentVolume) {
		plan.Changes = append(plan.Changes, m.changesOf(one, changes, olds)...)
		named[one.Spec.StorageClassName] = true
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(plan.Changes, func(a, b PlannedChange) int { return cmp.Compare(a.Object, b.Object) })
	classes := &storagev1.StorageClassList{}
	if err := m.Live.List(ctx, classes); err != nil {
		return fmt.Errorf("list StorageClasses: %w", err)
	}
	for i := range classes.Items {
		if classes.Items[i].Provisioner == m.Driver.Name {
			plan.Changes = append(plan.Changes, m.changesOfClass(&classes.Items[i], named, olds)...)
		}
	}
	tags, err := m.lostTags(ctx, pods, objects, plan.Predecessor)
	if err != nil {
		return err
	}
	resolver, err := m.resolver(ctx, pods)
	plan.Changes = slices.Concat(plan.Changes, tags, resolver)
	return err
}

// oldOf returns the node pods of predecessors.
func (m *Migration) oldOf(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return pod.Namespace == m.Namespace && !m.Driver.IsOld(&pod) })
}

// tables returns, for each of these versions of the driver, the table of what this version accepts.
func (m *Migration) tables(versions []string) []accept.Table {
	tables := make([]accept.Table, 0, len(versions))
	for _, version := range versions {
		tables = append(tables, m.Driver.Accepts.At(version))
	}
	return tables
}

// accepted reports whether at least one version of the predecessor's driver mounted a PersistentVolume. Argument "olds" has a table for each of these
// versions. It is empty if a version is unknown. In that case, accepted returns true.
func accepted(olds []accept.Table, one *corev1.PersistentVolume) bool {
	return len(olds) == 0 || slices.ContainsFunc(olds, func(old accept.Table) bool { return len(old.Volume(one)) == 0 })
}

// versions returns the versions of the driver that node pods run, the oldest first. An image may name no version. For such an image, versions returns
// the oldest and the newest version that the pod's installer (driver.Installer) ever installed. The result is empty if a version is unknown.
func (m *Migration) versions(pods []corev1.Pod) []string {
	found := map[string]bool{}
	for i := range pods {
		pod, version := &pods[i], ""
		for _, container := range pod.Spec.Containers {
			// Images of sidecars have other names, such as csi-node-driver-registrar. A mirror may have csi-driver in its path.
			if strings.Contains(path.Base(container.Image), "csi-driver") {
				version = cmp.Or(version, accept.VersionOf(container.Image))
			}
		}
		if version != "" {
			found[version] = true
			continue
		}
		known := false
		for _, installer := range m.Driver.Installers {
			if installer.Installed(pod) {
				known, found[installer.Oldest], found[installer.Newest] = true, true, true
			}
		}
		if !known {
			return nil
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int { return semver.MustParse(a).Compare(semver.MustParse(b)) })
}

// changesFrom returns the changes between these versions of the predecessor's driver and the new driver. If these versions are unknown, it returns
// all changes, and says for which old versions a change applies.
func (m *Migration) changesFrom(versions []string) []accept.Change {
	var changes []accept.Change
	for _, change := range m.Driver.Changes {
		isOlder := func(version string) bool {
			return change.Before == "" || semver.MustParse(version).LT(semver.MustParse(change.Before))
		}
		switch {
		case slices.ContainsFunc(versions, isOlder):
		case len(versions) > 0:
			continue
		case change.Before != "":
			change.What += ", if the old driver is older than " + change.Before
		}
		changes = append(changes, change)
	}
	return changes
}

// changesOf returns the values of a PersistentVolume that the new driver refuses, or treats in another way than the predecessor's driver.
func (m *Migration) changesOf(one *corev1.PersistentVolume, known []accept.Change, olds []accept.Table) []PlannedChange {
	if one.Spec.CSI == nil || !accepted(olds, one) {
		// The PersistentVolume has no CSI source, or the predecessor's driver refused it, too.
		return nil
	}
	object, phase := "PersistentVolume "+one.Name, one.Status.Phase
	unused := one.Spec.ClaimRef == nil || phase == corev1.VolumeReleased || phase == corev1.VolumeFailed
	var changes []PlannedChange
	for _, problem := range m.Accepts.Volume(one) {
		changes = append(changes, PlannedChange{
			Object: object, Refused: true, Unused: unused, What: "the new driver refuses " + problem.What, Instead: problem.Instead,
		})
	}
	for _, change := range known {
		if change.Has(one) {
			changes = append(changes, PlannedChange{Object: object, Unused: unused, What: change.What, Instead: change.Instead})
		}
	}
	return changes
}

// changesOfClass returns the parameters and mount options of a StorageClass that the new driver refuses, and that the predecessor accepted or
// ignored. Argument "named" has the StorageClasses that PersistentVolumes name.
func (m *Migration) changesOfClass(class *storagev1.StorageClass, named map[string]bool, olds []accept.Table) []PlannedChange {
	var changes []PlannedChange
	unused := !named[class.Name] && class.Annotations[driver.DefaultAnnotation("StorageClass")] != "true"
	check := func(of accept.Subject, name, value, what string) {
		why := m.Accepts.Refusal(of, name, value)
		refused := len(olds) > 0 && !slices.ContainsFunc(olds, func(old accept.Table) bool { return old.Refusal(of, name, value) == "" })
		if why != "" && !refused {
			changes = append(changes, PlannedChange{
				Object: "StorageClass " + class.Name, Refused: true, Unused: unused, What: fmt.Sprintf("the new driver refuses %s: %s", what, why),
				Instead: "a new StorageClass; existing volumes are not concerned",
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(class.Parameters)) {
		check(accept.Parameter, name, class.Parameters[name], fmt.Sprintf("parameter %s %q", name, class.Parameters[name]))
	}
	for _, option := range class.MountOptions {
		check(accept.RefusedOption, option, option, fmt.Sprintf("mount option %q", option))
	}
	return changes
}

// resolver warns about a change of DNS. Node pods of the predecessor resolve names through the cluster's DNS, which may forward names of the cloud to
// other servers. New node pods use the resolver of their node.
func (m *Migration) resolver(ctx context.Context, pods []corev1.Pod) ([]PlannedChange, error) {
	usesCluster := func(pod corev1.Pod) bool { return pod.Spec.DNSPolicy == corev1.DNSClusterFirstWithHostNet }
	if len(m.Driver.Zones) == 0 || !slices.ContainsFunc(pods, usesCluster) {
		return nil, nil
	}
	dns := &operatorv1.DNS{}
	err := m.Live.Get(ctx, client.ObjectKey{Name: "default"}, dns)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
	case err != nil:
		return nil, fmt.Errorf("read DNS default: %w", err)
	}
	zones := forwarded(dns, m.Driver.Zones)
	if err == nil && len(zones) == 0 {
		return nil, nil
	}
	what := "node pods of the predecessor resolve names through the cluster's DNS, new ones through the resolver of their node"
	if len(zones) > 0 {
		what += "; the cluster's DNS forwards " + strings.Join(zones, ", ")
	}
	return []PlannedChange{{Object: "DNS default", What: what, Instead: "volume attribute mounttargetip, or the same forwarding on the nodes, " +
		"if these do not resolve the names of mount targets"}}, nil
}

// forwarded returns the DNS zones that the cluster's DNS forwards to other servers. It considers only zones that contain, or lie in, a domain of the
// cloud. If the cluster's DNS forwards all other names to certain servers, forwarded also returns a text with each of these servers.
func forwarded(dns *operatorv1.DNS, ofCloud []string) []string {
	var zones []string
	for _, server := range dns.Spec.Servers {
		for _, one := range server.Zones {
			name := "." + strings.ToLower(strings.Trim(one, "."))
			if slices.ContainsFunc(ofCloud, func(zone string) bool { return strings.HasSuffix("."+zone, name) || strings.HasSuffix(name, "."+zone) }) {
				zones = append(zones, one)
			}
		}
	}
	for _, upstream := range dns.Spec.UpstreamResolvers.Upstreams {
		if upstream.Type == operatorv1.NetworkResolverType {
			zones = append(zones, "all other names to "+upstream.Address)
		}
	}
	return zones
}
