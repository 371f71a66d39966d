package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// What the community's manual walks its reader through, with two namespaces on one access point.
func theWalkThroughOfTheManual(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	namespace(t, cluster, "proj2", nil)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	first, second := share(t, cluster, "proj2", "sv1"), share(t, cluster, "default", "sv1")
	third := share(t, cluster, "default", "sv2")
	all := []*v1alpha1.SharedVolume{first, second, third}
	for _, sv := range all {
		env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	}
	env.Quiet(t, operator)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	writes := env.Filter(requests, func(r env.Request) bool {
		// An event about the driver may come late. What is there already, and only the cache has not shown yet, is refused.
		return r.IsWrite() && !strings.HasPrefix(r.Object.Name, "efs.csi.aws.com.") && r.Response.Code != http.StatusConflict
	})
	if len(writes) != 4*len(all) {
		t.Errorf("%d writes, want a PVC, a volume, a word to the PVC that it is there, and a status each:\n%s", len(writes), env.Describe(writes))
	}
	reads := env.Filter(requests, func(r env.Request) bool {
		return r.Verb == "get" && strings.HasPrefix(r.Object.Resource, "persistentvolume")
	})
	// After a refused creation, the operator reads what is there.
	refused := env.Filter(requests, func(r env.Request) bool { return r.Verb == "create" && r.Response.Code == http.StatusConflict })
	if len(reads) > 0 && len(refused) == 0 {
		t.Errorf("%d reads, and a new SharedVolume needs none. All requests:\n%s", len(reads), env.Describe(requests))
	}
	row := func(namespace string, arguments ...string) string {
		t.Helper()
		table, err := cluster.Kubectl(t.Context(), append([]string{"-n", namespace, "get", "--no-headers"}, arguments...)...)
		env.Must(t, err)
		return strings.Join(strings.Fields(table), " ")
	}
	if got := row("proj2", "sv", "sv1"); got != "sv1 fs-1234cdef fsap-0123456789abcdef Ready pvc-sv1" {
		t.Errorf("SharedVolume: %s", got)
	}
	if got := row("proj2", "pvc", "pvc-sv1"); !strings.HasPrefix(got, "pvc-sv1 Bound "+first.Status.VolumeName+" 1Gi RWX efs-sc ") {
		t.Errorf("PVC: %s", got)
	}
	// Pods of one namespace share a PVC, one pod uses several, another namespace the same access point.
	application(t, cluster, "proj2", "one", "pvc-sv1")
	pod := application(t, cluster, "default", "two", "pvc-sv1", "pvc-sv2")
	application(t, cluster, "default", "three", "pvc-sv1")

	// Cleaning up: pods first, then the SharedVolume; the rest goes by itself.
	env.Must(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	unshare(t, cluster, third.DeepCopy())
	env.Must(t, cluster.Ready(t.Context(), second))
}

func aSharedVolumeThatIsDeletedUnderAPodEndsWithThePod(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	old := share(t, cluster, "default", "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), old) })
	pvc := env.PVCOf(old)
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	pod := application(t, cluster, "default", "app", "pvc-sv1")
	env.Must(t, cluster.Client.Delete(t.Context(), old))
	env.Eventually(t, "the SharedVolume gone", func() error { return cluster.Gone(t.Context(), old.DeepCopy()) })
	// Another one of the same name must not get the PVC that is on its way out.
	next := share(t, cluster, "default", "sv1")
	env.Eventually(t, "the next one waits", func() error {
		if err := cluster.Phase(t.Context(), next, v1alpha1.Pending); err != nil || !strings.Contains(next.Status.Message, "deleted SharedVolume") {
			return fmt.Errorf("%w %q", err, next.Status.Message)
		}
		return nil
	})
	env.Must(t, cluster.Running(t.Context(), pod))
	env.Must(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), next) })
	env.Eventually(t, "the previous pair gone", func() error { return cluster.PairGone(t.Context(), old) })
}

func namesThatCollideOrAreTooLong(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	namespace(t, cluster, "a", nil)
	namespace(t, cluster, "a-b", nil)
	long := strings.Repeat("n", 253)
	all := []*v1alpha1.SharedVolume{
		share(t, cluster, "a", "b-c"), share(t, cluster, "a-b", "c"), share(t, cluster, "a", long), share(t, cluster, "a-b", long[:252]),
	}
	seen := map[string]bool{}
	for _, sv := range all {
		env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
		if seen[sv.Status.VolumeName] {
			env.Broken(t, "two SharedVolumes have volume %s", sv.Status.VolumeName)
		}
		seen[sv.Status.VolumeName] = true
	}
	// The deletion of one must not touch the other's.
	unshare(t, cluster, all[0].DeepCopy())
	env.Must(t, cluster.Ready(t.Context(), all[1]))
}

// Volumes and PVCs of others stay theirs, and nobody gets ours.
func nothingIsStolen(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	namespace(t, cluster, "thief", nil)
	volume, pvc, _ := env.Workload()
	volume.Name = "pv-default-sv1"
	env.Scene{Cluster: cluster, T: t}.Keep(volume)
	// It has the name of a PVC of ours, and asks for the volume that ours would have had up to 5.2.
	pvc.Name, pvc.Spec.VolumeName = "pvc-taken", "pv-default-taken"
	env.Scene{Cluster: cluster, T: t}.Keep(pvc)

	sv := share(t, cluster, "default", "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	if sv.Status.VolumeName == volume.Name {
		env.Broken(t, "the volume of somebody else was used")
	}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
	if volume.Labels != nil || volume.Annotations["aws-efs.managed.openshift.io/shared-volume-uid"] != "" {
		env.Broken(t, "the volume of somebody else was changed: %v %v", volume.Labels, volume.Annotations)
	}
	wanted := share(t, cluster, "default", "sv2")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), wanted) })
	// It asks for a volume of ours from another namespace.
	_, stolen, _ := env.Workload()
	stolen.Namespace, stolen.Spec.VolumeName = "thief", wanted.Status.VolumeName
	env.Scene{Cluster: cluster, T: t}.Keep(stolen)
	taken := share(t, cluster, "default", "taken")
	env.Eventually(t, "Failed", func() error { return cluster.Phase(t.Context(), taken, v1alpha1.Failed) })
	if !strings.Contains(taken.Status.Message, "PersistentVolumeClaim pvc-taken has another owner") {
		t.Errorf("message %q", taken.Status.Message)
	}
	// What came later is bound: so the first ones have been looked at.
	later := share(t, cluster, "thief", "later")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), later) })
	for _, theirs := range []*corev1.PersistentVolumeClaim{stolen, pvc} {
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
		if theirs.Status.Phase == corev1.ClaimBound {
			t.Errorf("PVC %s/%s of somebody else got our volume", theirs.Namespace, theirs.Name)
		}
	}
	// It recovers by itself when the cause has gone.
	env.Scene{Cluster: cluster, T: t}.Drop(pvc)
	env.Must(t, env.AwaitFor(t.Context(), 2*time.Minute, "Ready", func() error { return cluster.Ready(t.Context(), taken) }))
}

func aDamagedPairIsMadeWholeAgain(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	sv := share(t, cluster, "default", "sv1")
	whole := func() error { return cluster.Ready(t.Context(), sv) }
	env.Eventually(t, "Ready", whole)
	damage := func(what string, object client.Object, change func() error) {
		t.Helper()
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		before := object.GetUID()
		env.Must(t, change())
		env.Eventually(t, what, func() error {
			if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if object.GetUID() == before && strings.HasPrefix(what, "another") {
				return errors.New("it is still the old one")
			}
			return whole()
		})
	}
	pvc, volume := env.PVCOf(sv), env.VolumeOf(sv)
	damage("another PVC", pvc, func() error { return cluster.Client.Delete(t.Context(), pvc) })
	damage("another volume", volume, func() error { return cluster.Client.Delete(t.Context(), volume) })
	// A PersistentVolume that is deleted by force is made again for the PVC that is there, and its pods go on.
	pod := application(t, cluster, "default", "app", pvc.Name)
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	used := pvc.UID
	damage("another volume under a pod", volume, func() error {
		return errors.Join(cluster.Client.Delete(t.Context(), volume), patch(cluster, volume, `{"metadata":{"finalizers":null}}`))
	})
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
	if pvc.UID != used {
		t.Error("the PVC was replaced under a pod")
	}
	env.Must(t, cluster.Running(t.Context(), pod))
	// A volume that does not know its PVC any more would make Kubernetes give the PVC up.
	for _, ref := range []string{`null`, `{"uid":null}`} {
		damage("a PVC reference", volume, func() error { return patch(cluster, volume, `{"spec":{"claimRef":`+ref+`}}`) })
	}
	// Deleted politely, it waits for the pod, and the message says so.
	env.Must(t, cluster.Client.Delete(t.Context(), volume))
	env.Eventually(t, "the message", func() error {
		if err := cluster.Phase(t.Context(), sv, v1alpha1.Failed); err != nil {
			return err
		}
		if !strings.Contains(sv.Status.Message, "pods use it: app") {
			return errors.New(sv.Status.Message)
		}
		return nil
	})
	env.Must(t, cluster.Running(t.Context(), pod))
	env.Must(t, cluster.Client.Delete(t.Context(), pvc))
	env.Must(t, cluster.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.Eventually(t, "both made again", whole)
	// Marks that others remove come back, and so does what keeps the data.
	for _, field := range []string{"labels", "ownerReferences"} {
		damage(field, pvc, func() error { return patch(cluster, pvc, `{"metadata":{"`+field+`":null}}`) })
		env.Eventually(t, field+" put back", func() error {
			env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
			if len(pvc.Labels) != 3 || len(pvc.OwnerReferences) != 1 {
				return fmt.Errorf("PVC %v %v", pvc.Labels, pvc.OwnerReferences)
			}
			return nil
		})
	}
	damage("labels", volume, func() error {
		return patch(cluster, volume, `{"metadata":{"labels":null},"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	})
	env.Eventually(t, "marks and policy put back", func() error {
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(volume), volume))
		if len(volume.Labels) != 3 || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			return fmt.Errorf("volume %v %s", volume.Labels, volume.Spec.PersistentVolumeReclaimPolicy)
		}
		return whole()
	})
}

func anEditThatAnOlderCRDLetThroughIsUndone(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	sv := share(t, cluster, "default", "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	generation := sv.Generation
	edit(t, cluster, sv, "fs-76543210")
	env.Eventually(t, "the edit undone", func() error {
		if err := cluster.Ready(t.Context(), sv); err != nil {
			return err
		}
		if sv.Spec.FileSystemID != env.FileSystem || sv.Generation == generation {
			return fmt.Errorf("%s, generation %d after %d", sv.Spec.FileSystemID, sv.Generation, generation)
		}
		return nil
	})
	env.Eventually(t, "an event that says so", func() error { return cluster.HasEvent(t.Context(), sv, "IDsRestored", "restored") })
}

// A namespace goes with all its SharedVolumes, and their volumes go with it.
func aNamespaceWithSharedVolumesIsDeleted(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "project"}}
	env.Must(t, cluster.Client.Create(t.Context(), project))
	var all []*v1alpha1.SharedVolume
	for i := range 5 {
		sv := env.SharedVolume(project.Name, fmt.Sprintf("sv%d", i))
		env.Must(t, cluster.Client.Create(t.Context(), sv))
		all = append(all, sv)
	}
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), all[0]) })
	// The others may still be on their way.
	env.Must(t, cluster.Client.Delete(t.Context(), project))
	env.Eventually(t, "the namespace gone", func() error { return cluster.Gone(t.Context(), project) })
	for _, sv := range all {
		env.Eventually(t, "nothing left", func() error { return cluster.PairGone(t.Context(), sv) })
	}
}
