package env

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What identifies node pods: the label of those of the community and of ours, that of OpenShift's, and their accounts.
const (
	sampledApp          = "efs-csi-node"
	openShiftApp        = "aws-efs-csi-driver-node"
	ourAccount          = "aws-efs-csi-driver-node-sa"
	communityAccount    = "efs-csi-sa"
	communityDriverName = "efs.csi.aws.com"
)

// sample looks at the driver of EFS, and at controllers.
func sample(budget int, projects ...string) *Sampler {
	isPlugin := func(pod *corev1.Pod) bool {
		return pod.Labels["app"] == sampledApp || pod.Labels["app"] == openShiftApp
	}
	isOld := func(pod *corev1.Pod) bool {
		return pod.Labels["app"] != sampledApp || pod.Spec.ServiceAccountName != ourAccount
	}
	return NewSampler(Sampled{
		Driver: communityDriverName, IsPlugin: isPlugin, IsOld: isOld, Controller: "controller", Budget: budget, Projects: projects,
	})
}

// event is a change of a pod as a stream shows it.
type event struct {
	change watch.EventType
	pod    *corev1.Pod
}

func added(pod *corev1.Pod) event   { return event{watch.Added, pod} }
func changed(pod *corev1.Pod) event { return event{watch.Modified, pod} }
func gone(pod *corev1.Pod) event    { return event{watch.Deleted, pod} }

// plugin is a ready node pod.
func plugin(name, node, app, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: account},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

func oldPlugin(node string) *corev1.Pod {
	return plugin("old-"+node, node, sampledApp, communityAccount)
}

func newPlugin(node string) *corev1.Pod {
	return plugin("new-"+node, node, sampledApp, ourAccount)
}

func openShiftPlugin(node string) *corev1.Pod {
	return plugin("openshift-"+node, node, openShiftApp, ourAccount)
}

// controller is a controller's pod that has a node.
func controller(name, namespace string) *corev1.Pod {
	return with(plugin(name, "master-0", "controller", "any"), func(pod *corev1.Pod) { pod.Namespace = namespace })
}

// user is a running pod of an application that uses the PVC.
func user(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app", UID: types.UID("app-" + node)},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}}},
	}
}

func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	other := pod.DeepCopy()
	change(other)
	return other
}

func leaving(pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{} })
}

func unready(pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse })
}

func finished(pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
}

// What the other tests rely on: the sampler finds each thing that is forbidden, and nothing else.
func TestTheSamplerFindsWhatIsForbidden(t *testing.T) {
	restarted := with(user("a"), func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].RestartCount = 1 })
	failed := with(user("a"), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
	unscheduled := with(newPlugin("a"), func(pod *corev1.Pod) { pod.Spec.NodeName = "" })
	expect := func(s *Sampler) { s.Expect(user("a")) }
	accept := func(s *Sampler) { s.Accept(true) }
	for name, tc := range map[string]struct {
		before func(*Sampler)
		events []event
		want   string
	}{
		"a node is handed over": {events: []event{
			added(oldPlugin("a")), changed(leaving(oldPlugin("a"))), gone(leaving(oldPlugin("a"))), added(unready(newPlugin("a"))), changed(newPlugin("a")),
		}},
		"a pod waits for the old one": {events: []event{added(openShiftPlugin("a")), added(unscheduled), gone(leaving(openShiftPlugin("a"))), changed(newPlugin("a"))}},
		"two nodes lack a plugin": {
			events: []event{added(oldPlugin("a")), added(oldPlugin("b")), changed(leaving(oldPlugin("a"))), changed(leaving(oldPlugin("b")))},
			want:   "2 nodes lack a plugin, 1 may: a, b",
		},
		"one goes while another is not ready": {
			events: []event{added(newPlugin("a")), added(oldPlugin("b")), changed(unready(newPlugin("a"))), changed(leaving(oldPlugin("b")))},
			want:   "2 nodes lack a plugin",
		},
		"the same node twice":           {events: []event{added(oldPlugin("a")), changed(unready(oldPlugin("a"))), changed(leaving(oldPlugin("a"))), gone(oldPlugin("a"))}},
		"nodes that never had a plugin": {events: []event{added(unready(newPlugin("a"))), added(unready(newPlugin("b"))), changed(newPlugin("a"))}},
		"a new one beside the old one": {
			events: []event{added(oldPlugin("a")), added(unready(newPlugin("a")))},
			want:   "node a has 2 plugins: new-a, old-a",
		},
		"a new one beside one of OpenShift that leaves": {
			events: []event{added(openShiftPlugin("b")), changed(leaving(openShiftPlugin("b"))), added(unready(newPlugin("b")))},
			want:   "node b has 2 plugins",
		},
		"under a running application": {
			events: []event{added(oldPlugin("a")), added(user("a")), changed(leaving(oldPlugin("a")))},
			want:   "old-a was deleted from node a while shop/app uses a volume there",
		},
		"gone at once, under a running application": {
			events: []event{added(openShiftPlugin("a")), added(user("a")), gone(openShiftPlugin("a"))},
			want:   "while shop/app uses a volume there",
		},
		"under an application that is ending": {
			before: expect,
			events: []event{added(oldPlugin("a")), added(user("a")), changed(leaving(user("a"))), changed(leaving(oldPlugin("a")))},
			want:   "while shop/app uses a volume there",
		},
		"under an application, accepted": {before: accept, events: []event{added(oldPlugin("a")), added(user("a")), changed(leaving(oldPlugin("a")))}},
		"under one on another node":      {events: []event{added(oldPlugin("a")), added(user("b")), changed(leaving(oldPlugin("a")))}},
		"under one that has finished":    {before: expect, events: []event{added(oldPlugin("a")), added(user("a")), changed(finished(user("a"))), changed(leaving(oldPlugin("a")))}},
		"under one that has gone":        {before: expect, events: []event{added(oldPlugin("a")), added(user("a")), gone(user("a")), changed(leaving(oldPlugin("a")))}},
		"a plugin of ours, under one":    {events: []event{added(newPlugin("a")), added(user("a")), changed(leaving(newPlugin("a")))}},
		"controllers of one namespace":   {events: []event{added(controller("a", "one")), added(controller("b", "one"))}},
		"a controller after another":     {events: []event{added(controller("a", "one")), gone(controller("a", "one")), added(controller("b", "two"))}},
		"controllers of two namespaces": {
			events: []event{added(controller("a", "one")), changed(leaving(controller("a", "one"))), added(controller("b", "two"))},
			want:   "controllers of two namespaces run at once: one/a, two/b",
		},
		"an application is deleted":             {events: []event{added(user("a")), changed(leaving(user("a")))}, want: "application shop/app was deleted"},
		"an application is deleted at once":     {events: []event{added(user("a")), gone(user("a"))}, want: "application shop/app was deleted"},
		"an application is deleted by the test": {before: expect, events: []event{added(user("a")), gone(user("a"))}},
		"an application is restarted":           {events: []event{added(user("a")), changed(restarted)}, want: "application shop/app was restarted"},
		"an application fails":                  {events: []event{added(user("a")), changed(failed)}, want: "application shop/app is Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sample(1, "shop")
			s.pvcs[client.ObjectKey{Namespace: "shop", Name: "data"}] = true
			if tc.before != nil {
				tc.before(s)
			}
			for _, event := range tc.events {
				s.pod(event.change, event.pod)
			}
			found := s.Violations()
			if tc.want == "" && len(found) > 0 || tc.want != "" && (len(found) != 1 || !strings.Contains(found[0], tc.want)) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
}

func TestTheSamplerFollowsTheCSIDriver(t *testing.T) {
	driver := func(name, uid string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	}
	s := sample(1)
	s.driver(watch.Added, driver(communityDriverName, "1"))
	s.driver(watch.Modified, driver(communityDriverName, "1"))
	s.driver(watch.Deleted, driver("ebs.csi.aws.com", "2"))
	if found := s.Violations(); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	s.driver(watch.Deleted, driver(communityDriverName, "1"))
	s.driver(watch.Added, driver(communityDriverName, "3"))
	if found := s.Violations(); len(found) != 2 {
		t.Errorf("found %q, want that it was deleted, and that it was made anew", found)
	}
}
