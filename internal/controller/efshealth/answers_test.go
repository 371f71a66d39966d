package efshealth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// answering connects a reconciler, whose polls have 1 MiB, with an AWS that a function stands for.
func answering(t *testing.T, answer http.HandlerFunc) (*Reconciler, Cloud) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	r, _ := newReconciler(t)
	r.poller.answers.MaxRound = 1 << 20
	cloud, err := aws.New(t.Context(), aws.Options{
		Region: "us-east-1", Secret: &aws.Secret{AccessKeyID: "a", SecretAccessKey: "b"}, MaxBackoff: time.Millisecond, Wrap: r.bound,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, cloud
}

// Whoever answers in the place of AWS says that there is always one more page.
func TestTheAnswersOfAPollAreBoundedTogether(t *testing.T) {
	pages, endless := 0, true
	r, cloud := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		pages++
		next := ""
		if endless && pages%100 != 0 {
			next = fmt.Sprintf(`, "NextMarker": "%d"`, pages)
		}
		_, _ = fmt.Fprintf(w, `{"FileSystems": [{"FileSystemId": "fs-1", "Name": "%s"}]%s}`, strings.Repeat("x", 64<<10), next)
	})
	for poll := range 2 {
		pages = 0
		pollNow(t, r, subject{cloud: cloud, used: inUse()})
		if !strings.Contains(r.problem, "the answers of one poll together are too long") || pages > 17 {
			t.Errorf("poll %d: problem %q after %d pages", poll, r.problem, pages)
		}
	}
	endless = false
	pollNow(t, r, subject{cloud: cloud, used: inUse()})
	if r.failures != 0 || r.seen == nil {
		t.Errorf("it goes on failing: %s", r.problem)
	}
}

func TestARequestWhoseAnswerIsCutOffIsRepeated(t *testing.T) {
	requests := 0
	r, cloud := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		const answer = `{"FileSystems": []}`
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		if requests++; requests == 1 {
			_, _ = w.Write([]byte(answer[:9]))
			return
		}
		_, _ = w.Write([]byte(answer))
	})
	pollNow(t, r, subject{cloud: cloud, used: inUse()})
	if r.seen == nil || requests != 2 {
		t.Errorf("after %d requests: %s", requests, r.problem)
	}
}
