package apply

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		written.ForgetStale(now.Add(step.after))
		if written.Pending() != step.pending {
			t.Errorf("after %s: pending %v", step.after, written.Pending())
		}
	}
	// The time of one does not count for the next.
	written.Remember(object)
	written.ForgetStale(now.Add(2 * StaleAfter))
	if !written.Pending() {
		t.Error("the next one is forgotten at once")
	}
}
