package aws

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/test/env"
)

// breaking carries requests to AWS, and breaks each action three times: first it does not arrive, then reading its answer fails
// as if this end had closed the connection, then its answer ends too early.
type breaking struct {
	next  http.RoundTripper
	times map[string]int
}

func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	action := r.Method + r.URL.Path
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil {
			action += form.Get("Action")
		}
	}
	b.times[action]++
	if b.times[action] == 1 {
		return nil, errors.New("connection refused")
	}
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch b.times[action] {
	case 2:
		answer.Body = brokenBody{answer.Body, &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}}
	case 3:
		answer.Body = brokenBody{answer.Body, io.ErrUnexpectedEOF}
	}
	return answer, nil
}

// brokenBody can't be read.
type brokenBody struct {
	io.Closer
	err error
}

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

// What a test makes before it starts is there, and once, whatever the connections to the stand-in do.
func TestAnswersThatBreakDoNotHurtTheSetUpOfATest(t *testing.T) {
	c := newCloud(t)
	broken := &breaking{next: c.HTTP.Transport, times: map[string]int{}}
	c.HTTP.Transport = broken
	mine := c.furnish(infra)
	c.Retag(mine.points[0], "colour", "blue")
	c.Retag(mine.points[0], "colour", "")
	c.WantLeft(mine.all()...)
	// Each creation and what looks for it, a tag put on and taken off, and the lists of all.
	if len(broken.times) != 14 {
		t.Errorf("these were broken: %v", broken.times)
	}
	c.HTTP.Transport = broken.next
	c.WantLeft(mine.all()...)
	vpcs, err := c.EC2.DescribeVpcs(t.Context(), nil)
	env.Must(t, err)
	// One is the default one of the account.
	if len(vpcs.Vpcs) != 2 {
		t.Errorf("%d VPCs, want 2", len(vpcs.Vpcs))
	}
}

// Programs that run side by side have keys of their own, and see what each other have done.
func TestTheProxyServesSeveralProgramsAtOnce(t *testing.T) {
	const each = 20
	c := newCloud(t)
	fileSystem := c.FileSystem(of(infra), "")
	c.Set(nil)
	var all sync.WaitGroup
	want := map[string]int{}
	for _, key := range []string{"AKIAONE", "AKIATWO", "AKIATHREE"} {
		t.Setenv("AWS_ACCESS_KEY_ID", key)
		client, err := aws.New(t.Context(), aws.Options{Region: region, RequestsPerMinute: 1e8})
		env.Must(t, err)
		want[key+" elasticfilesystem:DescribeFileSystems "+fileSystem] = each
		all.Go(func() {
			for range each {
				if _, err := client.FileSystem(t.Context(), fileSystem); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := map[string]int{}
	for _, call := range c.Calls() {
		got[call.Key+" "+call.Action+" "+call.Object]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := c.Count("elasticfilesystem:DescribeFileSystems"); got != 3*each {
		t.Errorf("%d calls are counted, want %d", got, 3*each)
	}
}
