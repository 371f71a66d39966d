package env

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strings"
	"time"
)

// Shift makes the clock of the API server differ by some time, as the operator behind the proxy sees it: the times of creation and
// deletion, which the API server alone sets. An operator that leads would send them back, so that it must not elect.
func (p *Proxy) Shift(by time.Duration) {
	stamp := regexp.MustCompile(`"(?:creationTimestamp|deletionTimestamp)":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)
	rewrite := p.forward.Rewrite
	p.forward.Rewrite = func(r *httputil.ProxyRequest) {
		rewrite(r)
		r.Out.Header.Set("Accept", readable(r.Out.Header.Get("Accept")))
		r.Out.Header.Del("Accept-Encoding")
	}
	p.forward.ModifyResponse = func(response *http.Response) error {
		response.Body = &shifted{from: bufio.NewReader(response.Body), closer: response.Body, by: by, stamp: stamp}
		return nil
	}
}

// readable leaves those content types that are text.
func readable(accepted string) string {
	var kept []string
	for kind := range strings.SplitSeq(accepted, ",") {
		if !strings.Contains(kind, "protobuf") && !strings.Contains(kind, "cbor") {
			kept = append(kept, kind)
		}
	}
	if len(kept) == 0 {
		return "application/json"
	}
	return strings.Join(kept, ",")
}

// shifted is an answer with other times. Each event of a watch is a line.
type shifted struct {
	from   *bufio.Reader
	closer io.Closer
	by     time.Duration
	// stamp matches a time that the API server has set. It has as many characters as every other one.
	stamp *regexp.Regexp
	rest  bytes.Buffer
	err   error
}

func (s *shifted) Read(into []byte) (int, error) {
	for s.rest.Len() == 0 {
		if s.err != nil {
			return 0, s.err
		}
		var line []byte
		line, s.err = s.from.ReadBytes('\n')
		s.rest.Write(s.stamp.ReplaceAllFunc(line, s.move))
	}
	return s.rest.Read(into)
}

func (s *shifted) move(found []byte) []byte {
	end := len(found) - 1
	begin := end - len("2006-01-02T15:04:05Z")
	at, err := time.Parse(time.RFC3339, string(found[begin:end]))
	if err != nil {
		return found
	}
	moved := at.Add(s.by).UTC().Format(time.RFC3339)
	return append(append(bytes.Clone(found[:begin]), moved...), found[end:]...)
}

func (s *shifted) Close() error { return s.closer.Close() }
