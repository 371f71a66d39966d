package env

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Audit reads the API server's audit log. The API server writes an entry before it answers, so a request that was
// answered is in the file.
type Audit struct {
	File string
}

// Mark is a place in the log.
type Mark int64

// Request is one entry of the audit log.
type Request struct {
	Verb     string `json:"verb"`
	URI      string `json:"requestURI"`
	Stage    string `json:"stage"`
	Received string `json:"requestReceivedTimestamp"`
	// UserAgent begins with the name of the program.
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Group       string `json:"apiGroup"`
		Version     string `json:"apiVersion"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	// Annotations say what the API server has decided on the way.
	Annotations map[string]string `json:"annotations"`
}

// String names the request in the way of kubectl.
func (r Request) String() string {
	resource := r.Object.Resource
	if r.Object.Subresource != "" {
		resource += "/" + r.Object.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s (%d)", r.Verb, resource, r.Object.Namespace, r.Object.Name, r.Response.Code)
}

// IsWrite is true for a request that may change the cluster.
func (r Request) IsWrite() bool {
	switch r.Verb {
	case "get", "list", "watch":
		return false
	default:
		return true
	}
}

// IsLease is true for leader election.
func (r Request) IsLease() bool { return r.Object.Resource == "leases" }

// Now is the current end of the log.
func (a Audit) Now() (Mark, error) {
	info, err := os.Stat(a.File)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	return Mark(info.Size()), nil
}

// IsRefused reports whether the operator asked for something that it has no right to. An allowed write is refused as well if it would grant
// what the operator does not hold. That nothing is made in a namespace which ends has nothing to do with RBAC.
func (r Request) IsRefused() bool {
	return r.Response.Code == http.StatusForbidden && !strings.Contains(r.Response.Message, "because it is being terminated")
}

// NoRefusals returns an error that names what these users have asked for since a mark, and have no right to.
func (a Audit) NoRefusals(mark Mark, users ...string) error {
	requests, err := a.Since(mark, users...)
	if refused := Filter(requests, Request.IsRefused); len(refused) > 0 {
		return errors.New("requests that the operator has no right to:\n" + Describe(refused))
	}
	return err
}

// Since returns the requests of some users after a mark, each once: a watch when it is answered, all others when they
// are complete.
func (a Audit) Since(mark Mark, users ...string) ([]Request, error) {
	found, _, err := a.Next(mark, users...)
	return found, err
}

// Next is Since that also returns the mark to go on from. A caller that asks again and again need not read all of it anew.
func (a Audit) Next(mark Mark, users ...string) ([]Request, Mark, error) {
	file, err := os.Open(a.File)
	if err != nil {
		return nil, mark, fmt.Errorf("audit log: %w", err)
	}
	defer file.Close()
	// From the end of the line before: the mark may lie within a line that was being written.
	from := max(mark-1, 0)
	if _, err := file.Seek(int64(from), io.SeekStart); err != nil {
		return nil, mark, fmt.Errorf("audit log: %w", err)
	}
	var found []Request
	reader := bufio.NewReader(file)
	if mark > 0 {
		rest, err := reader.ReadBytes('\n')
		if err != nil {
			return nil, mark, nil //nolint:nilerr // It is still being written.
		}
		mark = from + Mark(len(rest))
	}
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			// A last line without its end is still being written.
			return found, mark, nil //nolint:nilerr // The end of the file is not a failure.
		}
		mark += Mark(len(line))
		var request Request
		if !slices.ContainsFunc(users, func(user string) bool { return bytes.Contains(line, []byte(user)) }) {
			continue
		}
		if err := json.Unmarshal(line, &request); err != nil {
			return nil, mark, fmt.Errorf("audit log: %w", err)
		}
		started := request.Stage == "ResponseStarted"
		if slices.Contains(users, request.User.Username) && started == (request.Verb == "watch") {
			found = append(found, request)
		}
	}
}

// Filter keeps the requests that match.
func Filter(requests []Request, match func(Request) bool) []Request {
	var kept []Request
	for _, request := range requests {
		if match(request) {
			kept = append(kept, request)
		}
	}
	return kept
}

// Describe lists requests, one a line.
func Describe(requests []Request) string {
	lines := make([]string, 0, len(requests))
	for _, request := range requests {
		lines = append(lines, "  "+request.String())
	}
	return strings.Join(lines, "\n")
}
