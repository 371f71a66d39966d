package adversaries

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// What the next tenant asks for; the one before had the IDs of package env.
const (
	nextFileSystem  = "fs-0badcafe"
	nextAccessPoint = "fsap-0badcafe0badcafe"
)

// communityFinalizer is what the community's operator put on every SharedVolume.
const communityFinalizer = "finalizer.awsefs.managed.openshift.io"

// next is a SharedVolume of a tenant who comes after another one, on other shares.
func next(namespace, name string) *v1alpha1.SharedVolume {
	sv := env.SharedVolume(namespace, name)
	sv.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: nextFileSystem, AccessPointID: nextAccessPoint}
	return sv
}

// mountsOnly checks that the IDs of a SharedVolume are its author's, and that whatever volume its PVC has, asks for,
// or is promised is of these IDs. It fails the test at once: what was bound once can have been read.
func mountsOnly(t *testing.T, cluster *env.Cluster, wanted *v1alpha1.SharedVolume) {
	t.Helper()
	live := wanted.DeepCopy()
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(wanted), live); err == nil && live.UID == wanted.UID && live.Spec != wanted.Spec {
		env.Broken(t, "the IDs of SharedVolume %s/%s are %v, its author wrote %v", live.Namespace, live.Name, live.Spec, wanted.Spec)
	}
	handle := wanted.Spec.FileSystemID + "::" + wanted.Spec.AccessPointID
	pvc := &corev1.PersistentVolumeClaim{}
	err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: wanted.Namespace, Name: "pvc-" + wanted.Name}, pvc)
	if apierrors.IsNotFound(err) {
		return
	}
	env.Must(t, err)
	volumes := &corev1.PersistentVolumeList{}
	env.Must(t, cluster.Client.List(t.Context(), volumes))
	for _, volume := range volumes.Items {
		ref := volume.Spec.ClaimRef
		isBound := pvc.Spec.VolumeName == volume.Name && ref != nil && ref.UID == pvc.UID
		if isBound && volume.Spec.CSI != nil && volume.Spec.CSI.VolumeHandle != handle {
			env.Broken(t, "PVC %s/%s is bound to volume %s of %s, want %s", pvc.Namespace, pvc.Name, volume.Name, volume.Spec.CSI.VolumeHandle, handle)
		}
	}
}

// remade deletes a namespace and makes it again for another tenant.
func remade(t *testing.T, cluster *env.Cluster, name string) client.Client {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	env.Must(t, client.IgnoreNotFound(cluster.Client.Delete(t.Context(), space)))
	env.Eventually(t, "namespace "+name+" gone", func() error { return cluster.Gone(t.Context(), space.DeepCopy()) })
	env.Must(t, cluster.Namespace(t.Context(), name))
	return editor(t, cluster, name)
}

// communityLeaves makes a namespace whose tenant has a SharedVolume of the community's operator, and deletes it.
func communityLeaves(t *testing.T, cluster *env.Cluster, namespace, name string) {
	t.Helper()
	tenant(t, cluster, namespace)
	sv, err := cluster.PutCommunityVolume(t.Context(), namespace, name, false)
	env.Must(t, err)
	env.Must(t, cluster.Client.Patch(t.Context(), sv, env.Merge(`{"metadata":{"finalizers":null}}`)))
	env.Must(t, cluster.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
}

// leftByCommunity makes that namespace again. The tenant has gone, and the volume is Released: the community's operator said nowhere for which
// SharedVolume it was made but by name.
func leftByCommunity(t *testing.T, cluster *env.Cluster, namespace, name string) (client.Client, *corev1.PersistentVolume) {
	t.Helper()
	own := remade(t, cluster, namespace)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + namespace + "-" + name}}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(cluster.Client.Delete(context.Background(), volume)); err != nil {
			t.Error(err)
		}
	})
	env.Eventually(t, "the volume released", func() error { return isIn(t.Context(), cluster, volume, corev1.VolumeReleased) })
	return own, volume
}

func isIn(ctx context.Context, cluster *env.Cluster, volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) error {
	err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(volume), volume)
	if err == nil && volume.Status.Phase != phase {
		err = fmt.Errorf("volume %s is %s", volume.Name, volume.Status.Phase)
	}
	return err
}

// A tenant who gets a namespace of a name that was used before can write whatever the tenant before could: names, labels and
// finalizers. None of it is a proof of having been there.
func TestAForgedPastGivesNobodyTheVolumeOfAPreviousTenant(t *testing.T) {
	cluster := suite.cluster
	forgeries := map[string]func(sv *v1alpha1.SharedVolume){
		"finalizer": func(sv *v1alpha1.SharedVolume) { sv.Finalizers = []string{communityFinalizer} },
		"labels": func(sv *v1alpha1.SharedVolume) {
			sv.Labels = map[string]string{
				env.CommunityLabel: "true",
				"openshift.io/aws-efs-operator-shared-volume-owner-namespace": sv.Namespace,
				"openshift.io/aws-efs-operator-shared-volume-owner-name":      sv.Name,
			}
			sv.Annotations = map[string]string{"aws-efs.managed.openshift.io/shared-volume": sv.Name}
		},
		"status": func(sv *v1alpha1.SharedVolume) {
			sv.Status = v1alpha1.SharedVolumeStatus{Phase: v1alpha1.Ready, ClaimRef: v1alpha1.ClaimReference{Kind: "PersistentVolumeClaim", Name: "pvc-data"}}
		},
		"claim": nil,
	}
	// All of it happens while no operator runs.
	forged, volumes := map[string]*v1alpha1.SharedVolume{}, map[string]*corev1.PersistentVolume{}
	for name := range forgeries {
		communityLeaves(t, cluster, "forged-"+name, "data")
	}
	for name, forge := range forgeries {
		forged[name], volumes[name] = forgedPast(t, cluster, name, forge)
	}
	operator := operate(t, cluster, alone)
	env.Eventually(t, "the operator works", operator.Started)
	for name, forge := range forgeries {
		if forge != nil {
			settles(t, cluster, forged[name])
		}
	}
	env.Quiet(t, operator)
	for name, volume := range volumes {
		t.Run(name, func(t *testing.T) {
			mountsOnly(t, cluster, forged[name])
			previous := volume.DeepCopy()
			env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(volume), previous))
			if previous.Spec.ClaimRef == nil || previous.Spec.ClaimRef.UID != volume.Spec.ClaimRef.UID {
				env.Broken(t, "the volume of the tenant before is for %v now", previous.Spec.ClaimRef)
			}
		})
	}
	isRefused(t, cluster)
}

// forgedPast is a SharedVolume by which a tenant wants the volume of the one before, and that volume.
func forgedPast(t *testing.T, cluster *env.Cluster, name string, forge func(*v1alpha1.SharedVolume)) (*v1alpha1.SharedVolume, *corev1.PersistentVolume) {
	t.Helper()
	namespace := "forged-" + name
	own, volume := leftByCommunity(t, cluster, namespace, "data")
	forged := next(namespace, "data")
	if forge != nil {
		forge(forged)
	} else {
		// Kubernetes itself refuses a PVC on the volume of a PVC that had another UID.
		_, _, pvc := env.CommunityVolume(namespace, "data", false)
		env.Must(t, own.Create(t.Context(), pvc))
	}
	if err := own.Create(t.Context(), forged); name == "finalizer" && apierrors.IsForbidden(err) {
		// Before the operator has run for the first time, no policy is in force.
		env.Must(t, cluster.Client.Create(t.Context(), forged))
	} else {
		env.Must(t, err)
	}
	if forged.Status.ClaimRef.Name != "" {
		t.Error("a tenant has written a status")
	}
	status := env.Merge(`{"status":{"phase":"Ready","claimRef":{"name":"pvc-data"}}}`)
	if err := own.Status().Patch(t.Context(), forged.DeepCopy(), status); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant writes a status: %v", err)
	}
	// What an older CRD or a generous role may have let in.
	if name == "status" {
		env.Must(t, cluster.Client.Status().Patch(t.Context(), forged.DeepCopy(), status))
	}
	return forged, volume
}

// isRefused checks that, once the operator has run, the API server refuses a new SharedVolume that says it is an old one.
func isRefused(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	own := tenant(t, cluster, "forger")
	env.Eventually(t, "a forged finalizer refused", func() error {
		forged := next("forger", "data")
		forged.Finalizers = []string{communityFinalizer}
		err := own.Create(t.Context(), forged, client.DryRunAll)
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("it is taken (%w)", err)
		}
		return nil
	})
}

// settles waits until the operator has come to a decision about a SharedVolume, whatever it is, and looks at it until then.
func settles(t *testing.T, cluster *env.Cluster, sv *v1alpha1.SharedVolume) {
	t.Helper()
	env.Eventually(t, "a decision about the forged SharedVolume", func() error {
		mountsOnly(t, cluster, sv)
		live := sv.DeepCopy()
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(sv), live); err != nil {
			return err
		}
		if live.Status.ObservedGeneration == 0 {
			return errors.New("it is " + string(live.Status.Phase))
		}
		return nil
	})
}

// "a" with "b-c" and "a-b" with "c" want volumes of the same name. The first has it, and nobody has what is another's.
func TestNamesThatMeetAreServedApart(t *testing.T) {
	cluster := suite.cluster
	first, second := tenant(t, cluster, "meet-me"), tenant(t, cluster, "meet")
	operator := operate(t, cluster, alone)
	env.Eventually(t, "the operator works", operator.Started)
	one, two := env.SharedVolume("meet-me", "here"), next("meet", "me-here")
	// Labels can say anything.
	two.Labels = map[string]string{
		env.CommunityLabel: "true",
		"openshift.io/aws-efs-operator-shared-volume-owner-namespace": one.Namespace,
		"openshift.io/aws-efs-operator-shared-volume-owner-name":      one.Name,
	}
	env.Must(t, first.Create(t.Context(), one))
	env.Eventually(t, "the first one Ready", func() error { return cluster.Ready(t.Context(), one) })
	volume, pvc := env.VolumeOf(one), env.PVCOf(one)
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	// A PVC that says it is the first one's, of the other tenant.
	forged := pvc.DeepCopy()
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: "meet", Name: pvc.Name, Labels: pvc.Labels, OwnerReferences: pvc.OwnerReferences}
	env.Must(t, second.Create(t.Context(), forged))
	env.Must(t, second.Create(t.Context(), two))
	env.Eventually(t, "the second one Ready", func() error {
		mountsOnly(t, cluster, two)
		return cluster.Ready(t.Context(), two)
	})
	env.Quiet(t, operator)
	mountsOnly(t, cluster, one)
	after := volume.DeepCopy()
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(volume), after))
	if after.ResourceVersion != volume.ResourceVersion {
		env.Broken(t, "the volume of the first one was changed: %v is now %v", volume.Spec, after.Spec)
	}
}
