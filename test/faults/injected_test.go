package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/env"
)

// Requests fail by chance, up to a number of failures for each phase, so that a phase comes to an end and what it costs
// has a bound.
func requestsThatFailAreRetriedInMeasure(t *testing.T, cluster *env.Cluster, through *env.Proxy, phases []*phase, start cost) {
	const most = 15
	random := env.Dice(t)
	operator := operate(t, cluster, through, alone)
	env.Eventually(t, "the operator works", operator.Started)
	for range max(1, env.Rounds(t)/env.DefaultRounds) {
		for _, p := range phases {
			injected := map[string]int{}
			total := 0
			through.Set(func(r *http.Request) env.Fault {
				name, answer := chance(random, r)
				if answer == nil || total == most {
					return nil
				}
				injected[name]++
				total++
				return answer
			})
			// The streams of events break, too.
			through.Disconnect()
			p.begin(t, cluster)
			env.Must(t, env.AwaitFor(t.Context(), 4*time.Minute, p.name+" finished", func() error {
				return p.finished(t.Context(), cluster)
			}))
			env.Quiet(t, operator)
			passed, opened := through.Work(), through.Streams()
			t.Logf("%s: %d requests, %d without faults, and %d streams; %v", p.name, len(passed), p.cost, opened, injected)
			// One failure costs another try, a look at what is there, and a status. A removal reads every object with each try.
			each := 3
			if p.name == "removal" {
				each += len(phases[0].want)
			}
			if len(passed) > p.cost+each*total {
				t.Errorf("%s: %d requests after %d faults, want at most %d:\n%s",
					p.name, len(passed), total, p.cost+each*total, strings.Join(passed, "\n"))
			}
			if opened > 2*start.streams+total {
				t.Errorf("%s: %d streams were opened after %d faults, at the start there are %d", p.name, opened, total, start.streams)
			}
		}
	}
	select {
	case <-operator.Done():
		t.Error("the operator has ended")
	default:
	}
}

// A change that asks for nothing but a status leads to one write. If that fails, no event comes to the help of an operator
// that does not try again.
func TestAFailureAloneIsRetried(t *testing.T) {
	cluster, through, operator := installed(t)
	levels := []operatorv1.LogLevel{operatorv1.Trace, operatorv1.Debug}
	step := 0
	for name, answer := range map[string]env.Fault{
		"a conflict":                    failure(http.StatusConflict, metav1.StatusReasonConflict),
		"too many requests":             tooMany(),
		"an internal error":             failure(http.StatusInternalServerError, metav1.StatusReasonInternalError),
		"an API server that shuts down": failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
		"a connection that is dropped":  func(w http.ResponseWriter, _ func(http.ResponseWriter)) { env.Drop(w) },
		"an answer that does not come in": func(w http.ResponseWriter, forward func(http.ResponseWriter)) {
			forward(httptest.NewRecorder())
			env.Drop(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			env.Quiet(t, operator)
			failed := false
			through.Set(func(r *http.Request) env.Fault {
				if failed || !env.IsWrite(r) {
					return nil
				}
				failed = true
				return answer
			})
			step++
			patch := fmt.Sprintf(`{"spec":{"operatorLogLevel":%q}}`, levels[step%len(levels)])
			env.Must(t, cluster.Client.Patch(t.Context(), env.EFS(""), env.Merge(patch)))
			env.Eventually(t, "the change observed", func() error { return cluster.Settled(t.Context()) })
			env.Quiet(t, operator)
			if made := through.Work(); !failed || len(made) > 2 {
				t.Errorf("a write failed: %t; requests, of which one or two are enough:\n%s", failed, strings.Join(made, "\n"))
			}
		})
	}
	through.Set(nil)
	t.Run("TestAFailedLookUpDoesNotHideWhatARemovalWaitsFor", func(t *testing.T) {
		aFailedLookUpDoesNotHideWhatARemovalWaitsFor(t, cluster, through, operator)
	})
}

// chance decides which request fails, and how. Conflicts and too many requests are what happens in busy clusters.
func chance(random *rand.Rand, r *http.Request) (string, env.Fault) {
	switch roll := random.IntN(100); {
	case roll < 10:
		return "429", tooMany()
	case roll < 13:
		return "500", failure(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case roll < 16:
		return "503", failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	case roll < 19:
		return "no request", func(w http.ResponseWriter, _ func(http.ResponseWriter)) { env.Drop(w) }
	case roll < 22 && !env.IsWatch(r):
		return "no answer", func(w http.ResponseWriter, forward func(http.ResponseWriter)) {
			forward(httptest.NewRecorder())
			env.Drop(w)
		}
	case roll < 42 && env.IsWrite(r):
		return "409", failure(http.StatusConflict, metav1.StatusReasonConflict)
	}
	return "", nil
}

// failure answers as the API server does.
func failure(code int, reason metav1.StatusReason) env.Fault {
	return func(w http.ResponseWriter, _ func(http.ResponseWriter)) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "injected by the test: " + string(reason),
		})
	}
}

// tooMany answers as API priority and fairness does; client-go waits and tries again by itself.
func tooMany() env.Fault {
	return func(w http.ResponseWriter, _ func(http.ResponseWriter)) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
	}
}
