package status

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// textInterval is the minimum time between two writes that change only messages and numbers. Without this pause, a roll-out would cause one write
	// for each node.
	textInterval = 5 * time.Second
	// progressInterval is the minimum time between two writes that only report the progress of a roll-out. Without this pause, each node of a large
	// cluster would cause a write.
	progressInterval = 30 * time.Second
	// writeInterval is the minimum time between any two writes.
	writeInterval = time.Second
	// staleAfter is how long the Writer waits for the cache to show a write. The cache may never show a write, because resource versions go back when an
	// administrator restores etcd from a backup.
	staleAfter = 30 * time.Second
)

// Writer writes the status of objects of one kind. The Writer applies the fields of one field manager, if they differ from the fields in the cluster.
// The object must still have the same UID. The Writer is safe for concurrent use.
type Writer struct {
	Client client.StatusClient
	Owner  string
	Now    func() time.Time
	// Remember, if set, gets the answer to each write, for readers with a lagging cache.
	Remember func(*unstructured.Unstructured)

	mutex sync.Mutex
	last  map[client.ObjectKey]lastWrite
}

type lastWrite struct {
	// reported is the time of the Writer's last write of the status.
	reported time.Time
	// version is the resourceVersion after our last write of any field. written is the time of this write.
	version string
	written time.Time
}

// Report is the status of one object.
type Report struct {
	// Target is the object, made by apply.Target.
	Target *unstructured.Unstructured
	// Have and Want are the existing and the desired values of the fields that the Writer owns. Each is a pointer to a status, or a map of fields.
	Have, Want any
	// Without are the names of fields that the Writer does not own. The Writer ignores them, although the Go type always sets them.
	Without []string
	// Conditions are all existing conditions. Stale, if set, selects the conditions to remove.
	Conditions []operatorv1.OperatorCondition
	Stale      func(condition operatorv1.OperatorCondition) bool
	// Gradual means that the report differs from the status only in the progress of a roll-out.
	Gradual bool
	// Urgent bypasses throttling.
	Urgent bool
}

// Write updates the status if the status differs from the report. If the last write was too recent, Write does not write, and returns how long the
// caller must wait. If the object is deleted, Write returns no error.
func (w *Writer) Write(ctx context.Context, report Report) (wait time.Duration, err error) {
	have, err := fieldsOf(report.Have, report.Without)
	if err != nil {
		return 0, err
	}
	want, err := fieldsOf(report.Want, report.Without)
	if err != nil {
		return 0, err
	}
	var drop []byte
	if report.Stale != nil {
		if drop, err = DropPatch(report.Conditions, report.Stale); err != nil {
			return 0, err
		}
	}
	found := compare(have, want)
	if drop != nil {
		found = otherOutcome
	}
	if found == same {
		return 0, nil
	}
	if wait := w.pause(report, found); wait > 0 {
		return wait, nil
	}
	if drop != nil {
		if err := w.drop(ctx, report.Target, drop); err != nil {
			return 0, err
		}
	}
	return 0, w.apply(ctx, report.Target, want)
}

// WriteConditions does the same as Write, for a Writer that owns only conditions. Argument "types" has the types of these conditions. WriteConditions
// removes conditions of these types that are not in argument "wanted".
func (w *Writer) WriteConditions(
	ctx context.Context, target *unstructured.Unstructured, have, wanted []operatorv1.OperatorCondition, types []string,
) (time.Duration, error) {
	wanted = Merge(have, wanted, metav1.NewTime(w.Now()).Rfc3339Copy())
	return w.Write(ctx, Report{
		Target: target, Without: []string{"readyReplicas"},
		Have: &operatorv1.OperatorStatus{Conditions: Among(have, types...)}, Want: &operatorv1.OperatorStatus{Conditions: wanted},
	})
}

// pause returns how long to delay a report.
func (w *Writer) pause(report Report, found difference) time.Duration {
	if report.Urgent {
		return 0
	}
	interval := writeInterval
	switch {
	case report.Gradual:
		interval = progressInterval
	case found == otherTexts:
		interval = textInterval
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	last := w.last[client.ObjectKeyFromObject(report.Target)]
	return max(0, interval-w.Now().Sub(last.reported))
}

// drop removes stale conditions. The API server rejects the patch if the conditions have changed.
func (w *Writer) drop(ctx context.Context, target *unstructured.Unstructured, patch []byte) error {
	answer := target.DeepCopy()
	err := w.Client.Status().Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(w.Owner))
	return w.note(target, answer, "drop stale conditions", err)
}

// apply writes all fields of the Writer.
func (w *Writer) apply(ctx context.Context, target *unstructured.Unstructured, fields map[string]any) error {
	answer := target.DeepCopy()
	answer.Object["status"] = fields
	err := w.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(w.Owner), client.ForceOwnership)
	if err := w.note(target, answer, "write status", err); err != nil {
		return err
	}
	w.update(target, func(last *lastWrite) { last.reported = w.Now() })
	return nil
}

// note remembers the answer to a write, or wraps its error.
func (w *Writer) note(target, answer *unstructured.Unstructured, what string, err error) error {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && strings.Contains(err.Error(), "UID"):
		// Someone has deleted the object, and perhaps recreated it.
		return nil
	case err != nil:
		name := target.GetName()
		if namespace := target.GetNamespace(); namespace != "" {
			name = namespace + "/" + name
		}
		return fmt.Errorf("%s of %s %s: %w", what, target.GetKind(), name, err)
	}
	w.Wrote(answer)
	if w.Remember != nil {
		w.Remember(answer)
	}
	return nil
}

// Wrote records a write that the caller itself made to other fields of the object. Behind then also waits until the cache shows this write.
func (w *Writer) Wrote(answer client.Object) {
	w.update(answer, func(last *lastWrite) { last.version, last.written = answer.GetResourceVersion(), w.Now() })
}

func (w *Writer) update(object client.Object, change func(*lastWrite)) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.last == nil {
		w.last = map[client.ObjectKey]lastWrite{}
	}
	key := client.ObjectKeyFromObject(object)
	last := w.last[key]
	change(&last)
	w.last[key] = last
}

// Behind returns how long the caller must wait for the cache to show the last write. It returns 0 if the cache shows the write, or if the write is
// older than staleAfter. If the cache shows the write during the wait, an event wakes the caller.
func (w *Writer) Behind(cached client.Object) time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	last := w.last[client.ObjectKeyFromObject(cached)]
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.version)
	if err != nil || order >= 0 {
		// Without a write, there is no version to compare.
		return 0
	}
	return max(0, last.written.Add(staleAfter).Sub(w.Now()))
}

// Evict drops the state of a deleted object.
func (w *Writer) Evict(key client.ObjectKey) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.last, key)
}

// fieldsOf converts a status into a map of fields.
func fieldsOf(state any, without []string) (map[string]any, error) {
	fields, isMap := state.(map[string]any)
	if isMap {
		fields = maps.Clone(fields)
	} else {
		var err error
		if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(state); err != nil {
			return nil, fmt.Errorf("convert status: %w", err)
		}
	}
	for _, field := range without {
		delete(fields, field)
	}
	return fields, nil
}

// difference says how much a status differs from the desired status.
type difference int

const (
	same difference = iota
	// otherTexts means that only messages and numbers differ.
	otherTexts
	otherOutcome
)

// compare compares the fields of a status. It ignores the order of conditions. It also ignores transition times, because a transition time changes
// only with the status of its condition.
func compare(have, want map[string]any) difference {
	found := same
	for key := range union(have, want) {
		switch {
		case key == "conditions":
			found = max(found, compareConditions(have[key], want[key]))
		case key == "lastTransitionTime" || reflect.DeepEqual(have[key], want[key]):
		case key == "message" || key == "readyReplicas":
			found = max(found, otherTexts)
		default:
			return otherOutcome
		}
	}
	return found
}

func compareConditions(have, want any) difference {
	before, after := byType(have), byType(want)
	found := same
	for kind := range union(before, after) {
		old, isOld := before[kind]
		now, isNow := after[kind]
		if !isOld || !isNow {
			return otherOutcome
		}
		found = max(found, compare(old, now))
	}
	return found
}

func byType(list any) map[string]map[string]any {
	found := map[string]map[string]any{}
	entries, _ := list.([]any)
	for _, entry := range entries {
		if condition, ok := entry.(map[string]any); ok {
			kind, _ := condition["type"].(string)
			found[kind] = condition
		}
	}
	return found
}

func union[V any](a, b map[string]V) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}
