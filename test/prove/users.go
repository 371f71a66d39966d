package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// users name the objects that need a driver or a file system. Kubernetes deletes those of leaving without another request. A person has to delete the
// others.
type users struct{ staying, leaving []string }

func (u *users) add(name string, leaving bool) {
	if leaving {
		u.leaving = append(u.leaving, name)
		return
	}
	u.staying = append(u.staying, name)
}

// all returns all names, and marks those of leaving.
func (u *users) all() []string {
	names := slices.Clone(u.staying)
	for _, name := range u.leaving {
		names = append(names, name+" (being deleted; \"oc describe\" says what it waits for)")
	}
	return names
}

// awaitUsers waits while all users are being deleted, and returns the users that are left. Tests of TESTS= end before Kubernetes and the driver have
// deleted the volumes of these tests.
func (p *proof) awaitUsers(ctx context.Context, find func() (*users, error)) ([]string, error) {
	var found *users
	var failure error
	hasSaid := false
	err := p.until(ctx, "nothing of this is being deleted any more", func() error {
		if found, failure = find(); failure != nil || len(found.staying) > 0 || len(found.leaving) == 0 {
			return nil
		}
		if !hasSaid {
			hasSaid = true
			p.say("Waiting until Kubernetes has deleted %s.", strings.Join(found.leaving, ", "))
		}
		return fmt.Errorf("left are %s", strings.Join(found.leaving, ", "))
	})
	switch {
	case failure != nil:
		return nil, failure
	case err != nil && ctx.Err() != nil:
		return nil, err
	}
	return found.all(), nil
}

// volumes has the PersistentVolumes of a cluster, and the UIDs of the PVCs of others without a deletionTimestamp.
type volumes struct {
	corev1.PersistentVolumeList
	live map[types.UID]bool
}

func (p *proof) readVolumes(ctx context.Context) (*volumes, error) {
	read := &volumes{live: map[types.UID]bool{}}
	if _, err := p.get(ctx, &read.PersistentVolumeList, "persistentvolumes"); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(read.Items, func(one corev1.PersistentVolume) bool { return one.Status.Phase == corev1.VolumeBound }) {
		return read, nil
	}
	pvcs := &corev1.PersistentVolumeClaimList{}
	if _, err := p.get(ctx, pvcs, "-A", "persistentvolumeclaims"); err != nil {
		return nil, err
	}
	for i := range pvcs.Items {
		if pvcs.Items[i].DeletionTimestamp == nil {
			read.live[pvcs.Items[i].UID] = true
		}
	}
	return read, nil
}

// isLeaving reports whether a PersistentVolume goes without another request: when its PVC is gone, the driver deletes a volume with policy Delete.
func (v *volumes) isLeaving(one *corev1.PersistentVolume) bool {
	claim := one.Spec.ClaimRef
	if one.Status.Phase == corev1.VolumeBound && claim != nil && v.live[claim.UID] {
		return false
	}
	return one.DeletionTimestamp != nil || one.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		(one.Status.Phase == corev1.VolumeReleased || one.Status.Phase == corev1.VolumeBound)
}

// usersOfDriver returns the volumes of the driver that are not of this program, and the SharedVolumes.
func (p *proof) usersOfDriver(ctx context.Context, now seen) (*users, error) {
	volumes, err := p.readVolumes(ctx)
	if err != nil {
		return nil, err
	}
	found := &users{}
	for i := range volumes.Items {
		if one := &volumes.Items[i]; volume.DriverOf(one) == awsefs.Name && userOf(one) != "" {
			found.add(userOf(one), volumes.isLeaving(one))
		}
	}
	if _, there := now[crdName]; !there {
		return found, nil
	}
	list := &unstructured.UnstructuredList{}
	if _, err := p.get(ctx, list, sharedVolumes, "-A"); err != nil {
		return nil, err
	}
	for i := range list.Items {
		one := &list.Items[i]
		found.add("SharedVolume "+one.GetNamespace()+"/"+one.GetName(), one.GetDeletionTimestamp() != nil)
	}
	return found, nil
}

// usersOf returns the PersistentVolumes of file systems that belong to PVCs of others or to none, and the pods of this program that may still have one mounted.
func (p *proof) usersOf(ctx context.Context, fileSystems []string) (*users, error) {
	found := &users{}
	if len(fileSystems) == 0 {
		return found, nil
	}
	volumes, err := p.readVolumes(ctx)
	if err != nil {
		return nil, err
	}
	own := map[client.ObjectKey]bool{}
	for i := range volumes.Items {
		one, claim := &volumes.Items[i], volumes.Items[i].Spec.ClaimRef
		if !slices.ContainsFunc(fileSystems, func(id string) bool { return isOn(one, id) }) {
			continue
		}
		if user := userOf(one); user != "" {
			found.add(user, volumes.isLeaving(one))
			continue
		}
		own[client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}] = true
	}
	pods := &corev1.PodList{}
	if _, err := p.get(ctx, pods, "-n", space, "pods"); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; volume.UsesVolumes(pod) && len(volume.Among(own, pod)) > 0 {
			found.add(fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name), pod.DeletionTimestamp != nil)
		}
	}
	return found, nil
}

// userOf names a PersistentVolume and its PVC, unless that is a PVC of this program.
func userOf(one *corev1.PersistentVolume) string {
	switch claim := one.Spec.ClaimRef; {
	case claim == nil:
		return "PersistentVolume " + one.Name
	case claim.Namespace != space:
		return fmt.Sprintf("PersistentVolume %s of PVC %s/%s", one.Name, claim.Namespace, claim.Name)
	}
	return ""
}

// isOn reports whether a PersistentVolume is on a file system: by the driver, or as NFS by the name of the file system in DNS.
func isOn(one *corev1.PersistentVolume, fileSystem string) bool {
	if one.Spec.NFS != nil {
		// The name of a zone may come before it.
		return slices.Contains(strings.Split(one.Spec.NFS.Server, "."), fileSystem)
	}
	if volume.DriverOf(one) != awsefs.Name {
		return false
	}
	// A handle is the ID of the file system, and then perhaps a path and an access point after colons.
	id, _, _ := strings.Cut(one.Spec.CSI.VolumeHandle, ":")
	return id == fileSystem
}
