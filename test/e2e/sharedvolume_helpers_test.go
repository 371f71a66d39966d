package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// share creates a SharedVolume. At the end of the test it has gone, with its PVC and volume; see unshare.
func share(t *testing.T, cluster *env.Cluster, namespace, name string) *v1alpha1.SharedVolume {
	t.Helper()
	sv := env.SharedVolume(namespace, name)
	env.Must(t, cluster.Client.Create(t.Context(), sv))
	t.Cleanup(func() { unshare(t, cluster, sv) })
	return sv
}

// unshare deletes a SharedVolume and waits until its PVC and volume have gone as well. The operator must be running.
func unshare(t *testing.T, cluster *env.Cluster, sv *v1alpha1.SharedVolume) {
	t.Helper()
	ctx := context.Background()
	live := sv.DeepCopy()
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(sv), live); err != nil {
		return
	}
	env.Scene{Cluster: cluster, T: t}.Drop(live)
	if err := env.Await(ctx, "SharedVolume "+sv.Name+" gone with all that is its", func() error {
		return errors.Join(cluster.Gone(ctx, live), cluster.PairGone(ctx, live))
	}); err != nil {
		t.Error(err)
	}
}

// namespace makes one until the test ends.
func namespace(t *testing.T, cluster *env.Cluster, name string, annotations map[string]string) *corev1.Namespace {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	env.Scene{Cluster: cluster, T: t}.Keep(object)
	return object
}

// application is a running pod that uses PVCs.
func application(t *testing.T, cluster *env.Cluster, namespace, name string, pvcs ...string) *corev1.Pod {
	t.Helper()
	pod := env.Application(namespace, name, "", pvcs...)
	t.Cleanup(func() { env.Scene{Cluster: cluster, T: t}.Drop(pod) })
	return cluster.RunPod(t, pod)
}

// as is a client of somebody else. With the group system:masters it has every right, else what RBAC gives.
func as(t *testing.T, cluster *env.Cluster, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	other, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	env.Must(t, err)
	return other
}

// edit changes a file system ID past the admission policy, as it was possible with an older CRD.
func edit(t *testing.T, cluster *env.Cluster, sv *v1alpha1.SharedVolume, id string) {
	t.Helper()
	patch := env.Merge(fmt.Sprintf(`{"spec":{"fileSystemID":%q}}`, id))
	env.Must(t, as(t, cluster, env.OperatorUser, "system:masters").Patch(t.Context(), sv.DeepCopy(), patch))
}

func patch(cluster *env.Cluster, object client.Object, fields string) error {
	return cluster.Client.Patch(context.Background(), object, env.Merge(fields))
}
