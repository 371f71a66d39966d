package adversaries

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/test/env"
)

// mostCreations bounds what the operator makes in the namespace after etcd was set back: a volume and a PVC for each of three
// SharedVolumes, and each once more for what its cache showed too long.
const mostCreations = 12

// etcd is set back to a snapshot, and the operator goes on running. What it has written since then is not there, what it has deleted is,
// and objects have older resource versions than it remembers.
func TestAnOperatorOutlivesThatEtcdIsSetBack(t *testing.T) {
	cluster := suite.cluster
	own := tenant(t, cluster, "restored")
	operator := operate(t, cluster)
	env.Eventually(t, "the operator works", operator.Started)
	install(t, cluster)
	kept, gone := env.SharedVolume("restored", "kept"), env.SharedVolume("restored", "gone")
	for _, sv := range []client.Object{kept, gone} {
		env.Must(t, own.Create(t.Context(), sv))
	}
	env.Eventually(t, "both Ready", func() error {
		return errors.Join(cluster.Ready(t.Context(), kept), cluster.Ready(t.Context(), gone))
	})
	env.Quiet(t, operator)
	want := contents(t, cluster)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	env.Must(t, cluster.SaveSnapshot(t.Context(), snapshot))

	// One goes, one comes, one loses its PVC, and the driver changes. Then nothing of that has been.
	env.Eventually(t, "one deleted", func() error { return client.IgnoreNotFound(own.Delete(t.Context(), gone.DeepCopy())) })
	env.Eventually(t, "its pair gone", func() error { return cluster.PairGone(t.Context(), gone) })
	late := env.SharedVolume("restored", "late")
	env.Must(t, own.Create(t.Context(), late))
	before := env.PVCOf(kept)
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(before), before))
	env.Must(t, own.Delete(t.Context(), before.DeepCopy()))
	level := env.Merge(`{"spec":{"logLevel":"Trace"}}`)
	env.Must(t, cluster.Client.Patch(t.Context(), env.EFS(""), level))
	env.Eventually(t, "all as it was asked for since then", func() error {
		pvc := env.PVCOf(kept)
		err := errors.Join(cluster.Ready(t.Context(), late), cluster.Ready(t.Context(), kept), cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc))
		if err == nil && pvc.UID == before.UID {
			err = errors.New("the PVC is still the old one")
		}
		if err == nil {
			err = cluster.Settled(t.Context())
		}
		if err == nil && cmp.Equal(want, contents(t, cluster)) {
			err = errors.New("the driver has not changed")
		}
		return err
	})
	// The last that the operator writes of this one is not there after the restore.
	refused := func() {
		list := env.Merge(`{"metadata":{"annotations":{"` + efs.AllowedAnnotation + `":"fs-99999999"}}}`)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restored"}}
		env.Must(t, cluster.Client.Patch(t.Context(), namespace, list))
		env.Eventually(t, "it says that it would not be allowed any more", func() error {
			err := cluster.Ready(t.Context(), kept)
			if !meta.IsStatusConditionFalse(kept.Status.Conditions, "Allowed") {
				err = errors.Join(err, fmt.Errorf("conditions %v", kept.Status.Conditions))
			}
			return err
		})
	}
	refused()
	mark := now(t)
	env.Must(t, cluster.RestoreSnapshot(t.Context(), snapshot))
	// The same names are used once more, and what was Ready at the snapshot is damaged.
	env.Eventually(t, "made again", func() error { return own.Create(t.Context(), env.SharedVolume("restored", "late")) })
	env.Eventually(t, "the PVC deleted", func() error {
		return client.IgnoreNotFound(own.Delete(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "restored", Name: "pvc-kept"},
		}))
	})
	env.Eventually(t, "SharedVolumes Ready after the restore", func() error {
		return errors.Join(cluster.Ready(t.Context(), kept.DeepCopy()), cluster.Ready(t.Context(), gone.DeepCopy()),
			cluster.Ready(t.Context(), env.SharedVolume("restored", "late")))
	})
	env.Eventually(t, "the driver as it was at the snapshot", func() error {
		if err := cluster.Settled(t.Context()); err != nil {
			return err
		}
		if diff := cmp.Diff(want, contents(t, cluster)); diff != "" {
			return errors.New("not as at the snapshot (-want +got):\n" + diff)
		}
		return nil
	})
	made, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	made = env.Filter(made, func(request env.Request) bool {
		return request.Verb == "create" && strings.HasPrefix(request.Object.Resource, "persistentvolume")
	})
	if len(made) > mostCreations {
		t.Errorf("%d volumes and PVCs were made, at most %d expected:\n%s", len(made), mostCreations, env.Describe(made))
	}
	// It follows what is asked for now, and goes on repairing.
	env.Must(t, cluster.Client.Patch(t.Context(), env.EFS(""), level))
	_, err = cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "delete", "service", "aws-efs-csi-driver-controller-metrics")
	env.Must(t, err)
	env.Eventually(t, "a change after the restore", func() error {
		if err := cluster.Settled(t.Context()); err != nil {
			return err
		}
		now := contents(t, cluster)
		if cmp.Equal(want, now) || len(now) != len(want) {
			return fmt.Errorf("%d objects, %d before, or nothing has changed", len(now), len(want))
		}
		return nil
	})
	refused()
	select {
	case <-operator.Done():
		t.Error("the operator has ended")
	default:
	}
	env.Must(t, cluster.Uninstall(t.Context()))
}

// contents are all objects of the driver by kind and name, without what the operator is not responsible for.
func contents(t *testing.T, cluster *env.Cluster) map[string]map[string]any {
	t.Helper()
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	found := map[string]map[string]any{}
	for i := range owned {
		object := &owned[i]
		found[fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())] = env.Content(object)
	}
	return found
}
