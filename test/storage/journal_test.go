package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/test/env"
)

// journal has every state of the ClusterOperator, and of the Deployments and DaemonSets of operators and drivers, in the order in which the
// API server has seen them.
type journal struct {
	mu      sync.Mutex
	entries []moment
	// end waits until all has been seen that has happened by then, and ends the journal.
	end func()
}

// moment is a state of one object.
type moment struct {
	version uint64
	kind    watch.EventType
	object  client.Object
}

// record writes a journal until its reading.
func (s *scene) record() *journal {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	j := &journal{}
	lists := []client.ObjectList{&configv1.ClusterOperatorList{}, &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}}
	var running sync.WaitGroup
	for _, list := range lists {
		watcher, err := s.Client.Watch(ctx, list)
		env.Must(s.t, err)
		running.Go(func() {
			for event := range watcher.ResultChan() {
				if object, ok := event.Object.(client.Object); ok && event.Type != watch.Bookmark {
					j.add(s.t, event.Type, object)
				}
			}
		})
		context.AfterFunc(ctx, watcher.Stop)
	}
	j.end = sync.OnceFunc(func() {
		for _, list := range lists {
			items, err := s.items(list)
			env.Must(s.t, err)
			for _, item := range items {
				s.eventually("the journal has the newest state of "+item.GetName(), func() error { return j.has(item) })
			}
		}
		cancel()
		running.Wait()
	})
	return j
}

// has says whether the journal goes as far as a state of an object. Its stream may be behind what the API server answers.
func (j *journal) has(state client.Object) error {
	version, err := strconv.ParseUint(state.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.ContainsFunc(j.entries, func(one moment) bool { return one.object.GetUID() == state.GetUID() && one.version >= version }) {
		return fmt.Errorf("it is not at resourceVersion %d yet", version)
	}
	return nil
}

func (j *journal) add(t *testing.T, kind watch.EventType, object client.Object) {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Error(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, moment{version, kind, object})
}

// picture is how the objects are at one moment.
type picture struct {
	operator  *configv1.ClusterOperator
	workloads map[client.ObjectKey]client.Object
}

// read ends the journal and shows the picture at each change, with the object that has changed.
func (j *journal) read(show func(now picture, changed client.Object)) {
	j.end()
	slices.SortStableFunc(j.entries, func(a, b moment) int { return cmp.Compare(a.version, b.version) })
	now := picture{workloads: map[client.ObjectKey]client.Object{}}
	for _, one := range j.entries {
		switch object := one.object.(type) {
		case *configv1.ClusterOperator:
			if object.Name != "storage" {
				continue
			}
			now.operator = object
			if one.kind == watch.Deleted {
				now.operator = nil
			}
		default:
			key := client.ObjectKeyFromObject(object)
			now.workloads[key] = object
			if one.kind == watch.Deleted {
				delete(now.workloads, key)
			}
		}
		show(now, one.object)
	}
}

// versionIn is a version of the ClusterOperator; empty if it has none of that name.
func (p picture) versionIn(name string) string {
	if p.operator == nil {
		return ""
	}
	for _, entry := range p.operator.Status.Versions {
		if entry.Name == name {
			return entry.Version
		}
	}
	return ""
}

// rolledOut says why a driver and its operator are not rolled out with the images of a version.
func (p picture) rolledOut(entry catalogue.Entry, version string) error {
	keys := []client.ObjectKey{{Namespace: catalogue.Namespace, Name: entry.Operator}}
	for _, workload := range entry.Workloads {
		keys = append(keys, client.ObjectKey{Namespace: workload.Namespace, Name: workload.Name})
	}
	for _, key := range keys {
		var waits, image string
		switch workload := p.workloads[key].(type) {
		case nil:
			waits = "it does not exist"
		case *appsv1.Deployment:
			waits, image = status.RollOut(workload, "pods", nil), workload.Spec.Template.Spec.Containers[0].Image
		case *appsv1.DaemonSet:
			image = workload.Spec.Template.Spec.Containers[0].Image
			state := workload.Status
			if state.ObservedGeneration != workload.Generation || state.DesiredNumberScheduled == 0 ||
				state.UpdatedNumberScheduled != state.DesiredNumberScheduled || state.NumberAvailable != state.DesiredNumberScheduled {
				waits = fmt.Sprintf("%d of %d pods are updated, %d available",
					state.UpdatedNumberScheduled, state.DesiredNumberScheduled, state.NumberAvailable)
			}
		}
		if waits == "" && !strings.HasSuffix(image, ":"+version) {
			waits = "its image is " + image
		}
		if waits != "" {
			return fmt.Errorf("%s: %s", key, waits)
		}
	}
	return nil
}

// checkVersions fails the test if a version was reported before all that it is about was rolled out, or that of the operator itself
// before others.
func (j *journal) checkVersions(t *testing.T, entries []catalogue.Entry, version string) {
	t.Helper()
	reported := 0
	j.read(func(now picture, _ client.Object) {
		for _, entry := range entries {
			if now.versionIn(entry.Operator) != version {
				if now.versionIn("operator") == version {
					t.Errorf("version %s of the operator is reported before that of %s", version, entry.Operator)
				}
				continue
			}
			reported++
			if err := now.rolledOut(entry, version); err != nil {
				t.Errorf("%s is reported to have reached %s, but: %v", entry.Operator, version, err)
			}
		}
	})
	if reported == 0 && len(entries) > 0 {
		t.Errorf("the journal of %d moments has no version %s", len(j.entries), version)
	}
}
