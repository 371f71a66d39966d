package env

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// A test that looks between the request and the kill must learn of the kill, or it would go on with an operator that is about to end.
func TestAKillIsCertainBeforeItHappens(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		p, want := &Proxy{}, []string{"kill"}
		if arrives {
			want = []string{"forward", "kill"}
		}
		var happened []string
		certain := p.KillAt(IsWrite, 2, arrives, func() { happened = append(happened, "kill") })
		for i, method := range []string{http.MethodPost, http.MethodGet, http.MethodGet} {
			if p.disturb(httptest.NewRequest(method, "/", nil)) != nil || certain() {
				t.Fatalf("request %d is the one", i)
			}
		}
		fault := p.disturb(httptest.NewRequest(http.MethodPost, "/", nil))
		if fault == nil || !certain() || len(happened) > 0 {
			t.Fatalf("at the request it is certain: %t, and %v has happened", certain(), happened)
		}
		fault(httptest.NewRecorder(), func(http.ResponseWriter) { happened = append(happened, "forward") })
		if !slices.Equal(happened, want) {
			t.Errorf("%v happened, want %v", happened, want)
		}
		if p.disturb(httptest.NewRequest(http.MethodPost, "/", nil)) != nil {
			t.Error("another request is disturbed")
		}
	}
}
