package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// droppedFor is the time for which the applier does not repeat a write whose fields the API server dropped in part. After this time, the next
// reconcile tries again, because an administrator may have enabled the feature gate of the dropped fields.
const droppedFor = time.Hour

// dropped describes the fields of a write that the API server did not store. The API server accepts a field whose feature gate is off, but does not
// store the field. A repetition of the write would still change the object, because the managed fields get a new time. So without this memory, each
// reconcile would write, and the write would trigger the next reconcile.
type dropped struct {
	// rendered is the hash of the rendered object. fields maps paths to the values that the API server stored instead.
	rendered string
	fields   map[string]string
	since    time.Time
}

// rememberDropped remembers the desired fields that are missing in the API server's answer to a write.
func (w *MutationCache) rememberDropped(answer, desired *unstructured.Unstructured) {
	lost := map[string]string{}
	differences(lost, "", answer.Object, desired.Object)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if len(lost) == 0 {
		delete(w.dropped, SubjectOf(desired))
		return
	}
	w.dropped[SubjectOf(desired)] = dropped{rendered: desired.GetAnnotations()[HashAnnotation], fields: lost, since: w.now}
}

// dropsTheSame reports whether a live object lacks exactly the fields that the API server dropped from the last write.
func (w *MutationCache) dropsTheSame(live, desired *unstructured.Unstructured) bool {
	w.mutex.Lock()
	known, found := w.dropped[SubjectOf(desired)]
	w.mutex.Unlock()
	if !found || known.rendered != desired.GetAnnotations()[HashAnnotation] {
		return false
	}
	lost := map[string]string{}
	differences(lost, "", live.Object, desired.Object)
	return maps.Equal(known.fields, lost)
}

// droppedFields returns the paths of the fields that the API server dropped from the last write, sorted.
func (w *MutationCache) droppedFields(subject Subject) []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Sorted(maps.Keys(w.dropped[subject].fields))
}

// differences collects the paths at which live does not contain desired, each with the live value.
func differences(into map[string]string, path string, live, desired any) {
	if contains(live, desired) {
		return
	}
	want, wantsMap := desired.(map[string]any)
	have, hasMap := live.(map[string]any)
	if !wantsMap || !hasMap {
		value, err := json.Marshal(live)
		if err != nil {
			value = fmt.Append(nil, live)
		}
		into[strings.TrimPrefix(path, ".")] = string(value)
		return
	}
	for key := range want {
		differences(into, path+"."+key, have[key], want[key])
	}
}
