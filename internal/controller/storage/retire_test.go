package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSettingsOfAnOldOperatorAreKept(t *testing.T) {
	normal := map[string]any{"managementState": "Managed", "logLevel": "Normal", "operatorLogLevel": "Normal"}
	for name, tc := range map[string]struct {
		old  map[string]any
		want map[string]any
	}{
		"no configuration": {want: normal},
		"an empty one":     {old: map[string]any{}, want: normal},
		"log levels": {
			old:  map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "TraceAll"},
			want: map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "TraceAll"},
		},
		"log levels that nobody knows": {old: map[string]any{"logLevel": "Loud", "operatorLogLevel": 7}, want: normal},
		"an operator that keeps its hands off": {
			old:  map[string]any{"managementState": "Unmanaged"},
			want: map[string]any{"managementState": "Unmanaged", "logLevel": "Normal", "operatorLogLevel": "Normal"},
		},
		"a driver that was to be removed": {old: map[string]any{"managementState": "Removed"}, want: normal},
		"a state of the past":             {old: map[string]any{"managementState": "Force"}, want: normal},
		"fields of another time":          {old: map[string]any{"observedConfig": map[string]any{"a": "b"}}, want: normal},
	} {
		t.Run(name, func(t *testing.T) {
			var old *unstructured.Unstructured
			if tc.old != nil {
				old = &unstructured.Unstructured{Object: map[string]any{"spec": tc.old}}
			}
			if diff := cmp.Diff(tc.want, settingsOf(old)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}
