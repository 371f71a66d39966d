package manager

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

const reader = "of-prometheus"

// reviewer answers reviews in place of an API server: it knows one token. What the API server itself decides, test/e2e asks it.
type reviewer struct {
	// asked counts reviews of the reader's token, others those of all others; most is how many were under way at a time.
	asked, others, underWay, most atomic.Int64
	// closed keeps the answers about other tokens back while it is open; each of these reviews is in begun.
	closed, begun chan struct{}
}

func (r *reviewer) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	now := r.underWay.Add(1)
	defer r.underWay.Add(-1)
	for before := r.most.Load(); now > before && !r.most.CompareAndSwap(before, now); before = r.most.Load() {
	}
	response.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(request.URL.Path, "/subjectaccessreviews") {
		_ = json.NewEncoder(response).Encode(&authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}})
		return
	}
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	if review.Spec.Token == reader {
		r.asked.Add(1)
		review.Status.Authenticated = true
	} else {
		r.others.Add(1)
		if r.closed != nil {
			r.begun <- struct{}{}
			<-r.closed
		}
	}
	_ = json.NewEncoder(response).Encode(&review)
}

// guarded is an endpoint behind the filter.
func guarded(t *testing.T, r *reviewer) *access {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	if r.closed != nil {
		t.Cleanup(func() { close(r.closed) })
	}
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1}
	filter, err := withAccess(config, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		t.Fatal(err)
	}
	return handler.(*access) //nolint:forcetypeassert // The filter makes nothing else.
}

// scrape asks with a token, from an address that nobody else has.
func scrape(t *testing.T, handler http.Handler, token string) int {
	t.Helper()
	return scrapeFrom(t, handler, "source-of-"+token, token)
}

func scrapeFrom(t *testing.T, handler http.Handler, source, token string) int {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	request.RemoteAddr = source + ":1234"
	request.Header.Set("Authorization", "Bearer "+token)
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	return response.Code
}

func TestMadeUpTokensDriveNoReaderOut(t *testing.T) {
	r := &reviewer{}
	endpoint := guarded(t, r)
	for round := range 3 {
		if code := scrape(t, endpoint, reader); code != http.StatusOK {
			t.Fatalf("the reader gets %d", code)
		}
		for junk := range 2 * maxRefusals {
			if code := scrape(t, endpoint, fmt.Sprintf("junk-%d-%d", round, junk)); code != http.StatusUnauthorized {
				t.Fatalf("a made-up token gets %d", code)
			}
		}
	}
	if asked := r.asked.Load(); asked != 1 {
		t.Errorf("the API server was asked %d times about the reader, want once", asked)
	}
}

// Each token is another one, so that no answer is known. Whoever sends them uses up what is theirs.
func TestASourceOfMadeUpTokensIsAskedAboutSeldom(t *testing.T) {
	r := &reviewer{}
	endpoint := guarded(t, r)
	const junk = 20 * reviewBurst
	began := time.Now()
	for number := range junk {
		code := scrapeFrom(t, endpoint, "10.0.0.1", fmt.Sprintf("junk-%d", number))
		if number < reviewBurst && code != http.StatusUnauthorized || code != http.StatusUnauthorized && code != http.StatusServiceUnavailable {
			t.Fatalf("token %d gets %d", number, code)
		}
	}
	if most := reviewBurst + 1 + int64(time.Since(began).Seconds()*reviewRate); r.others.Load() > most {
		t.Errorf("%d tokens of one source were reviewed, want no more than %d", r.others.Load(), most)
	}
	if code := scrapeFrom(t, endpoint, "10.0.0.2", reader); code != http.StatusOK {
		t.Errorf("the reader, from elsewhere, gets %d meanwhile", code)
	}
}

func TestFewReviewsAreUnderWayAtATime(t *testing.T) {
	r := &reviewer{closed: make(chan struct{}), begun: make(chan struct{}, 1000)}
	endpoint := guarded(t, r)
	if code := scrape(t, endpoint, reader); code != http.StatusOK {
		t.Fatalf("the reader gets %d", code)
	}
	endpoint.queueing, endpoint.reviewing = 10*time.Millisecond, time.Minute
	var codes [3]atomic.Int64
	var all sync.WaitGroup
	// The first ones hold all slots until the reviewer answers, which it never does here: the others are turned away.
	const turnedAway = 100
	for junk := range reviews {
		go scrape(t, endpoint, fmt.Sprintf("holds-%d", junk))
	}
	for range reviews {
		<-r.begun
	}
	for junk := range turnedAway {
		all.Go(func() {
			switch scrape(t, endpoint, fmt.Sprintf("junk-%d", junk)) {
			case http.StatusServiceUnavailable:
				codes[0].Add(1)
			case http.StatusUnauthorized:
				codes[1].Add(1)
			default:
				codes[2].Add(1)
			}
		})
	}
	all.Wait()
	if busy := codes[0].Load(); busy != turnedAway {
		t.Errorf("%d of %d were told that too many ask, %d refused, %d answered otherwise", busy, turnedAway, codes[1].Load(), codes[2].Load())
	}
	if most := r.most.Load(); most > reviews {
		t.Errorf("%d reviews were under way at a time, want no more than %d", most, reviews)
	}
	if code := scrape(t, endpoint, reader); code != http.StatusOK {
		t.Errorf("the reader gets %d meanwhile", code)
	}
}

func TestAnAPIServerThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	r := &reviewer{closed: make(chan struct{}), begun: make(chan struct{}, 1000)}
	endpoint := guarded(t, r)
	endpoint.reviewing = 10 * time.Millisecond
	if code := scrape(t, endpoint, "junk"); code != http.StatusInternalServerError {
		t.Errorf("it gets %d, want 500", code)
	}
}

func TestNobodyAsksAboutATokenThatIsTooLong(t *testing.T) {
	r := &reviewer{}
	if code := scrape(t, guarded(t, r), strings.Repeat("x", longestToken+1)); code != http.StatusUnauthorized || r.others.Load() != 0 {
		t.Errorf("it gets %d after %d reviews, want 401 after none", code, r.others.Load())
	}
}
