package fakeaws

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// Call is a request to AWS.
type Call struct {
	// Number counts from 1, repeated requests included.
	Number int
	// Action is what IAM policies call it, such as elasticfilesystem:DeleteFileSystem.
	Action string
	// Object is the ID in the request; empty for lists.
	Object string
	// Key is the ID of the signing access key; empty for an unsigned request.
	Key string
}

// Writes is true if the call may change something.
func (c Call) Writes() bool {
	return !regexp.MustCompile(`:(Describe|Get|List|Assume)`).MatchString(c.Action)
}

// Answer is what a request is answered with.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// CutOff breaks the connection in the middle of the body.
	CutOff bool
}

// Fault answers a call in place of AWS; send passes it on all the same. A nil answer breaks the connection.
type Fault func(send func() *Answer) *Answer

// Proxy stands between a program and moto, and adds what moto lacks. It pages access points, delays the creation and deletion of mount targets
// and file systems, and refuses to delete resources in use. It counts calls, and disturbs those that a test selects. Any number of programs
// can use it at once. In one point it is stricter than AWS: a file system with access points is in use as well.
type Proxy struct {
	URL string
	// Slow is how often a file system or a mount target is looked at until it is available, or gone. It is set before programs start.
	Slow int
	// Page, if set, is how many objects a list of EFS has at most, whatever it is asked for. It is set before programs start.
	Page int

	server *httptest.Server
	moto   string
	client *http.Client

	mutex   sync.Mutex
	calls   []Call
	disturb func(Call) Fault
	// left is how many looks an object takes to come or to go; coming says which.
	left   map[string]int
	coming map[string]bool
	// deleted are the access points that are gone.
	deleted map[string]bool
}

// NewProxy starts one in front of moto, which it empties. It ends with the test.
func NewProxy(t *testing.T, moto string) *Proxy {
	t.Helper()
	p, stop, err := Open(moto)
	env.Must(t, err)
	t.Cleanup(stop)
	return p
}

// Open starts the same for a program that is no test. The caller calls stop.
func Open(moto string) (p *Proxy, stop func(), err error) {
	p = &Proxy{moto: moto, client: oneByOne()}
	if err := p.empty(); err != nil {
		return nil, nil, err
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Start()
	p.URL = p.server.URL
	return p, func() {
		p.server.CloseClientConnections()
		p.server.Close()
	}, nil
}

// oneByOne opens a connection for each request. The end of any test server of the process, or moto, may close a kept connection right before
// its use.
func oneByOne() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// Reset empties moto and forgets all calls and disturbances.
func (p *Proxy) Reset(t *testing.T) {
	t.Helper()
	env.Must(t, p.empty())
}

func (p *Proxy) empty() error {
	answer, err := p.client.Post(p.moto+"/moto-api/reset", "text/plain", nil)
	if err == nil {
		err = answer.Body.Close()
	}
	if err != nil {
		return fmt.Errorf("empty the stand-in for AWS: %w", err)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.calls, p.disturb = nil, nil
	p.left, p.coming, p.deleted = map[string]int{}, map[string]bool{}, map[string]bool{}
	return nil
}

// Set replaces what disturbs, nil for nothing, and counts anew.
func (p *Proxy) Set(disturb func(Call) Fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.calls, p.disturb = nil, disturb
}

// Calls are those since Set or Reset.
func (p *Proxy) Calls() []Call {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return append([]Call(nil), p.calls...)
}

// Count is how many calls of an action there were since Set or Reset.
func (p *Proxy) Count(action string) int {
	count := 0
	for _, call := range p.Calls() {
		if call.Action == action {
			count++
		}
	}
	return count
}

// ServeHTTP answers a request. One at a time, so that moto is as AWS says it is.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		env.Drop(w)
		return
	}
	call := callOf(r, body)
	if query := r.URL.Query(); p.Page > 0 {
		for _, size := range []string{"MaxItems", "MaxResults"} {
			if query.Has(size) {
				query.Set(size, strconv.Itoa(p.Page))
			}
		}
		r.URL.RawQuery = query.Encode()
	}
	p.mutex.Lock()
	call.Number = len(p.calls) + 1
	p.calls = append(p.calls, call)
	var fault Fault
	if p.disturb != nil {
		fault = p.disturb(call)
	}
	p.mutex.Unlock()
	send := func() *Answer {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return p.strict(call, r, body)
	}
	var answer *Answer
	if fault != nil {
		answer = fault(send)
	} else {
		answer = send()
	}
	if answer == nil {
		env.Drop(w)
		return
	}
	for key, values := range answer.Header {
		if key != "Content-Length" {
			w.Header()[key] = values
		}
	}
	if answer.CutOff {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer.Body)))
		w.WriteHeader(answer.Status)
		_, _ = w.Write(answer.Body[:len(answer.Body)/2])
		_ = http.NewResponseController(w).Flush()
		env.Drop(w)
		return
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

// Error is an answer that is an error, as the service of the action writes it.
func Error(action string, status int, code, message string) *Answer {
	if strings.HasPrefix(action, "elasticfilesystem:") {
		body, _ := json.Marshal(map[string]string{"ErrorCode": code, "Message": message})
		return &Answer{Status: status, Body: body, Header: http.Header{"X-Amzn-Errortype": {code}, "Content-Type": {"application/json"}}}
	}
	text := fmt.Sprintf(`<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>1</RequestID></Response>`, code, message)
	if strings.HasPrefix(action, "sts:") {
		text = fmt.Sprintf(`<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, code, message)
	}
	return &Answer{Status: status, Body: []byte(text), Header: http.Header{"Content-Type": {"text/xml"}}}
}

// callOf reads from a request which call it is.
func callOf(r *http.Request, body []byte) Call {
	// Such as "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20260101/us-east-1/ec2/aws4_request, SignedHeaders=...".
	signed := regexp.MustCompile(`Credential=([^/]*)/[^/]*/[^/]*/([^/]*)/`).FindStringSubmatch(r.Header.Get("Authorization"))
	if signed == nil {
		// Requests for credentials are unsigned.
		signed = []string{"", "", "sts"}
	}
	key, service := signed[1], signed[2]
	if rest, efs := strings.CutPrefix(r.URL.Path, "/2015-02-01/"); efs {
		action, object := efsCall(r, rest)
		return Call{Action: action, Object: object, Key: key}
	}
	form, _ := url.ParseQuery(string(body))
	return Call{Action: service + ":" + form.Get("Action"), Object: cmp.Or(form.Get("GroupId"), form.Get("GroupId.1")), Key: key}
}

// efsCall reads the same from the path of a request to EFS.
func efsCall(r *http.Request, path string) (action, object string) {
	kind, object, _ := strings.Cut(path, "/")
	if id, of := strings.CutSuffix(object, "/security-groups"); of {
		return "elasticfilesystem:" + map[string]string{http.MethodGet: "Describe", http.MethodPut: "Modify"}[r.Method] + "MountTargetSecurityGroups", id
	}
	if kind == "resource-tags" {
		verb := map[string]string{http.MethodGet: "ListTagsFor", http.MethodPost: "Tag", http.MethodDelete: "Untag"}[r.Method]
		return "elasticfilesystem:" + verb + "Resource", object
	}
	noun := map[string]string{"file-systems": "FileSystem", "mount-targets": "MountTarget", "access-points": "AccessPoint"}[kind]
	for _, key := range []string{"AccessPointId", "MountTargetId", "FileSystemId"} {
		object = cmp.Or(object, r.URL.Query().Get(key))
	}
	verb := map[string]string{http.MethodGet: "Describe", http.MethodPost: "Create", http.MethodDelete: "Delete"}[r.Method]
	if verb == "Describe" {
		noun += "s"
	}
	return "elasticfilesystem:" + verb + noun, object
}

// pass sends a request to moto. If moto breaks, it answers as AWS does when it breaks.
func (p *Proxy) pass(method, address string, header http.Header, body []byte) *Answer {
	broken := func(err error) *Answer {
		return &Answer{Status: http.StatusBadGateway, Header: http.Header{}, Body: []byte(err.Error())}
	}
	request, err := http.NewRequest(method, p.moto+address, bytes.NewReader(body))
	if err != nil {
		return broken(err)
	}
	for _, key := range []string{"Authorization", "Content-Type", "X-Amz-Date", "X-Amz-Target"} {
		if value := header.Get(key); value != "" {
			request.Header.Set(key, value)
		}
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return broken(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return broken(err)
	}
	return &Answer{Status: answer.StatusCode, Header: answer.Header, Body: content}
}

// page cuts an answer with all access points to the page that was asked for.
func page(answer *Answer, query url.Values) *Answer {
	var all struct{ AccessPoints []json.RawMessage }
	if json.Unmarshal(answer.Body, &all) != nil || answer.Status != http.StatusOK {
		return answer
	}
	size, start := 100, 0
	if asked, err := strconv.Atoi(query.Get("MaxResults")); err == nil {
		size = min(asked, 100)
	}
	if token := query.Get("NextToken"); token != "" {
		start, _ = strconv.Atoi(strings.TrimPrefix(token, "from-"))
	}
	start = min(start, len(all.AccessPoints))
	end := min(start+size, len(all.AccessPoints))
	content := map[string]any{"AccessPoints": all.AccessPoints[start:end]}
	if end < len(all.AccessPoints) {
		content["NextToken"] = "from-" + strconv.Itoa(end)
	}
	answer.Body, _ = json.Marshal(content)
	return answer
}
