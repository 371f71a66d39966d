package apply

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatTheCacheNeverShowsIsForgottenAfterAWhile(t *testing.T) {
	written, now := NewMutationCache(), time.Unix(1000, 0)
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetName("a")
	written.Remember(object)
	for _, step := range []struct {
		after   time.Duration
		pending bool
	}{{0, true}, {StaleAfter - time.Second, true}, {StaleAfter, false}} {
		written.EvictStale(now.Add(step.after))
		if written.Pending() != step.pending {
			t.Errorf("after %s: pending %v", step.after, written.Pending())
		}
	}
	// The time of one does not count for the next.
	written.Remember(object)
	written.EvictStale(now.Add(2 * StaleAfter))
	if !written.Pending() {
		t.Error("the next one is forgotten at once")
	}
}

// The end of the one before may arrive between the two.
func TestWhatWasMadeAnewIsNotForgottenWithTheOneBefore(t *testing.T) {
	written := NewMutationCache()
	object := func(uid string) *unstructured.Unstructured {
		found := &unstructured.Unstructured{Object: map[string]any{"kind": "StorageClass"}}
		found.SetName("a")
		found.SetUID(types.UID(uid))
		return found
	}
	written.Remember(object("new"))
	subject := SubjectOf(object("new"))
	none := func(string) bool { return false }
	written.EvictDeleted(subject, object("old"))
	if unseen := written.Unseen("StorageClass", none); len(unseen) != 1 || unseen[0].GetUID() != "new" {
		t.Errorf("not seen: %v", unseen)
	}
	if unseen := written.Unseen("StorageClass", func(name string) bool { return name == "a" }); len(unseen) > 0 {
		t.Errorf("the cache has %v", unseen)
	}
	if unseen := written.Unseen("Service", none); len(unseen) > 0 {
		t.Errorf("of another kind: %v", unseen)
	}
	written.EvictDeleted(subject, object("new"))
	if written.Pending() {
		t.Error("it has gone, and is remembered")
	}
}
