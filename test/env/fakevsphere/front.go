package fakevsphere

import (
	"bytes"
	"crypto/tls"
	"encoding/xml"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRequest is more than anybody sends.
const maxRequest = 16 << 20

// Fault is what the vCenter does instead of answering. The zero value is no fault.
type Fault struct {
	// Latency is how long the answer takes, whatever it is.
	Latency time.Duration
	// Status is answered instead, with RetryAfter as its header if it is set. The request is not carried out.
	Status     int
	RetryAfter string
	// Body is answered with status 200 (or Status) instead of what the vCenter would say.
	Body string
	// Cut ends the connection before anything is carried out.
	Cut bool
	// Hang never answers: until the client gives up, or the vCenter is closed.
	Hang bool
	// Truncated carries the request out, and ends the connection in the middle of the answer.
	Truncated bool
	// Lost carries the request out, and ends the connection without an answer.
	Lost bool
	// After is how many requests pass before the first has it. Times is how many have it; 0 means all until it is set again.
	After, Times int
}

// Request is one that came in.
type Request struct {
	// Kind is the SOAP method, such as "PbmCreate", or the operation of the automation API, such as "tag.create" or "tag-association.attach".
	Kind string
	// Write tells whether it changes something that outlives the session.
	Write bool
	// Body is what was sent, of writes only: logins have passwords.
	Body string
	// Agent is the client's name.
	Agent string
}

// SetFault makes requests of a kind fail in a way: see Request.Kind; an empty kind means all requests that have no fault of their kind. The
// zero value ends it.
func (v *VCenter) SetFault(kind string, fault Fault) {
	v.set(func() {
		if fault == (Fault{}) {
			delete(v.faults, kind)
			return
		}
		v.faults[kind] = fault
	})
}

// ClearFaults ends all faults.
func (v *VCenter) ClearFaults() { v.set(func() { clear(v.faults) }) }

// Requests are all since the last Reset, in order, including refused and failed ones.
func (v *VCenter) Requests() []Request {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return slices.Clone(v.requests)
}

// Count is how many of them there were of a kind; of all kinds if it is empty.
func (v *VCenter) Count(kind string) int {
	count := 0
	for _, one := range v.Requests() {
		if kind == "" || one.Kind == kind {
			count++
		}
	}
	return count
}

// Counts are the numbers of requests by kind.
func (v *VCenter) Counts() map[string]int {
	counts := map[string]int{}
	for _, one := range v.Requests() {
		counts[one.Kind]++
	}
	return counts
}

// Writes are the kinds of the requests that change something, in order.
func (v *VCenter) Writes() []string {
	kinds := []string{}
	for _, one := range v.Requests() {
		if one.Write {
			kinds = append(kinds, one.Kind)
		}
	}
	return kinds
}

// Reset forgets the requests and the numbers of logins. Sessions stay.
func (v *VCenter) Reset() {
	v.set(func() {
		v.requests = nil
		clear(v.logins)
	})
}

func (v *VCenter) newServer() *http.Server {
	// HTTP/1.1 has one request at a time on a connection: ending it loses no other answer.
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{v.certificate.tls}}
	return &http.Server{
		Handler: http.HandlerFunc(v.serve), TLSConfig: config, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// serve counts, fails where that is wanted, and passes on.
func (v *VCenter) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next, kind := http.Handler(v.service.ServeMux), ""
	if strings.HasPrefix(r.URL.Path, "/sdk") && r.Method == http.MethodPost || strings.HasPrefix(r.URL.Path, "/pbm") {
		kind = method(body)
	} else {
		kind, _ = operation(r)
		if !strings.HasPrefix(r.URL.Path, "/sdk") {
			next = v.rest
		}
	}
	fault := v.record(kind, r.UserAgent(), string(body))
	if fault.Latency > 0 {
		select {
		case <-r.Context().Done():
			// A client that is about to close its connection could still read an empty answer.
			fault = Fault{Cut: true}
		case <-time.After(fault.Latency):
		}
	}
	switch {
	case fault.Cut || fault.Hang:
		if fault.Hang {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler) //nolint:forbidigo // So net/http ends a connection.
	case fault.Lost || fault.Truncated:
		lose(w, r, next, fault)
	case fault.Body != "" || fault.Status != 0:
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		w.WriteHeader(max(fault.Status, http.StatusOK))
		_, _ = io.WriteString(w, fault.Body)
	default:
		next.ServeHTTP(w, r)
	}
}

// lose carries a request out, and ends the connection without the answer or in its middle.
func lose(w http.ResponseWriter, r *http.Request, next http.Handler, fault Fault) {
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	if fault.Truncated {
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		content := recorder.Body.Bytes()
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
	}
	panic(http.ErrAbortHandler) //nolint:forbidigo // So net/http ends a connection.
}

// record counts a request, and returns the fault that it has.
func (v *VCenter) record(kind, agent, body string) (fault Fault) {
	write := isWrite(kind)
	if !write {
		body = ""
	}
	v.set(func() {
		v.requests = append(v.requests, Request{Kind: kind, Write: write, Body: body, Agent: agent})
		of := kind
		wanted, found := v.faults[of]
		if !found {
			of = ""
			wanted = v.faults[of]
		}
		if wanted.After > 0 {
			wanted.After--
			v.faults[of] = wanted
			return
		}
		fault = wanted
		if wanted.Times > 0 {
			wanted.Times--
			v.faults[of] = wanted
			if wanted.Times == 0 {
				delete(v.faults, of)
			}
		}
	})
	return fault
}

// isWrite tells whether a kind of request changes something that outlives the session. What is not known does.
func isWrite(kind string) bool {
	if resource, action, found := strings.Cut(kind, "."); found && !strings.Contains(kind, " ") {
		return resource != "session" && action != "get" && !strings.HasPrefix(action, "list")
	}
	for _, reads := range []string{
		"Retrieve", "ContinueRetrieve", "PbmRetrieve", "PbmQuery", "Fetch", "Has", "Find", "Query", "WaitForUpdates", "CancelWaitForUpdates", "CurrentTime",
		"Login", "Logout", "SessionIsActive", "CreateContainerView", "CreateListView", "CreatePropertyCollector", "CreateFilter", "Destroy", "GET ",
	} {
		if strings.HasPrefix(kind, reads) && kind != "Destroy_Task" {
			return false
		}
	}
	return true
}

// method is the name of the first element in the body of a SOAP envelope; empty if there is none.
func method(envelope []byte) string {
	decoder := xml.NewDecoder(bytes.NewReader(envelope))
	inside := false
	for {
		token, err := decoder.Token()
		if err != nil {
			return "invalid"
		}
		if start, ok := token.(xml.StartElement); ok {
			if inside {
				return start.Name.Local
			}
			inside = start.Name.Local == "Body"
		}
	}
}
