package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sampled is the driver that a Sampler looks at.
type Sampled struct {
	// Driver is its CSI name.
	Driver string
	// IsPlugin is true for its node pods, of any operator, and IsOld for those of an operator before ours.
	IsPlugin, IsOld func(*corev1.Pod) bool
	// Controller, if set, is the label app of its controllers. Those of two namespaces must never run at once.
	Controller string
	// Budget is the number of nodes that may lack a plugin at a time; negative means no limit.
	Budget int
	// Projects are the namespaces of the applications.
	Projects []string
}

// Sampler watches every change of every pod, in the API server's order, and records what must never happen during a migration.
type Sampler struct {
	Sampled

	// Silent is for the one test that does what is forbidden.
	Silent bool

	mutex sync.Mutex
	// pvcs are bound to volumes of the driver.
	pvcs map[client.ObjectKey]bool
	pods map[types.UID]*corev1.Pod
	// served are the nodes that have had a ready plugin. One that never had any lacks nothing.
	served map[string]bool
	// accepted is true once the administrator allows old plugins to go from nodes in use.
	accepted bool
	// ending are the applications' pods that the test itself ends.
	ending    map[types.UID]bool
	csiDriver types.UID
	// replaced counts old plugin pods that were deleted, and most is how many nodes lacked a plugin at the worst moment.
	replaced, most int
	found          []string
	ended          bool
}

// NewSampler makes one that has seen nothing.
func NewSampler(sampled Sampled) *Sampler {
	return &Sampler{
		Sampled: sampled, pvcs: map[client.ObjectKey]bool{},
		pods: map[types.UID]*corev1.Pod{}, served: map[string]bool{}, ending: map[types.UID]bool{},
	}
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// pod takes note of a change.
func (s *Sampler) pod(change watch.EventType, pod *corev1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.pods[pod.UID]
	if change == watch.Deleted {
		delete(s.pods, pod.UID)
	} else {
		s.pods[pod.UID] = pod
	}
	// The end begins with the request to delete, not with the removal of the pod.
	leaves := (change == watch.Deleted || pod.DeletionTimestamp != nil) && (before == nil || before.DeletionTimestamp == nil)
	switch {
	case s.IsPlugin(pod):
		if leaves && s.IsOld(pod) && pod.Spec.NodeName != "" {
			s.replaced++
			s.judgeRemoval(pod)
		}
		s.judgeNodes()
	case s.Controller != "" && pod.Labels["app"] == s.Controller:
		s.judgeControllers()
	case slices.Contains(s.Projects, pod.Namespace):
		s.judgeApplication(before, pod, leaves)
	}
}

// judgeRemoval looks for applications that lose their mounts with an old plugin pod.
func (s *Sampler) judgeRemoval(plugin *corev1.Pod) {
	if s.accepted {
		return
	}
	for _, pod := range s.pods {
		// A pod that is being deleted has its mounts until it is gone.
		uses := pod.DeletionTimestamp != nil || !isFinished(pod)
		if pod.Spec.NodeName == plugin.Spec.NodeName && uses && s.usesVolume(pod) {
			s.violation("old plugin %s was deleted from node %s while %s/%s uses a volume there",
				plugin.Name, plugin.Spec.NodeName, pod.Namespace, pod.Name)
		}
	}
}

func (s *Sampler) usesVolume(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.PersistentVolumeClaim != nil && s.pvcs[client.ObjectKey{Namespace: pod.Namespace, Name: volume.PersistentVolumeClaim.ClaimName}]
	})
}

// judgeNodes counts the plugins of each node. A pod that waits for a node has none.
func (s *Sampler) judgeNodes() {
	present, ready := map[string][]string{}, map[string]bool{}
	for _, pod := range s.pods {
		node := pod.Spec.NodeName
		if !s.IsPlugin(pod) || node == "" || isFinished(pod) {
			continue
		}
		present[node] = append(present[node], pod.Name)
		if IsReady(pod) && pod.DeletionTimestamp == nil {
			ready[node], s.served[node] = true, true
		}
	}
	var lacking []string
	for node := range s.served {
		if !ready[node] {
			lacking = append(lacking, node)
		}
	}
	s.most = max(s.most, len(lacking))
	if s.Budget >= 0 && len(lacking) > s.Budget {
		sort.Strings(lacking)
		s.violation("%d nodes lack a plugin, %d may: %s", len(lacking), s.Budget, strings.Join(lacking, ", "))
	}
	for node, names := range present {
		if len(names) > 1 {
			sort.Strings(names)
			s.violation("node %s has %d plugins: %s", node, len(names), strings.Join(names, ", "))
		}
	}
}

// judgeControllers looks for controllers of two namespaces: each has leases of its own, so that both would work.
func (s *Sampler) judgeControllers() {
	var names []string
	namespaces := map[string]bool{}
	for _, pod := range s.pods {
		if pod.Labels["app"] == s.Controller && pod.Spec.NodeName != "" && !isFinished(pod) {
			names, namespaces[pod.Namespace] = append(names, pod.Namespace+"/"+pod.Name), true
		}
	}
	if len(namespaces) > 1 {
		sort.Strings(names)
		s.violation("controllers of two namespaces run at once: %s", strings.Join(names, ", "))
	}
}

func (s *Sampler) judgeApplication(before, pod *corev1.Pod, leaves bool) {
	if s.ending[pod.UID] {
		return
	}
	restarts := func(pod *corev1.Pod) (count int32) {
		for _, container := range pod.Status.ContainerStatuses {
			count += container.RestartCount
		}
		return count
	}
	switch {
	case leaves:
		s.violation("application %s/%s was deleted", pod.Namespace, pod.Name)
	case before != nil && restarts(pod) > restarts(before):
		s.violation("application %s/%s was restarted", pod.Namespace, pod.Name)
	case before != nil && before.Status.Phase == corev1.PodRunning && pod.Status.Phase != corev1.PodRunning:
		s.violation("application %s/%s is %s", pod.Namespace, pod.Name, pod.Status.Phase)
	}
}

// driver takes note of a change of the CSIDriver.
func (s *Sampler) driver(change watch.EventType, driver *storagev1.CSIDriver) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case driver.Name != s.Driver:
	case change == watch.Deleted || driver.DeletionTimestamp != nil:
		s.violation("the CSIDriver was deleted")
	case s.csiDriver != "" && driver.UID != s.csiDriver:
		s.violation("the CSIDriver was made anew: UID %s, before %s", driver.UID, s.csiDriver)
	default:
		s.csiDriver = driver.UID
	}
}

// violation is written down once; the first ones say enough.
func (s *Sampler) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(s.found) < 20 && !slices.Contains(s.found, text) {
		s.found = append(s.found, text)
	}
}

// Expect says that the test ends these pods of applications.
func (s *Sampler) Expect(pods ...*corev1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, pod := range pods {
		s.ending[pod.UID] = true
	}
}

// Accept reports whether nodes in use may lose their plugin.
func (s *Sampler) Accept(yes bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.accepted = yes
}

// Counted sets how many nodes may lack a plugin from now on. Nodes that lack one now do not count before they have one again.
func (s *Sampler) Counted(budget int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.Budget, s.served = budget, map[string]bool{}
}

// Uncounted lets nodes lack a plugin.
func (s *Sampler) Uncounted() { s.Counted(-1) }

// Violations are what was found up to now.
func (s *Sampler) Violations() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.found)
}

// Counts returns the number of replaced plugins so far, and the largest number of nodes that lacked one at a time.
func (s *Sampler) Counts(t *testing.T, cluster *Cluster) (replaced, most int) {
	t.Helper()
	s.mutex.Lock()
	ended := s.ended
	s.mutex.Unlock()
	if !ended {
		Must(t, s.catchUp(t.Context(), cluster))
	}
	return s.counts()
}

func (s *Sampler) counts() (replaced, most int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.replaced, s.most
}

// Follow makes the sampler see all that happens from now on, until the function that it returns is called, or the test ends.
// What it has found by then fails the test.
func (s *Sampler) Follow(t *testing.T, cluster *Cluster) (stop func()) {
	t.Helper()
	Must(t, s.readPVCs(t.Context(), cluster))
	// The context of a test ends before its last checks.
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, list := range []client.ObjectList{&corev1.PodList{}, &storagev1.CSIDriverList{}} {
		stream, err := s.open(ctx, cluster, list)
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		group.Go(func() { s.read(stream) })
	}
	stop = sync.OnceFunc(func() {
		if err := s.catchUp(context.Background(), cluster); err != nil {
			t.Error(err)
		}
		s.mutex.Lock()
		s.ended = true
		s.mutex.Unlock()
		cancel()
		group.Wait()
		for _, text := range s.Violations() {
			if !s.Silent {
				t.Error("forbidden: " + text)
			}
		}
		replaced, most := s.counts()
		t.Logf("%d old plugins were replaced; at most %d nodes lacked a plugin at a time", replaced, most)
	})
	t.Cleanup(stop)
	return stop
}

func (s *Sampler) readPVCs(ctx context.Context, cluster *Cluster) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := cluster.Client.List(ctx, volumes); err != nil {
		return err
	}
	for i := range volumes.Items {
		spec := volumes.Items[i].Spec
		if spec.CSI != nil && spec.CSI.Driver == s.Driver && spec.ClaimRef != nil {
			s.pvcs[client.ObjectKey{Namespace: spec.ClaimRef.Namespace, Name: spec.ClaimRef.Name}] = true
		}
	}
	return nil
}

// open reads what is there and returns the stream of all changes after that.
func (s *Sampler) open(ctx context.Context, cluster *Cluster, list client.ObjectList) (watch.Interface, error) {
	if err := cluster.Client.List(ctx, list); err != nil {
		return nil, err
	}
	switch all := list.(type) {
	case *corev1.PodList:
		for i := range all.Items {
			s.pod(watch.Added, &all.Items[i])
		}
	case *storagev1.CSIDriverList:
		for i := range all.Items {
			s.driver(watch.Added, &all.Items[i])
		}
	}
	// An API server that ends, or has just begun, ends its streams. This one goes on where the last has ended.
	return watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), changes{cluster.Client, list})
}

// changes opens streams of the changes of a kind.
type changes struct {
	client client.WithWatch
	list   client.ObjectList
}

// WatchWithContext opens one.
func (c changes) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.client.Watch(ctx, c.list, &client.ListOptions{Raw: &options})
}

// read passes the changes on. A stream that can't go on would make the sampler blind.
func (s *Sampler) read(stream watch.Interface) {
	for event := range stream.ResultChan() {
		switch object := event.Object.(type) {
		case *corev1.Pod:
			s.pod(event.Type, object)
		case *storagev1.CSIDriver:
			s.driver(event.Type, object)
		default:
			s.blind(event.Object)
		}
	}
	s.blind(nil)
}

func (s *Sampler) blind(last runtime.Object) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.ended {
		s.violation("the stream of changes broke: %v", last)
	}
}

// catchUp waits until the sampler has seen all that has happened, by a pod that it must see last.
func (s *Sampler) catchUp(ctx context.Context, cluster *Cluster) error {
	marker := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "marker-"},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", Containers: []corev1.Container{{Name: "none", Image: "registry.example/none:1"}},
		},
	}
	if err := cluster.Client.Create(ctx, marker); err != nil {
		return err
	}
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: s.Driver}}
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(driver), driver); client.IgnoreNotFound(err) != nil {
		return err
	}
	err := Await(ctx, "the sampler has seen everything", func() error {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.pods[marker.UID] == nil || s.csiDriver != driver.UID && len(s.found) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	return errors.Join(err, cluster.Client.Delete(ctx, marker, client.GracePeriodSeconds(0)))
}
