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
	// textInterval bounds how often a status is written in which nothing but texts and numbers has changed. A roll-out over many nodes
	// would otherwise cost a write for each node.
	textInterval = 5 * time.Second
	// verdictInterval bounds how often any status is written. A change after it is written at once.
	verdictInterval = time.Second
	// staleAfter is how long the cache may take to show a write before nobody waits for it any more. Resource versions go back when etcd is
	// restored from a backup, and then the cache never shows it.
	staleAfter = 30 * time.Second
)

// Writer is the one way in which controllers write the status of objects of one kind. It applies the fields of one field manager, on one
// very object, and only if they differ from what the object has. It is safe for use by several goroutines.
type Writer struct {
	Client client.StatusClient
	Owner  string
	Now    func() time.Time
	// Remember, if set, gets the answer to each write. Readers of the object use it until the cache shows the write.
	Remember func(*unstructured.Unstructured)

	mutex sync.Mutex
	last  map[client.ObjectKey]lastWrite
}

// lastWrite is what a Writer remembers of an object.
type lastWrite struct {
	// reported is when the status was written.
	reported time.Time
	// version is what the last write of anything led to, and written when that was.
	version string
	written time.Time
}

// Report is the status of one object.
type Report struct {
	// Target is the object, made by apply.Target.
	Target *unstructured.Unstructured
	// Have is what the object has of the fields that the Writer owns. Want is what they are to be. Each is a pointer to a status, or a map
	// of fields.
	Have, Want any
	// Without are fields that the type of a status always has, and that the Writer does not own.
	Without []string
	// Conditions are all that the object has. Stale, if set, says which of them nobody updates any more: these are removed.
	Conditions []operatorv1.OperatorCondition
	Stale      func(condition operatorv1.OperatorCondition) bool
	// Urgent means that the report is not throttled.
	Urgent bool
}

// Write makes sure that the object has the status. Where it was written a moment ago, nothing is written, and Write returns when to come
// again. An object that has just been deleted has nothing to report in, which is no error.
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

// WriteConditions is Write for a Writer that owns nothing but the conditions of some types. Those that are not wanted go.
func (w *Writer) WriteConditions(
	ctx context.Context, target *unstructured.Unstructured, have, wanted []operatorv1.OperatorCondition, types []string,
) (time.Duration, error) {
	wanted = Merge(have, wanted, metav1.NewTime(w.Now()).Rfc3339Copy())
	return w.Write(ctx, Report{
		Target: target, Without: []string{"readyReplicas"},
		Have: &operatorv1.OperatorStatus{Conditions: Among(have, types...)}, Want: &operatorv1.OperatorStatus{Conditions: wanted},
	})
}

// pause says how long to wait with a report.
func (w *Writer) pause(report Report, found difference) time.Duration {
	if report.Urgent {
		return 0
	}
	interval := verdictInterval
	if found == otherTexts {
		interval = textInterval
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	last := w.last[client.ObjectKeyFromObject(report.Target)]
	return max(0, interval-w.Now().Sub(last.reported))
}

// drop removes conditions that predecessors have left. It is refused where the conditions have changed meanwhile.
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

// note remembers the answer to a write, or says what went wrong.
func (w *Writer) note(target, answer *unstructured.Unstructured, what string, err error) error {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && strings.Contains(err.Error(), "UID"):
		// Somebody has just deleted the object, and perhaps made a new one.
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

// Wrote tells the Writer of a write of something else than the status, which the cache has to show as well.
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

// Behind tells how long to wait for the cache to show the last write; 0 if it does, or if the write was long ago. An event tells when
// the cache shows it.
func (w *Writer) Behind(cached client.Object) time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	last := w.last[client.ObjectKeyFromObject(cached)]
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.version)
	if err != nil || order >= 0 {
		// Without a write there is no version to compare with.
		return 0
	}
	return max(0, last.written.Add(staleAfter).Sub(w.Now()))
}

// Forget drops what is remembered of an object that has gone.
func (w *Writer) Forget(key client.ObjectKey) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	delete(w.last, key)
}

// fieldsOf turns a status into fields.
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

// difference is how far a status is from what it is to be.
type difference int

const (
	same difference = iota
	// otherTexts means that nothing but messages and numbers differ.
	otherTexts
	otherOutcome
)

// compare compares the fields of a status. A condition keeps its transition time as long as its status, so that it is not compared. The
// order of conditions says nothing.
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

// byType has the conditions of a list by their types.
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

// union has the keys of both.
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
