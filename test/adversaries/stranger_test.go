package adversaries

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/test/env"
)

// volumeLabel is on all volumes of SharedVolumes.
const volumeLabel = "openshift.io/aws-efs-operator-owned"

// guard watches all volumes of SharedVolumes from now on: none is ever open to any PVC of its name, or for one of a stranger.
type guard struct {
	mutex     sync.Mutex
	strangers map[types.UID]bool
	problems  []string
	seen      int
}

func watchVolumes(t *testing.T, cluster *env.Cluster) *guard {
	t.Helper()
	g := &guard{strangers: map[types.UID]bool{}}
	volumes := &corev1.PersistentVolumeList{}
	stream, err := cluster.Client.Watch(t.Context(), volumes, client.MatchingLabels{volumeLabel: "true"})
	env.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			if volume, ok := event.Object.(*corev1.PersistentVolume); ok && event.Type != watch.Deleted {
				g.look(volume)
			}
		}
	}()
	t.Cleanup(func() {
		stream.Stop()
		<-done
		g.mutex.Lock()
		defer g.mutex.Unlock()
		if len(g.problems) > 0 {
			env.Broken(t, "%d problems, the first: %s", len(g.problems), g.problems[0])
		}
		if g.seen == 0 {
			t.Error("no volume was seen")
		}
	})
	return g
}

func (g *guard) look(volume *corev1.PersistentVolume) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.seen++
	switch ref := volume.Spec.ClaimRef; {
	case ref == nil || ref.UID == "":
		g.problems = append(g.problems, fmt.Sprintf("volume %s is open to any PVC of the name that it has", volume.Name))
	case g.strangers[ref.UID]:
		g.problems = append(g.problems, fmt.Sprintf("volume %s is for a PVC of a stranger", volume.Name))
	}
}

// namedPVC is the PVC of a SharedVolume, which may not be served yet.
func namedPVC(sv *v1alpha1.SharedVolume) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: sv.Namespace, Name: "pvc-" + sv.Name}}
}

// squat makes a PVC with the name of that of a SharedVolume, for its volume, with all that a tenant can forge.
func (g *guard) squat(ctx context.Context, as client.Client, sv *v1alpha1.SharedVolume, forged bool) (*corev1.PersistentVolumeClaim, error) {
	pvc := namedPVC(sv)
	class := "efs-sc"
	pvc.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: &class, VolumeName: sv.Status.VolumeName,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	if forged {
		pvc.Labels = map[string]string{
			volumeLabel: "true",
			"openshift.io/aws-efs-operator-shared-volume-owner-namespace": sv.Namespace,
			"openshift.io/aws-efs-operator-shared-volume-owner-name":      sv.Name,
		}
	}
	// A volume may be for it before the answer is here.
	g.mutex.Lock()
	defer g.mutex.Unlock()
	err := as.Create(ctx, pvc)
	if err == nil {
		g.strangers[pvc.UID] = true
	}
	return pvc, err
}

// A tenant who gets a namespace of a name that was used before asks for the volume of the tenant before, whatever happens to the operator
// meanwhile.
func TestAVolumeOfATenantBeforeIsForNobody(t *testing.T) {
	cluster := suite.cluster
	for name, tc := range map[string]struct {
		// disturb begins before the namespace goes; the operator may end.
		disturb func(t *testing.T, through *env.Proxy, operator *env.Operator)
		// ends says that the disturbance ends the operator, sooner or later.
		ends bool
		// asks says that the new tenant makes a SharedVolume as well, which is refused.
		asks bool
		// soak leaves it to make soak: the test below kills as well.
		soak bool
	}{
		"killed": {ends: true, soak: true, disturb: func(_ *testing.T, through *env.Proxy, operator *env.Operator) {
			through.KillAt(func(r *http.Request) bool { return env.IsWrite(r) && strings.Contains(r.URL.Path, "/persistentvolume") }, 1, true, operator.Kill)
		}},
		"blind": {disturb: func(_ *testing.T, through *env.Proxy, _ *env.Operator) {
			through.Set(func(r *http.Request) env.Fault {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/sharedvolumes") {
					return nil
				}
				return func(w http.ResponseWriter, _ func(http.ResponseWriter)) { w.WriteHeader(http.StatusServiceUnavailable) }
			})
			through.Disconnect()
		}},
		"refused": {asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.soak {
				env.OnlySoak(t)
			}
			namespace := "former-" + name
			own := tenant(t, cluster, namespace)
			through, guard := env.NewProxy(t, cluster), watchVolumes(t, cluster)
			work := func() *env.Operator {
				return operate(t, cluster, alone, "--kubeconfig", through.Kubeconfig(t, cluster, env.OperatorNamespace))
			}
			operator := work()
			sv := env.SharedVolume(namespace, "data")
			env.Must(t, own.Create(t.Context(), sv))
			env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
			if tc.disturb != nil {
				tc.disturb(t, through, operator)
			}
			// The PVC goes before the SharedVolume, as it may in the end of a namespace.
			env.Must(t, own.Delete(t.Context(), env.PVCOf(sv)))
			next := remade(t, cluster, namespace)
			pvc, err := guard.squat(t.Context(), next, sv, true)
			env.Must(t, err)
			if tc.asks {
				_, err := cluster.Kubectl(t.Context(), "annotate", "namespace", namespace, efs.AllowedAnnotation+"=")
				env.Must(t, err)
				if err := next.Create(t.Context(), env.SharedVolume(namespace, "data")); !apierrors.IsForbidden(err) {
					t.Errorf("a SharedVolume that the namespace may not have: %v", err)
				}
			}
			if tc.ends {
				<-operator.Done()
				through.Set(nil)
				operator = work()
			}
			env.Quiet(t, operator)
			through.Set(nil)
			through.Disconnect()
			env.Eventually(t, "the volume of the tenant before is gone", func() error { return cluster.Gone(t.Context(), env.VolumeOf(sv)) })
			env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
			if pvc.Status.Phase != corev1.ClaimPending && pvc.Status.Phase != corev1.ClaimLost {
				env.Broken(t, "the PVC of the next tenant is %s to %s", pvc.Status.Phase, pvc.Spec.VolumeName)
			}
			env.Must(t, operator.Stop())
		})
	}
}

// fewSchedules and allSchedules are how many SharedVolumes go through a random order of deletions, creations and kills beside Kubernetes' own
// binder, and fewKills how often the operator is killed meanwhile. Make soak has all.
const (
	fewSchedules, allSchedules = 24, 300
	fewKills                   = 3
)

func TestKubernetesBindsNoVolumeToAStrangerInAnyOrder(t *testing.T) {
	count, most := fewSchedules, fewKills
	if env.IsSoak(t) {
		count, most = allSchedules, allSchedules
	}
	cluster := *suite.cluster
	cluster.Operator = env.OperatorName
	own := tenant(t, &cluster, "orders")
	through, guard := env.NewProxy(t, &cluster), watchVolumes(t, &cluster)
	config := through.Kubeconfig(t, &cluster, env.OperatorNamespace)
	dice := env.Dice(t)
	seeds := make([]uint64, count)
	for i := range seeds {
		seeds[i] = dice.Uint64()
	}
	operator := operate(t, &cluster, alone, "--kubeconfig", config)
	ended := make(chan error)
	go func() {
		ended <- each(count, func(number int) error {
			return guard.schedule(t.Context(), &cluster, own, rand.New(rand.NewPCG(1, seeds[number])), fmt.Sprintf("data-%d", number))
		})
	}()
	kills := 0
	for running := true; running; {
		if kills < most {
			through.KillAt(env.IsWrite, 1+dice.IntN(2*count), dice.IntN(2) == 1, operator.Kill)
		} else {
			through.Set(nil)
		}
		select {
		case err := <-ended:
			env.Must(t, err)
			running = false
		case <-operator.Done():
			kills++
			operator = operate(t, &cluster, alone, "--kubeconfig", config)
		}
	}
	through.Set(nil)
	t.Logf("%d schedules, %d kills, %d states of volumes, %d PVCs of strangers", count, kills, guard.seen, len(guard.strangers))
	if len(guard.strangers) == 0 {
		t.Error("nothing is shown: there was no PVC of a stranger")
	}
}

// schedule lets a SharedVolume and its PVC come and go in one order.
func (g *guard) schedule(ctx context.Context, cluster *env.Cluster, own client.Client, random *rand.Rand, name string) error {
	sv := env.SharedVolume("orders", name)
	for range 8 {
		var err error
		switch random.IntN(5) {
		case 0, 1:
			again := env.SharedVolume("orders", name)
			if err = client.IgnoreAlreadyExists(own.Create(ctx, again)); err == nil && random.IntN(2) == 1 {
				err = env.AwaitFor(ctx, patience, name+" served or in the way of a stranger", func() error { return g.decided(ctx, cluster, again) })
			}
			if again.Status.VolumeName != "" {
				sv = again
			}
		case 2:
			err = client.IgnoreNotFound(own.Delete(ctx, namedPVC(sv)))
		case 3:
			how := metav1.DeletePropagationOrphan
			if random.IntN(2) == 1 {
				how = metav1.DeletePropagationBackground
			}
			err = client.IgnoreNotFound(own.Delete(ctx, env.SharedVolume("orders", name), client.PropagationPolicy(how)))
		default:
			if sv.Status.VolumeName != "" {
				err = g.replace(ctx, own, sv)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// replace ends a SharedVolume, and makes a PVC of a stranger as soon as its own has gone.
func (g *guard) replace(ctx context.Context, own client.Client, sv *v1alpha1.SharedVolume) error {
	gone := env.SharedVolume(sv.Namespace, sv.Name)
	if err := client.IgnoreNotFound(own.Delete(ctx, gone, client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
		return err
	}
	if err := client.IgnoreNotFound(own.Delete(ctx, namedPVC(sv))); err != nil {
		return err
	}
	return env.AwaitFor(ctx, patience, "the name of "+sv.Name+" free", func() error {
		_, err := g.squat(ctx, own, sv, false)
		return err
	})
}

// decided waits until a SharedVolume is Ready or says why not.
func (g *guard) decided(ctx context.Context, cluster *env.Cluster, sv *v1alpha1.SharedVolume) error {
	err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(sv), sv)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil && sv.Status.Phase != v1alpha1.Ready && sv.Status.Phase != v1alpha1.Failed && sv.Status.Message == "" {
		err = errors.New(string(sv.Status.Phase))
	}
	return err
}
