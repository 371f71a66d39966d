package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyTheOperatorsOwnServerNameIsCorrected(t *testing.T) {
	named := func(name string) any { return map[string]any{"tlsConfig": map[string]any{"serverName": name}} }
	s := ServerName{Namespace: "here", Service: "metrics"}
	got := s.changes([]any{
		named("metrics.there.svc"), named("metrics.here.svc"), named("other.there.svc"), named("metrics.example.com"), map[string]any{}, "none",
		named("metrics.elsewhere.svc"),
	})
	want := []map[string]any{
		{"op": "test", "path": "/spec/endpoints/0/tlsConfig/serverName", "value": "metrics.there.svc"},
		{"op": "replace", "path": "/spec/endpoints/0/tlsConfig/serverName", "value": "metrics.here.svc"},
		{"op": "test", "path": "/spec/endpoints/6/tlsConfig/serverName", "value": "metrics.elsewhere.svc"},
		{"op": "replace", "path": "/spec/endpoints/6/tlsConfig/serverName", "value": "metrics.here.svc"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
