package fakeopenstack

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxRequest is more than anybody sends.
const maxRequest = 1 << 20

func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// handler routes by path.
func (c *Cloud) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /identity/v3/auth/tokens", c.service(Keystone, c.tokensCreate))
	mux.Handle("GET /compute/v2.1/os-availability-zone", c.service(Nova, c.authenticated(Nova, c.zonesOf(func() []Zone { return c.compute }, true))))
	mux.Handle("GET /volume/v3/{project}/os-availability-zone", c.service(Cinder, c.authenticated(Cinder, c.inProject(
		c.zonesOf(func() []Zone { return c.volume }, false)))))
	mux.Handle("GET /share/v2/types", c.service(Manila, c.authenticated(Manila, c.shareTypes)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.set(func() { c.counts[Service("unknown "+r.Method+" "+r.URL.Path)]++ })
		fault(w, http.StatusNotFound, "itemNotFound", "The resource could not be found.")
	})
	return mux
}

// service counts, and fails where that is wanted.
func (c *Cloud) service(name Service, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var wanted Fault
		c.set(func() {
			c.counts[name]++
			wanted = c.faults[name]
			if left := wanted.Times - 1; wanted.Times > 0 {
				next := wanted
				if next.Times = left; left == 0 {
					next = Fault{}
				}
				c.faults[name] = next
			}
		})
		if wanted.Latency > 0 {
			select {
			case <-r.Context().Done():
				// A client that is about to close its connection could still read an empty answer.
				panic(http.ErrAbortHandler) //nolint:forbidigo // So net/http ends a connection.
			case <-time.After(wanted.Latency):
			}
		}
		switch {
		case wanted.Truncated:
			w = &cut{ResponseWriter: w}
		case wanted.Redirect != "":
			http.Redirect(w, r, wanted.Redirect, http.StatusFound)
			return
		case wanted.Body != "":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(max(wanted.Status, http.StatusOK))
			_, _ = io.WriteString(w, wanted.Body)
			return
		case wanted.Status != 0:
			if wanted.RetryAfter != "" {
				w.Header().Set("Retry-After", wanted.RetryAfter)
			}
			fault(w, wanted.Status, faultName(name, wanted.Status), "It was told to fail.")
			return
		}
		next(w, r)
	})
}

// cut sends half of an answer and ends the connection.
type cut struct{ http.ResponseWriter }

// Write sends half, with the length of the whole.
func (c *cut) Write(content []byte) (int, error) {
	c.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = c.ResponseWriter.Write(content[:len(content)/2])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler) //nolint:forbidigo // So net/http ends a connection.
}

// WriteHeader waits for the content, which says the length.
func (c *cut) WriteHeader(int) {}

// faultName is the key of an error's body. Manila and Cinder limit as overLimitFault (manila/api/openstack/wsgi.py OverLimitFault).
func faultName(name Service, status int) string {
	if name == Keystone {
		return "error"
	}
	switch status {
	case http.StatusUnauthorized:
		return "error"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusTooManyRequests:
		return "overLimit"
	case http.StatusRequestEntityTooLarge:
		return "overLimitFault"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	default:
		return "computeFault"
	}
}

func fault(w http.ResponseWriter, status int, name, message string) {
	answer(w, status, map[string]any{name: map[string]any{"code": status, "message": message, "title": http.StatusText(status)}})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte("{}")
	}
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// authenticated is keystonemiddleware: without a good token nothing is answered. X-Auth-Token is its only way.
func (c *Cloud) authenticated(_ Service, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		good := false
		c.set(func() {
			ends, known := c.tokens[r.Header.Get("X-Auth-Token")]
			good = known && c.now().Before(ends)
		})
		if !good {
			w.Header().Set("WWW-Authenticate", `Keystone uri="`+strings.TrimSuffix(c.URL, "/v3")+`"`)
			fault(w, http.StatusUnauthorized, "error", "The request you have made requires authentication.")
			return
		}
		if accept := r.Header.Get("Accept"); accept != "application/json" {
			fault(w, http.StatusNotAcceptable, "computeFault", "Stricter than the services: they answer JSON to everything.")
			return
		}
		next(w, r)
	}
}

// inProject refuses a path with another project than the token's, as Cinder does.
func (c *Cloud) inProject(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("project") != c.User().ProjectID {
			fault(w, http.StatusBadRequest, "badRequest", "Malformed request url")
			return
		}
		next(w, r)
	}
}

func (c *Cloud) zonesOf(which func() []Zone, compute bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := []map[string]any{}
		c.set(func() {
			for _, zone := range which() {
				one := map[string]any{"zoneName": zone.Name, "zoneState": map[string]any{"available": !zone.Disabled}}
				if compute {
					one["hosts"] = nil
				}
				list = append(list, one)
			}
		})
		answer(w, http.StatusOK, map[string]any{"availabilityZoneInfo": list})
	}
}

// shareTypes lists what Manila offers. A request without a microversion is refused: a real Manila takes it as 2.0, which is stricter here.
func (c *Cloud) shareTypes(w http.ResponseWriter, r *http.Request) {
	version := r.Header.Get("X-OpenStack-Manila-API-Version")
	switch match := regexp.MustCompile(`^2\.(\d+)$`).FindStringSubmatch(version); {
	case match == nil:
		fault(w, http.StatusBadRequest, "badRequest", "API Version String "+strconv.Quote(version)+" is of invalid format. Must be of format MajorNum.MinorNum.")
		return
	case len(match[1]) > 2:
		fault(w, http.StatusNotAcceptable, "computeFault", "Version "+version+" is not supported by the API. Minimum is 2.0 and maximum is 2.99.")
		return
	}
	w.Header().Set("X-OpenStack-Manila-API-Version", version)
	w.Header().Set("Vary", "X-OpenStack-Manila-API-Version")
	page, next, err := c.page(r.URL.Query())
	if err != "" {
		fault(w, http.StatusBadRequest, "badRequest", err)
		return
	}
	list := []map[string]any{}
	for _, one := range page {
		list = append(list, map[string]any{
			"id": one.ID, "name": one.Name, "share_type_access:is_public": true,
			"extra_specs": map[string]any{"driver_handles_share_servers": "False"}, "required_extra_specs": map[string]any{"driver_handles_share_servers": "False"},
		})
	}
	body := map[string]any{"share_types": list, "volume_types": list}
	if next != "" {
		body["share_types_links"] = []map[string]any{{"rel": "next", "href": next}}
	}
	answer(w, http.StatusOK, body)
}

// page is what limit and marker ask for, and the link to what follows.
func (c *Cloud) page(query url.Values) (page []ShareType, next, problem string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	page = slices.Clone(c.types)
	if marker := query.Get("marker"); marker != "" {
		at := slices.IndexFunc(page, func(one ShareType) bool { return one.ID == marker })
		if at < 0 {
			return nil, "", fmt.Sprintf("marker [%s] not found", marker)
		}
		page = page[at+1:]
	}
	size := c.pageSize
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 0 {
			return nil, "", "limit param must be an integer that is not negative"
		}
		if size == 0 || limit < size {
			size = limit
		}
	}
	if size > 0 && len(page) > size {
		page = page[:size]
		values := url.Values{"limit": {strconv.Itoa(size)}, "marker": {page[size-1].ID}}
		next = "https://" + c.address + "/share/v2/types?" + values.Encode()
	}
	return page, next, ""
}
