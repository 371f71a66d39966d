package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// pairs are the volumes and PVCs of all SharedVolumes, whether these exist or not.
func pairs(ctx context.Context, cluster *env.Cluster) (volumes, pvcs int, err error) {
	owned := client.MatchingLabels{"openshift.io/aws-efs-operator-owned": "true"}
	volumeList, pvcList := &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}
	err = errors.Join(cluster.Client.List(ctx, volumeList, owned), cluster.Client.List(ctx, pvcList, owned))
	return len(volumeList.Items), len(pvcList.Items), err
}

// settled checks that as many SharedVolumes are Ready as there shall be, each with one volume and one PVC, and that nothing is
// left of others.
func settled(ctx context.Context, cluster *env.Cluster, want int) error {
	list := &v1alpha1.SharedVolumeList{}
	if err := cluster.Client.List(ctx, list); err != nil {
		return err
	}
	isReady, waits := 0, ""
	for i := range list.Items {
		if state := list.Items[i].Status; state.Phase == v1alpha1.Ready {
			isReady++
		} else {
			waits = fmt.Sprintf("%s is %q: %s", list.Items[i].Name, state.Phase, state.Message)
		}
	}
	volumes, pvcs, err := pairs(ctx, cluster)
	if err == nil && (len(list.Items) != want || isReady != want || volumes != want || pvcs != want) {
		err = fmt.Errorf("%d SharedVolumes, %d of them Ready, %d volumes and %d PVCs, want %d of each; %s",
			len(list.Items), isReady, volumes, pvcs, want, waits)
	}
	return err
}

// The operator is killed at a random request while SharedVolumes are created or deleted, and another one has to finish. The
// controller's test of the same name kills it at every write, on lists of objects.
func TestAKilledOperatorLeavesNoSharedVolumeHalfDone(t *testing.T) {
	env.OnlySoak(t)
	cluster := own(t)
	through := env.NewProxy(t, cluster)
	random := env.Dice(t)
	const each = 4
	all := make([]client.Object, each)
	for i := range all {
		all[i] = env.SharedVolume("default", fmt.Sprintf("sv%d", i))
	}
	operator := operate(t, cluster, through, alone)
	for round := range env.Rounds(t) / 2 {
		creates := round%2 == 0
		// A creation takes four writes and a deletion three requests each, plus what goes wrong.
		n, arrives, want := 1+random.IntN(3*each), random.IntN(2) == 1, 0
		if creates {
			want = each
		}
		t.Logf("round %d: creates %t, killed at request %d, which arrives %t", round+1, creates, n, arrives)
		env.Eventually(t, "the operator works", operator.Started)
		through.KillAt(ofSharedVolumes, n, arrives, operator.Kill)
		for _, sv := range all {
			if creates {
				env.Must(t, cluster.Client.Create(t.Context(), sv.(*v1alpha1.SharedVolume).DeepCopy())) //nolint:forcetypeassert // Made above.
			} else {
				env.Must(t, cluster.Client.Delete(t.Context(), sv))
			}
		}
		env.Eventually(t, "the operator killed, or done before that", func() error {
			select {
			case <-operator.Done():
				return nil
			default:
				return settled(t.Context(), cluster, want)
			}
		})
		operator.Kill()
		through.Set(nil)
		operator = operate(t, cluster, through, alone)
		env.Eventually(t, "finished by the next operator", func() error { return settled(t.Context(), cluster, want) })
	}
	for _, sv := range all {
		env.Must(t, client.IgnoreNotFound(cluster.Client.Delete(t.Context(), sv)))
	}
	env.Eventually(t, "nothing left", func() error { return settled(t.Context(), cluster, 0) })
}

// ofSharedVolumes is true for work on them, their volumes and their PVCs.
func ofSharedVolumes(r *http.Request) bool {
	return env.IsWork(r) && (strings.Contains(r.URL.Path, "/sharedvolumes") || strings.Contains(r.URL.Path, "/persistentvolume"))
}

// Many are created, and every second one deleted at once, while the API server goes and comes back; then the rest. Make soak has a thousand.
func TestManySharedVolumesOutliveAnOutage(t *testing.T) {
	env.OnlySoak(t)
	count := 120
	if env.IsSoak(t) {
		count = 1000
	}
	cluster := own(t)
	operator := operate(t, cluster, nil, alone)
	env.Eventually(t, "the operator works", operator.Started)
	restart := func() {
		env.Must(t, cluster.StopComponent(t.Context(), "kube-apiserver"))
		env.Must(t, cluster.StartComponent(t.Context(), "kube-apiserver"))
	}
	work := func(what func(number int) error) {
		numbers, outage := make(chan int), make(chan struct{})
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				for number := range numbers {
					if err := env.Await(t.Context(), "request", func() error { return what(number) }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for number := range count {
			if number == count/3 {
				go func() {
					defer close(outage)
					restart()
				}()
			}
			numbers <- number
		}
		close(numbers)
		group.Wait()
		<-outage
	}
	sv := func(number int) *v1alpha1.SharedVolume {
		return env.SharedVolume("default", fmt.Sprintf("sv%d", number))
	}
	remove := func(number int) error { return client.IgnoreNotFound(cluster.Client.Delete(t.Context(), sv(number))) }
	work(func(number int) error {
		if err := cluster.Client.Create(t.Context(), sv(number)); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if number%2 == 1 {
			return remove(number)
		}
		return nil
	})
	env.Must(t, env.AwaitFor(t.Context(), 5*time.Minute, "half of them Ready, and nothing of the others", func() error {
		return settled(t.Context(), cluster, count/2)
	}))
	work(remove)
	env.Must(t, env.AwaitFor(t.Context(), 5*time.Minute, "nothing left", func() error { return settled(t.Context(), cluster, 0) }))
	select {
	case <-operator.Done():
		t.Error("the operator has ended")
	default:
	}
}

// Nothing that a user deletes waits for an operator that is away. What is left is swept when it comes back.
func TestDeletionNeverWaitsForTheOperator(t *testing.T) {
	cluster := pool.Lend(t)
	// The CRD is another one at the end.
	cluster.Changed()
	const name = "sharedvolumes.aws-efs.managed.openshift.io"
	_, err := cluster.Kubectl(t.Context(), "delete", "crd", name)
	env.Must(t, err)
	// The operator is there before the CRD.
	operator := operate(t, cluster, nil, alone)
	env.Eventually(t, "the operator works", operator.Started)
	env.Must(t, cluster.InstallManifests(t.Context()))
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "project"}}
	env.Must(t, cluster.Client.Create(t.Context(), project))
	env.Eventually(t, "SharedVolumes served and created", func() error {
		// The operator decides when it sees the CRD, which may have been before.
		if err := cluster.SharedVolumesServedBefore(t.Context()); err != nil {
			return err
		}
		for _, sv := range []*v1alpha1.SharedVolume{env.SharedVolume("project", "sv1"), env.SharedVolume("default", "sv2"), env.SharedVolume("default", "sv3")} {
			if err := cluster.Client.Create(t.Context(), sv); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return settled(t.Context(), cluster, 3)
	})
	collectorKnows(t, cluster)
	env.Must(t, operator.Stop())
	env.Must(t, errors.Join(cluster.Client.Delete(t.Context(), project), cluster.Client.Delete(t.Context(), env.SharedVolume("default", "sv2"))))
	env.Eventually(t, "the namespace gone without an operator", func() error { return cluster.Gone(t.Context(), project) })
	env.Eventually(t, "PVCs gone without an operator", func() error {
		if _, pvcs, err := pairs(t.Context(), cluster); err != nil || pvcs != 1 {
			return fmt.Errorf("%d PVCs (%w)", pvcs, err)
		}
		return nil
	})
	operate(t, cluster, nil, alone)
	env.Eventually(t, "volumes swept", func() error { return settled(t.Context(), cluster, 1) })
	// The CRD goes with all SharedVolumes and with the policies, and comes back.
	_, err = cluster.Kubectl(t.Context(), "delete", "crd", name)
	env.Must(t, err)
	env.Eventually(t, "nothing left of SharedVolumes", func() error {
		volumes, pvcs, err := pairs(t.Context(), cluster)
		if err == nil && volumes+pvcs > 0 {
			err = fmt.Errorf("%d volumes, %d PVCs", volumes, pvcs)
		}
		policies, listing := cluster.Kubectl(t.Context(), "get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name")
		if strings.Contains(policies, name) {
			err = errors.Join(err, errors.New("left: "+policies))
		}
		return errors.Join(err, listing)
	})
	env.Must(t, cluster.InstallManifests(t.Context()))
	env.Eventually(t, "SharedVolumes served again", func() error {
		// The operator decides when it sees the CRD, which may have been before.
		if err := cluster.SharedVolumesServedBefore(t.Context()); err != nil {
			return err
		}
		if err := cluster.Client.Create(t.Context(), env.SharedVolume("default", "again")); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return settled(t.Context(), cluster, 1)
	})
	collectorKnows(t, cluster)
	env.Must(t, cluster.Client.Delete(t.Context(), env.SharedVolume("default", "again")))
	env.Eventually(t, "nothing left", func() error { return settled(t.Context(), cluster, 0) })
}

// collectorKnows waits until Kubernetes' garbage collector has noticed that there are SharedVolumes. It looks for new kinds twice a minute, and
// tries what it did not know at growing intervals.
func collectorKnows(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	probe := env.SharedVolume("default", "probe")
	env.Must(t, cluster.Client.Create(t.Context(), probe))
	marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: "SharedVolume", Name: probe.Name, UID: probe.UID,
	}}}}
	env.Must(t, cluster.Client.Create(t.Context(), marker))
	env.Must(t, cluster.Client.Delete(t.Context(), probe))
	env.Must(t, env.AwaitFor(t.Context(), 5*time.Minute, "what a SharedVolume owned collected", func() error {
		return errors.Join(cluster.Gone(t.Context(), marker), cluster.PairGone(t.Context(), probe))
	}))
}

// What the API server refuses is reported with what to do, and made as soon as it is allowed.
func TestRefusedPairsAreReportedAndMadeLater(t *testing.T) {
	cluster := own(t)
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "project"}}
	env.Must(t, cluster.Client.Create(t.Context(), project))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "project", Name: "storage"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: resource.MustParse("0")}
	env.Must(t, cluster.Client.Create(t.Context(), quota))
	env.Eventually(t, "the quota in force", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Hard) == 0 {
			return fmt.Errorf("not yet (%w)", err)
		}
		return nil
	})
	operator := operate(t, cluster, nil, alone)
	env.Eventually(t, "the operator works", operator.Started)
	limited, bare := env.SharedVolume("project", "sv1"), env.SharedVolume("default", "sv1")
	env.Must(t, cluster.Client.Create(t.Context(), limited))
	failed := func(sv *v1alpha1.SharedVolume, reason, text string) {
		t.Helper()
		env.Eventually(t, "the message", func() error {
			if err := cluster.Phase(t.Context(), sv, v1alpha1.Failed); err != nil {
				return err
			}
			if !strings.Contains(sv.Status.Message, text) || !strings.Contains(fmt.Sprint(sv.Status.Conditions), reason) {
				return errors.New(sv.Status.Message)
			}
			return nil
		})
	}
	failed(limited, "QuotaExceeded", "ask for a larger quota")
	// A quota of PVCs bounds volumes as well.
	env.Eventually(t, "no volume left of a PVC that was refused", func() error {
		if volumes, pvcs, err := pairs(t.Context(), cluster); err != nil || volumes+pvcs > 0 {
			return fmt.Errorf("%d volumes, %d PVCs (%w)", volumes, pvcs, err)
		}
		return nil
	})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: env.OperatorName}}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(role), role))
	for i, rule := range role.Rules {
		if strings.Contains(fmt.Sprint(rule.Resources), "persistentvolumeclaims") {
			role.Rules[i].Verbs = []string{"get", "list", "watch"}
		}
	}
	env.Must(t, cluster.Client.Update(t.Context(), role))
	env.Eventually(t, "a SharedVolume refused for lack of RBAC", func() error {
		// The API server takes a moment to believe it.
		_ = client.IgnoreNotFound(cluster.Client.Delete(t.Context(), bare.DeepCopy()))
		if err := cluster.Client.Create(t.Context(), env.SharedVolume("default", "sv1")); err != nil {
			return err
		}
		return env.AwaitFor(t.Context(), 3*time.Second, "Failed", func() error { return cluster.Phase(t.Context(), bare, v1alpha1.Failed) })
	})
	failed(bare, "Forbidden", "ask a cluster administrator to allow this")
	// Both causes go.
	env.Must(t, cluster.InstallManifests(t.Context()))
	quota.Spec.Hard[corev1.ResourcePersistentVolumeClaims] = resource.MustParse("5")
	env.Must(t, cluster.Client.Update(t.Context(), quota))
	env.Must(t, env.AwaitFor(t.Context(), 3*time.Minute, "both Ready", func() error {
		return errors.Join(cluster.Ready(t.Context(), limited), cluster.Ready(t.Context(), bare))
	}))
	env.Must(t, errors.Join(cluster.Client.Delete(t.Context(), project), cluster.Client.Delete(t.Context(), bare)))
	env.Eventually(t, "nothing left", func() error {
		return errors.Join(settled(t.Context(), cluster, 0), cluster.Gone(t.Context(), project))
	})
}
