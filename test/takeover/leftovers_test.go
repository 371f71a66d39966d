package takeover

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// damage changes or removes something of the old driver.
type damage func(*testing.T, *scene)

// leftover is a state in which a cluster may be when the old operator is gone. Each kind of damage is in one of them: a migration takes
// 3 s of processor.
type leftover struct {
	name    string
	damages []damage
	// left are objects that no operator may remove.
	left []client.Object
	// soak says that only make soak has it. The others are what TestAMigrationOutlivesKillsAndDamage begins with.
	soak bool
}

func leftovers() []leftover {
	return []leftover{
		{name: "nothing is damaged"},
		{
			name: "operator scaled to 0, DaemonSet without label and owner, no CSIDriver, no StorageClass",
			damages: []damage{
				operatorScaledDown, changed(ownDaemonSet, `{"metadata":{"labels":{"`+env.CommunityLabel+`":null},"ownerReferences":null}}`),
				removed(csiDriver()), removed(storageClass()),
			},
		},
		{
			name:    "operator half removed, DaemonSet with another container, no ServiceAccount, class of an administrator",
			damages: []damage{operatorHalfRemoved, anotherContainer, accountRemoved, administratorsOwn},
			left:    []client.Object{storageClass()}, soak: true,
		},
		{
			name: "operator removed, DaemonSet that is changed, constraints without the label",
			damages: []damage{
				operatorRemoved, changed(ownDaemonSet, `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null},`+
					`"minReadySeconds":5,"revisionHistoryLimit":2},"metadata":{"annotations":{"example.com/note":"ours"}}}`),
				changed(func(*scene) client.Object { return constraints() },
					`{"metadata":{"labels":{"`+env.CommunityLabel+`":null},"ownerReferences":null}}`),
			},
			left: []client.Object{constraints()}, soak: true,
		},
		{name: "no DaemonSet, only its pods", damages: []damage{orphaned}},
		{
			name: "only the DaemonSet", soak: true,
			damages: []damage{accountRemoved, removed(constraints()), removed(csiDriver()), removed(storageClass())},
		},
	}
}

func ownDaemonSet(s *scene) client.Object { return s.daemonSet() }

func changed(object func(*scene) client.Object, fields string) damage {
	return func(t *testing.T, s *scene) {
		t.Helper()
		env.Must(t, s.Client.Patch(t.Context(), object(s), env.Merge(fields)))
	}
}

func removed(object client.Object) damage {
	return func(t *testing.T, s *scene) {
		t.Helper()
		env.Must(t, s.Client.Delete(t.Context(), object))
	}
}

func accountRemoved(t *testing.T, s *scene) {
	t.Helper()
	env.Must(t, s.Client.Delete(t.Context(), s.account()))
}

func operatorScaledDown(t *testing.T, s *scene) {
	t.Helper()
	for _, object := range predecessors.CommunityOperator(s.namespace) {
		scale(object, 0)
		env.Must(t, s.Put(t.Context(), "olm", object))
	}
}

// operatorHalfRemoved and operatorRemoved remove what the leftover before has made.
func operatorHalfRemoved(t *testing.T, s *scene) {
	t.Helper()
	env.Must(t, s.Client.Delete(t.Context(), deploymentAmong(t, predecessors.CommunityOperator(s.namespace))))
}

func operatorRemoved(t *testing.T, s *scene) {
	t.Helper()
	for _, object := range predecessors.CommunityOperator(s.namespace) {
		env.Must(t, client.IgnoreNotFound(s.Client.Delete(t.Context(), object)))
	}
}

// orphaned leaves pods of a DaemonSet that is deleted.
func orphaned(t *testing.T, s *scene) {
	t.Helper()
	env.Must(t, s.Client.Delete(t.Context(), s.daemonSet(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	env.Eventually(t, "the DaemonSet gone", func() error { return s.Gone(t.Context(), s.daemonSet()) })
	env.Must(t, s.holdsOnly(t.Context(), s.workers...))
}

// Whatever is damaged, a cluster comes out as any other.
func TestDamagedLeftoversEndAsAllOthers(t *testing.T) {
	env.OnlySoak(t)
	s := open(t, few, "openshift-operators")
	s.sampler = newSampler(1)
	operator := s.operate(t)
	env.Eventually(t, "the operator works", operator.Started)
	var want map[string]map[string]any
	for _, tc := range leftovers() {
		passed := t.Run(tc.name, func(t *testing.T) {
			s.putDriver(t, nil)
			for _, damage := range tc.damages {
				damage(t, s)
			}
			env.Eventually(t, "old plugins on all workers", func() error { return s.holdsOnly(t.Context(), s.workers...) })
			kept, err := s.uids(t.Context(), tc.left...)
			env.Must(t, err)
			stop := s.watch(t, few)
			s.create(t, nil)
			env.Eventually(t, "the driver taken over", func() error { return s.handedOver(t.Context(), few) })
			env.Eventually(t, "the rest of the old driver gone", func() error {
				marked, err := s.marked(t.Context())
				if len(marked) > 0 {
					err = errors.Join(err, errors.New(marked[0]))
				}
				err = errors.Join(err, s.Gone(t.Context(), s.account()))
				if !slices.ContainsFunc(tc.left, func(object client.Object) bool { return object.GetName() == predecessors.CommunitySCC }) {
					err = errors.Join(err, s.Gone(t.Context(), constraints()))
				}
				return err
			})
			now, err := s.uids(t.Context(), tc.left...)
			env.Must(t, err)
			same(t, "what is nobody's to remove", kept, now)
			env.Quiet(t, operator)
			got, err := s.operands(t.Context())
			env.Must(t, err)
			if want == nil {
				want = got
			}
			same(t, "the end state", want, got)
			stop()
			s.clear(t)
		})
		if !passed {
			return
		}
	}
}

// clear removes what a migration leads to, for the next one.
func (s *scene) clear(t *testing.T) {
	t.Helper()
	env.Must(t, s.Uninstall(t.Context()))
	for _, object := range []client.Object{storageClass(), constraints()} {
		env.Must(t, client.IgnoreNotFound(s.Client.Delete(t.Context(), object)))
	}
	env.Eventually(t, "no plugin left", func() error {
		pods := &corev1.PodList{}
		if err := s.Client.List(t.Context(), pods, client.MatchingLabels{"app": nodeDaemonSet}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return errors.New(pods.Items[0].Name)
		}
		return errors.Join(s.Gone(t.Context(), s.daemonSet()), s.Gone(t.Context(), csiDriver()))
	})
}

// anotherContainer is one that a user added, with a host port that ours has as well.
func anotherContainer(t *testing.T, s *scene) {
	t.Helper()
	daemonSet := s.daemonSet()
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet))
	pod := &daemonSet.Spec.Template.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "debug", Image: "registry.example/debug:1"})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "debug", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	daemonSet.Spec.Template.Annotations = map[string]string{"example.com/note": "ours"}
	env.Must(t, s.Client.Update(t.Context(), daemonSet, client.FieldOwner("kubectl-edit")))
	env.Eventually(t, "the old driver runs", func() error {
		// All of one answer: what was updated counts only if the change was seen.
		err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(daemonSet), daemonSet)
		status := daemonSet.Status
		if err == nil && (status.ObservedGeneration != daemonSet.Generation || status.UpdatedNumberScheduled != status.DesiredNumberScheduled) {
			err = errors.New("not rolled out")
		}
		if err != nil {
			return err
		}
		return s.runs(t.Context(), daemonSet)
	})
}

// administratorsOwn is the class that manuals say to make for dynamic volumes.
func administratorsOwn(t *testing.T, s *scene) {
	t.Helper()
	env.Must(t, s.Client.Delete(t.Context(), storageClass()))
	env.Must(t, s.Client.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: driverName,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": env.FileSystem, "directoryPerms": "700"},
	}))
}
