package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/test/env"
)

// runSharedVolumes runs the controller in the test, as no program does yet.
func runSharedVolumes(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	again := true
	manager, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &again},
	})
	env.Must(t, err)
	controller := &sharedvolume.Reconciler{Client: manager.GetClient(), Owner: env.OperatorName}
	env.Must(t, controller.SetupWithManager(manager))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// ready checks that a SharedVolume says Ready, and that its claim is bound to its volume.
func ready(ctx context.Context, cluster *env.Cluster, namespace, name string) error {
	sv := &v1alpha1.SharedVolume{}
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, sv); err != nil {
		return err
	}
	if sv.Status.Phase != v1alpha1.Ready {
		return fmt.Errorf("%s/%s is %s: %s", namespace, name, sv.Status.Phase, sv.Status.Message)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: sv.Status.ClaimRef.Name}, claim); err != nil {
		return err
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != sv.Status.VolumeName {
		return fmt.Errorf("claim %s is %s to %s, the status says %s", claim.Name, claim.Status.Phase, claim.Spec.VolumeName, sv.Status.VolumeName)
	}
	return nil
}

// share creates a SharedVolume; at the end it goes, and its volume, which outlives it so far.
func share(t *testing.T, cluster *env.Cluster, namespace, name string) {
	t.Helper()
	sv := sharedVolume(name, "fs-1234cdef", "fsap-0123456789abcdef")
	sv.SetNamespace(namespace)
	env.Eventually(t, "the SharedVolume created", func() error { return cluster.Client.Create(t.Context(), sv.DeepCopy()) })
	t.Cleanup(func() {
		live := &v1alpha1.SharedVolume{}
		_ = cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(sv), live)
		forceDelete(t, cluster, sv)
		// Kubernetes can't tell that an owner has gone once its kind has gone.
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: live.Status.ClaimRef.Name}}
		if err := env.Await(context.Background(), "claim gone", func() error { return cluster.Gone(context.Background(), claim) }); err != nil {
			t.Error(err)
		}
		forceDelete(t, cluster, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: live.Status.VolumeName}})
	})
}

func TestASharedVolumeBecomesABoundClaim(t *testing.T) {
	cluster := clean(t)
	serveSharedVolumes(t, cluster)
	env.Eventually(t, "the kind served", func() error {
		return cluster.Client.List(t.Context(), &v1alpha1.SharedVolumeList{})
	})
	for _, name := range []string{"a", "a-b"} {
		keep(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	runSharedVolumes(t, cluster)
	share(t, cluster, "default", "sv1")
	env.Eventually(t, "Ready", func() error { return ready(t.Context(), cluster, "default", "sv1") })
	table, err := cluster.Kubectl(t.Context(), "get", "sv", "sv1", "--no-headers")
	env.Must(t, err)
	if got := strings.Join(strings.Fields(table), " "); got != "sv1 fs-1234cdef fsap-0123456789abcdef Ready pvc-sv1" {
		t.Errorf("row %s", got)
	}
	// These two want one name for their volumes.
	share(t, cluster, "a", "b-c")
	env.Eventually(t, "Ready", func() error { return ready(t.Context(), cluster, "a", "b-c") })
	share(t, cluster, "a-b", "c")
	env.Eventually(t, "Ready", func() error {
		return errors.Join(ready(t.Context(), cluster, "a-b", "c"), ready(t.Context(), cluster, "a", "b-c"))
	})
	// A lost claim is made again and gets the volume back.
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pvc-sv1"}}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	lost := claim.UID
	env.Must(t, cluster.Client.Delete(t.Context(), claim))
	env.Eventually(t, "another claim bound", func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.UID == lost {
			return errors.New("it is still the old one")
		}
		return ready(t.Context(), cluster, "default", "sv1")
	})
	// An edit that a cluster without the policy lets through is put back.
	sv := &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sv1"}}
	env.Must(t, cluster.Client.Patch(t.Context(), sv, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"fileSystemID":"fs-76543210"}}`))))
	env.Eventually(t, "the edit undone", func() error {
		env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(sv), sv))
		if sv.Spec.FileSystemID != "fs-1234cdef" || sv.Status.ObservedGeneration != sv.Generation {
			return fmt.Errorf("it is %s, generation %d of %d", sv.Spec.FileSystemID, sv.Status.ObservedGeneration, sv.Generation)
		}
		return ready(t.Context(), cluster, "default", "sv1")
	})
}
