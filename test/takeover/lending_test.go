package takeover

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/stored"
	"github.com/csi-operators/csi-operators/test/env/sweep"
)

// Tests lend clusters that others have had. Whatever these have made, changed and deleted, in every kind that a cluster has, is taken back.
func TestASweptClusterIsAsItWas(t *testing.T) {
	s := open(t, few, "openshift-operators")
	env.Eventually(t, "pull Secrets", func() error { return s.HasPullSecrets(t.Context()) })
	state, err := s.Swept().Record(t.Context())
	env.Must(t, err)
	before := contentOf(state)

	// A driver, volumes and applications, and what an operator holds that was killed.
	s.install(t)
	operator := s.operate(t, "--leader-elect=true")
	s.create(t, map[string]string{accepted: "true"})
	env.Eventually(t, "the driver taken over", func() error { return s.handedOver(t.Context(), few) })
	s.application(t, "shop", "web", s.workers[0])
	env.Must(t, s.AddWorkers(t.Context(), few+1))
	operator.Kill()
	kinds := s.damage(t, state)
	for _, kind := range []string{"Node", "ClusterRole", "CustomResourceDefinition", "Infrastructure", "ConfigMap", "Namespace", "ServiceAccount"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was changed: this shows less than it says", kind)
		}
	}

	env.Must(t, s.Sweep(t.Context(), state))
	env.Eventually(t, "the content of before", func() error {
		after, err := s.Swept().Record(t.Context())
		if diff := cmp.Diff(before, contentOf(after)); diff != "" {
			err = errors.Join(err, errors.New("(-before +after):\n"+diff))
		}
		return err
	})
	events, leases := &corev1.EventList{}, &coordinationv1.LeaseList{}
	env.Must(t, errors.Join(s.Client.List(t.Context(), events), s.Client.List(t.Context(), leases, client.InNamespace(s.namespace))))
	if len(leases.Items) > 0 {
		t.Errorf("lease %s is left", leases.Items[0].Name)
	}
	for _, event := range events.Items {
		if strings.Contains(event.InvolvedObject.Name, nodeDaemonSet) && event.InvolvedObject.Kind == "DaemonSet" {
			t.Errorf("event %s is left", event.Name)
		}
	}
}

// storesWhatItLists checks that what is read from etcd is what the API server lists, kind by kind, labels and owners included.
func (s *scene) storesWhatItLists(t *testing.T) {
	kinds, err := s.Kinds()
	env.Must(t, err)
	type facts struct {
		UID, ResourceVersion string
		Labels               map[string]string
		Owners, Managers     int
		Terminating          bool
	}
	of := func(object *metav1.PartialObjectMetadata) facts {
		return facts{
			UID: string(object.UID), ResourceVersion: object.ResourceVersion, Labels: object.Labels, Owners: len(object.OwnerReferences),
			Managers: len(object.ManagedFields), Terminating: object.DeletionTimestamp != nil,
		}
	}
	env.Eventually(t, "the same objects in both", func() error {
		listed, kept := map[string]facts{}, map[string]facts{}
		for _, kind := range kinds {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind)
			if err := s.Client.List(t.Context(), list); err != nil {
				return err
			}
			for i := range list.Items {
				list.Items[i].SetGroupVersionKind(kind)
				listed[stored.NameOf(&list.Items[i])] = of(&list.Items[i])
			}
		}
		objects, err := s.Objects(t.Context())
		for _, object := range objects {
			kept[stored.NameOf(object)] = of(object)
		}
		if diff := cmp.Diff(listed, kept, cmpopts.EquateEmpty()); err == nil && diff != "" {
			err = errors.New("(-listed +in etcd):\n" + diff)
		}
		return err
	})
}

// damage changes or deletes some objects of each kind that was there, by dice, and returns the kinds that it has changed.
func (s *scene) damage(t *testing.T, state sweep.State) map[string]int {
	t.Helper()
	const most = 8
	kinds, dice := map[string]int{}, env.Dice(t)
	for _, name := range slices.Sorted(maps.Keys(state)) {
		object := state[name].DeepCopy()
		fields := `{"metadata":{"labels":{"example.com/damaged":"yes"},"annotations":{"example.com/damaged":"yes"}}}`
		switch choice := dice.IntN(4); {
		case object.GetNamespace() == "kube-system" || strings.HasPrefix(object.GetName(), "system:"):
			// The cluster itself would stop.
			continue
		case kinds[object.GetKind()] == most && !env.IsSoak(t):
			continue
		case choice == 0 && canGo(object):
			env.Must(t, client.IgnoreNotFound(s.Client.Delete(t.Context(), object)))
		case choice == 1 && object.GetKind() == "Infrastructure":
			object.Object["status"].(map[string]any)["infrastructureName"] = "other"
			env.Must(t, client.IgnoreNotFound(s.Client.Status().Update(t.Context(), object)))
		default:
			if err := s.Client.Patch(t.Context(), object, env.Merge(fields)); client.IgnoreNotFound(err) != nil {
				// Some kinds can't be changed.
				continue
			}
		}
		kinds[object.GetKind()]++
	}
	return kinds
}

// canGo is true for what is not made again by anybody, and can be made again.
func canGo(object *unstructured.Unstructured) bool {
	return len(object.GetOwnerReferences()) == 0 && !slices.Contains([]string{
		"Namespace", "ServiceAccount", "Secret", "APIService", "FlowSchema", "PriorityLevelConfiguration", "ConfigMap", "Service", "EndpointSlice", "Endpoints",
	}, object.GetKind())
}

// contentOf is what objects are but for what the API server and controllers write.
func contentOf(state sweep.State) map[string]any {
	found := map[string]any{}
	for name, object := range state {
		content := object.DeepCopy().Object
		content["metadata"] = map[string]any{"labels": object.GetLabels(), "annotations": object.GetAnnotations(), "finalizers": object.GetFinalizers()}
		if !strings.HasSuffix(object.GroupVersionKind().Group, ".openshift.io") {
			delete(content, "status")
		}
		if object.GetKind() == "Node" {
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, condition := range conditions {
				content["condition "+fmt.Sprint(condition.(map[string]any)["type"])] = condition.(map[string]any)["status"]
			}
		}
		found[name] = content
	}
	return found
}
