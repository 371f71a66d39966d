package adversaries

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/test/env"
)

// moment is one in the life of a SharedVolume in which its namespace is deleted and made again for somebody else.
type moment struct {
	name string
	// write is the request of the operator that is held back meanwhile; nil if none is.
	write func(r *http.Request, name string) bool
	// answered holds back the answer, not the request.
	answered bool
	// mounted lets a pod use the PVC; deleted deletes the SharedVolume before.
	mounted, deleted bool
	// soak leaves the moment to make soak: a unit test, TestNoVolumeIsEverOpenOrForAStranger, has thousands of all kinds.
	soak bool
}

func moments() []moment {
	creates := func(resource string) func(*http.Request, string) bool {
		return func(r *http.Request, _ string) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+resource)
		}
	}
	writesStatus := func(r *http.Request, _ string) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/sharedvolumes/") && strings.HasSuffix(r.URL.Path, "/status")
	}
	deletes := func(r *http.Request, name string) bool {
		return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/persistentvolumes/pv-"+name+"-data-")
	}
	return []moment{
		{name: "before-volume", write: creates("persistentvolumes"), soak: true},
		{name: "after-volume", write: creates("persistentvolumes"), answered: true},
		{name: "before-claim", write: creates("persistentvolumeclaims"), soak: true},
		{name: "after-claim", write: creates("persistentvolumeclaims"), answered: true},
		{name: "before-status", write: writesStatus, soak: true},
		{name: "ready", soak: true},
		{name: "mounted", mounted: true},
		{name: "deleted", deleted: true, soak: true},
		{name: "before-removal", deleted: true, write: deletes},
	}
}

// A namespace goes, and another tenant gets one of the same name, while the operator is in the middle of something for the tenant
// before. What it has begun must never reach the next one.
func TestANamespaceMadeAgainGetsNothingOfThePreviousTenant(t *testing.T) {
	cluster := racing()
	through := env.NewProxy(t, cluster)
	operator := operate(t, cluster, alone, "--kubeconfig", through.Kubeconfig(t, cluster, env.OperatorNamespace))
	env.Eventually(t, "the operator works", operator.Started)
	for _, moment := range moments() {
		t.Run(moment.name, func(t *testing.T) {
			if moment.soak {
				env.OnlySoak(t)
			}
			namespace := "again-" + moment.name
			own := tenant(t, cluster, namespace)
			reached, goOn := hold(through, moment, namespace)
			previous := env.SharedVolume(namespace, "data")
			env.Must(t, own.Create(t.Context(), previous))
			await := func() {
				t.Helper()
				env.Eventually(t, "the moment "+moment.name, func() error {
					select {
					case <-reached:
						return nil
					default:
						return fmt.Errorf("not reached: %w", cluster.Ready(t.Context(), previous.DeepCopy()))
					}
				})
			}
			if moment.write != nil && !moment.deleted {
				await()
			} else {
				env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), previous) })
			}
			if moment.mounted {
				cluster.RunPod(t, env.Application(namespace, "app", "", "pvc-data"))
			}
			if moment.deleted {
				env.Must(t, own.Delete(t.Context(), previous))
			}
			if moment.write != nil && moment.deleted {
				await()
			}
			own = remade(t, cluster, namespace)
			latter := next(namespace, "data")
			env.Must(t, own.Create(t.Context(), latter))
			goOn()
			env.Eventually(t, "the next tenant's Ready", func() error {
				mountsOnly(t, cluster, latter)
				return cluster.Ready(t.Context(), latter)
			})
			env.Eventually(t, "nothing left of the tenant before", func() error {
				mountsOnly(t, cluster, latter)
				return onlyOf(t, cluster, latter)
			})
		})
	}
}

// hold keeps the first request that matches a moment from being answered until its release.
func hold(through *env.Proxy, moment moment, namespace string) (reached <-chan struct{}, goOn func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var first sync.Once
	through.Set(func(r *http.Request) env.Fault {
		if moment.write == nil || !moment.write(r, namespace) {
			return nil
		}
		held := false
		first.Do(func() { held = true })
		if !held {
			return nil
		}
		return func(w http.ResponseWriter, forward func(http.ResponseWriter)) {
			if !moment.answered {
				close(arrived)
				<-released
				forward(w)
				return
			}
			late := &answer{ResponseWriter: w, before: func() {
				close(arrived)
				<-released
			}}
			forward(late)
		}
	})
	return arrived, func() { once.Do(func() { close(released) }) }
}

// answer does something before the first part of an answer is sent.
type answer struct {
	http.ResponseWriter
	before func()
	once   sync.Once
}

func (a *answer) WriteHeader(code int) {
	a.once.Do(a.before)
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap lets the proxy flush.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// onlyOf checks that all volumes of a namespace are of one SharedVolume.
func onlyOf(t *testing.T, cluster *env.Cluster, sv *v1alpha1.SharedVolume) error {
	t.Helper()
	volumes := &corev1.PersistentVolumeList{}
	env.Must(t, cluster.Client.List(t.Context(), volumes))
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		isHere := volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.Namespace == sv.Namespace
		if isHere && volume.Annotations["aws-efs.managed.openshift.io/shared-volume-uid"] != string(sv.UID) {
			return fmt.Errorf("volume %s of %s is %s", volume.Name, volume.Spec.CSI.VolumeHandle, volume.Status.Phase)
		}
	}
	return nil
}
