package apply

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// An older cluster serves VolumeSnapshotClasses as v1beta1: to start anew for them would never end.
func TestOnlyTheVersionThatIsWaitedForRestarts(t *testing.T) {
	version := func(name string, served bool) map[string]any { return map[string]any{"name": name, "served": served} }
	for name, one := range map[string]struct {
		versions    []any
		established string
		want        int
	}{
		"the version":            {[]any{version("v1beta1", true), version("v1", true)}, "True", 1},
		"not established yet":    {[]any{version("v1", true)}, "False", 0},
		"an older version":       {[]any{version("v1beta1", true)}, "True", 0},
		"it is not served":       {[]any{version("v1beta1", true), version("v1", false)}, "True", 0},
		"it says nothing at all": {nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			crd := CRD()
			crd.SetName("things.example.com")
			crd.Object["spec"] = map[string]any{"versions": one.versions}
			crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": one.established}}}
			var why []string
			handler := WhenServed("v1", func(text string) { why = append(why, text) })
			handler.Create(t.Context(), event.CreateEvent{Object: crd}, nil)
			if len(why) != one.want || (one.want > 0 && why[0] != "the cluster serves things.example.com now") {
				t.Errorf("restarts %q, want %d", why, one.want)
			}
			handler.Update(t.Context(), event.UpdateEvent{ObjectOld: &unstructured.Unstructured{}, ObjectNew: crd}, nil)
			if len(why) != 2*one.want {
				t.Errorf("restarts %q after an update, want %d", why, 2*one.want)
			}
		})
	}
}
