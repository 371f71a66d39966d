package vsphere_test

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// fails polls, and returns the error of the only vCenter.
func (s *scene) fails() *vsphere.Error {
	s.t.Helper()
	s.Tick(s.t.Context())
	if s.only().Err == nil {
		s.t.Fatal("no error")
	}
	return s.only().Err
}

func TestASessionIsKeptAndRenewedOnceWhenItHasEnded(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	for range 5 {
		s.tick()
		s.clock.pass(vsphere.Interval)
	}
	if c.requests("Login") != 1 || c.requests("POST /session") != 1 || c.requests("CreateContainerView") != 1 || s.reads != 1 {
		t.Errorf("%v, %d reads of the Source", c.counts, s.reads)
	}
	c.expire()
	c.reset()
	s.tick()
	if c.requests("Login") != 1 || c.requests("POST /session") != 1 || s.woken != 1 {
		t.Errorf("after the end of the session: %v, %d wakes", c.counts, s.woken)
	}
	// Only the REST session expires.
	c.setFault(restGone(c))
	c.reset()
	s.clock.pass(vsphere.Interval)
	s.tick()
	if c.requests("Login") != 1 || c.requests("POST /session") != 1 || c.requests("Logout") != 1 {
		t.Errorf("after the end of the REST API's session: %v", c.counts)
	}
}

// This is not a rejected login, which would delay the next one.
func TestASessionThatEndsTwiceInAPollIsSoonOpenedAgain(t *testing.T) {
	c := startCenter(t, 1, nil)
	for asked, end := range map[string]func(http.ResponseWriter){
		"RetrievePropertiesEx":   func(w http.ResponseWriter) { soapFault(w, "NotAuthenticated") },
		"GET /tagging/category ": func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
	} {
		s := newScene(t, c)
		s.tick()
		c.setFault(func(w http.ResponseWriter, _ *http.Request, now string) bool {
			if now == asked {
				end(w)
			}
			return now == asked
		})
		s.clock.pass(vsphere.Interval)
		for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
			c.reset()
			wait := s.Tick(t.Context())
			if failure := s.only().Err; failure == nil || failure.Reason != vsphere.InvalidAnswer || !strings.Contains(failure.Why, "session") ||
				strings.Contains(failure.Why, "Secret") || c.requests("Login") != 1 || wait != want {
				t.Errorf("%s: the next poll is in %s, want %s: %v: %v", asked, wait, want, failure, c.counts)
			}
			s.clock.pass(wait)
		}
		c.setFault(nil)
		s.tick()
	}
}

// restGone rejects one request of the REST API.
func restGone(c *center) func(http.ResponseWriter, *http.Request, string) bool {
	return func(w http.ResponseWriter, _ *http.Request, asked string) bool {
		if !strings.HasPrefix(asked, "GET /tagging/category") {
			return false
		}
		c.setFault(nil)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

func TestOnlyAVCenterWithATrustedCertificateGetsThePassword(t *testing.T) {
	c := startCenter(t, 1, nil)
	_, other := certify(t, c.host)
	block, _ := pem.Decode(leafOf(c))
	for name, tc := range map[string]struct {
		roots      string
		insecure   bool
		thumbprint string
		caFile     string
		reason     vsphere.Reason
	}{
		"its CA":                    {roots: string(c.ca)},
		"two CAs":                   {roots: string(other) + string(c.ca)},
		"no CA":                     {reason: vsphere.UntrustedCertificate},
		"another CA":                {roots: string(other), reason: vsphere.UntrustedCertificate},
		"no PEM":                    {roots: "x", reason: vsphere.UntrustedCertificate},
		"insecure":                  {insecure: true},
		"thumbprint":                {thumbprint: colons(fmt.Sprintf("%x", sha1.Sum(block.Bytes)))},
		"thumbprint of SHA-256":     {thumbprint: colons(fmt.Sprintf("%X", sha256.Sum256(block.Bytes)))},
		"another thumbprint":        {thumbprint: colons(fmt.Sprintf("%X", sha1.Sum([]byte("x")))), reason: vsphere.UntrustedCertificate},
		"its CA, other thumbprint":  {roots: string(c.ca), thumbprint: "00:11"},
		"a thumbprint that is idle": {thumbprint: colons(fmt.Sprintf("%X", sha1.Sum(block.Bytes))), caFile: "/ca", reason: vsphere.UntrustedCertificate},
	} {
		s := newScene(t, c)
		s.roots = []byte(tc.roots)
		s.config.VCenters[0].Insecure, s.config.VCenters[0].Thumbprint, s.config.VCenters[0].CAFile = tc.insecure, tc.thumbprint, tc.caFile
		c.reset()
		s.Tick(t.Context())
		one := s.only()
		if (one.Err == nil) != (tc.reason == "") || one.Err != nil && one.Err.Reason != tc.reason || one.Insecure != tc.insecure {
			t.Errorf("%s: %v", name, one.Err)
		}
		if one.Err != nil && c.requests("") > 0 {
			t.Errorf("%s: %v", name, c.counts)
		}
	}
	// A certificate for another host.
	s := newScene(t, c)
	s.config.VCenters[0].Server = "localhost"
	s.logins["localhost"] = s.logins[c.host]
	if failure := s.fails(); failure.Reason != vsphere.UntrustedCertificate && failure.Reason != vsphere.NoConnection {
		t.Error(failure)
	}
}

func leafOf(c *center) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.TLS.Certificates[0].Certificate[0]})
}

func colons(hex string) string {
	var parts []string
	for i := 0; i < len(hex); i += 2 {
		parts = append(parts, hex[i:i+2])
	}
	return strings.Join(parts, ":")
}

// The total size of a list is limited, even if each page is small enough.
func TestTheAnswersOfAPollAreBoundedTogether(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.MaxRound = 1 << 20
	s.tick()
	page := `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><%[1]sResponse xmlns="urn:vim25"><returnval><token>t</token></returnval></%[1]sResponse>` +
		strings.Repeat(" ", 400<<10) + `</Body></Envelope>`
	c.setFault(func(w http.ResponseWriter, _ *http.Request, asked string) bool {
		asked = strings.TrimSpace(asked)
		if strings.HasSuffix(asked, "RetrievePropertiesEx") {
			fmt.Fprintf(w, page, asked)
			return true
		}
		return false
	})
	s.clock.pass(vsphere.Interval)
	if failure := s.fails(); !strings.Contains(failure.Error(), "read the inventory: the answers of one poll together are too long") {
		t.Error(failure)
	}
	if pages := c.requests("ContinueRetrievePropertiesEx"); pages != 2 {
		t.Errorf("%d pages after the first", pages)
	}
	c.setFault(nil)
	s.clock.pass(vsphere.Interval)
	s.tick()
}

func TestEveryFailureHasItsReasonAndNoTextOfTheVCenter(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.9/")
			w.WriteHeader(code)
			fmt.Fprint(w, "secret text of a vCenter ", password)
		}
	}
	fault := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { soapFault(w, name) }
	}
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	c := startCenter(t, 1, nil)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		reason vsphere.Reason
		says   string
		// soap and rest select the API.
		soap, rest bool
	}{
		"302":           {status(302), vsphere.InvalidAnswer, "HTTP 302", true, true},
		"404 of SOAP":   {status(404), vsphere.InvalidAnswer, "HTTP 404", true, false},
		"403":           {status(403), vsphere.NotAuthorized, "privileges", false, true},
		"404":           {status(404), vsphere.Conflict, "HTTP 404", false, true},
		"400":           {status(400), vsphere.InvalidAnswer, "HTTP 400", false, true},
		"429":           {status(429), vsphere.Overloaded, "HTTP 429", true, true},
		"500 with HTML": {status(500), vsphere.InvalidAnswer, "", true, true},
		"503":           {status(503), vsphere.Overloaded, "starting", true, true},
		"504":           {status(504), vsphere.Timeout, "HTTP 504", true, true},
		"unauthorized":  {fault("NoPermission"), vsphere.NotAuthorized, "privileges", true, false},
		"privilege": {func(w http.ResponseWriter, _ *http.Request) {
			soapFaultWith(w, "NoPermission", "<object type=\"Folder\">x</object><privilegeId>StorageProfile.View</privilegeId>")
		}, vsphere.NotAuthorized, "the user lacks the privilege StorageProfile.View: grant", true, false},
		"odd privilege": {func(w http.ResponseWriter, _ *http.Request) {
			soapFaultWith(w, "NoPermission", "<object type=\"Folder\">x</object><privilegeId>secret text</privilegeId>")
		}, vsphere.NotAuthorized, "the user may not do this", true, false},
		"fault":          {fault("InvalidProperty"), vsphere.InvalidAnswer, "the fault InvalidProperty", true, false},
		"unknown fault":  {fault("NoSuchThing"), vsphere.InvalidAnswer, "", true, false},
		"nothing":        {body(""), vsphere.InvalidAnswer, "not from a vCenter", true, true},
		"HTML":           {body("<html>secret text of a vCenter</b>"), vsphere.InvalidAnswer, "not from a vCenter", true, true},
		"another type":   {body(`{"value": {"secret text of a vCenter": 7}}`), vsphere.InvalidAnswer, "not from a vCenter", false, true},
		"null":           {body(`{}`), vsphere.InvalidAnswer, "not from a vCenter", false, true},
		"without an end": {body(`{"value": ["` + strings.Repeat("x", 2<<20)), vsphere.InvalidAnswer, "too long", false, true},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"value": ["`)
		}, vsphere.NoConnection, "broke", false, true},
		"hung up": {hangUp, vsphere.NoConnection, "closed", true, true},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			// A server notices a closed connection only after it has read the request.
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			// A return would answer with 200 and no body, and a client that says goodbye before it closes the connection could still read that.
			panic(http.ErrAbortHandler) //nolint:forbidigo // So net/http ends a connection.
		}, vsphere.Timeout, "in time", true, true},
	} {
		// One answer is given to all requests of SOAP; the others are given to the first one.
		all := name == "503"
		for asked, wanted := range map[string]bool{
			"CreateContainerView": tc.soap && all, "PbmQueryProfile": tc.soap && all, "GET /tagging/category": tc.rest, "Login": tc.soap,
		} {
			if !wanted {
				continue
			}
			s := newScene(t, c)
			switch name {
			case "slow":
				s.Timeout = 300 * time.Millisecond
			case "without an end":
				s.MaxAnswer = 1 << 20
			}
			c.setFault(func(w http.ResponseWriter, r *http.Request, now string) bool {
				if strings.TrimSpace(now) != asked {
					return false
				}
				tc.answer(w, r)
				return true
			})
			failure := s.fails()
			text := fmt.Sprintf("%v %+v %#v %q", failure, failure, failure, failure)
			if failure.Reason != tc.reason || !strings.Contains(text, tc.says) || strings.Contains(text, "secret text") || strings.Contains(text, "s3cret") {
				t.Errorf("%s of %s: %s, want %s: %s", name, asked, failure.Reason, tc.reason, text)
			}
			if failure.Server != c.host || failure.What == "" {
				t.Errorf("%s of %s: %s", name, asked, text)
			}
		}
	}
}

// hangUp closes the connection without a response.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
}

func TestAHostIsNoVCenter(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	c.setFault(func(w http.ResponseWriter, _ *http.Request, asked string) bool {
		soapAnswer(w, "vim25", asked, `<returnval><rootFolder type="Folder">x</rootFolder><propertyCollector type="PropertyCollector">x</propertyCollector>`+
			`<about><name>VMware ESXi</name><apiType>HostAgent</apiType></about></returnval>`)
		return true
	})
	if failure := s.fails(); failure.Reason != vsphere.InvalidAnswer || !strings.Contains(failure.Error(), "this is not a vCenter") || c.requests("Login") != 0 {
		t.Errorf("%v: %v", failure, c.counts)
	}
}

func TestOneOfThreeVCentersThatIsAwayKeepsItsLastAnswer(t *testing.T) {
	one, two, three := startCenter(t, 1, nil), startCenter(t, 2, nil), startCenter(t, 3, nil)
	s := newScene(t, one, two, three)
	s.tick()
	before := s.Snapshot()
	two.server.CloseClientConnections()
	two.server.Config.SetKeepAlivesEnabled(false)
	must(t, two.server.Listener.Close())
	s.clock.pass(vsphere.Interval)
	if wait := s.Tick(t.Context()); wait != 30*time.Second {
		t.Errorf("the next poll is in %s", wait)
	}
	seen := s.Snapshot()
	if len(seen.VCenters) != 3 || seen.VCenters[0].Err != nil || seen.VCenters[2].Err != nil {
		t.Fatalf("%+v", seen)
	}
	kept, old := seen.VCenters[1], before.VCenters[1]
	if kept.Err == nil || kept.Err.Reason != vsphere.NoConnection || kept.Server != "127.0.0.2" || !kept.FailingSince.Equal(s.clock.now()) ||
		!kept.Answered.Equal(old.Answered) || len(kept.Hosts) != len(old.Hosts) || !seen.VCenters[0].Answered.After(old.Answered) {
		t.Errorf("%v %+v", kept.Err, kept)
	}
	// A lasting error is logged once, and FailingSince stays.
	woken, since := s.woken, kept.FailingSince
	for range 4 {
		s.clock.pass(vsphere.Interval)
		s.Tick(t.Context())
	}
	if kept = s.Snapshot().VCenters[1]; s.woken > woken+1 || !kept.FailingSince.Equal(since) || len(kept.Hosts) == 0 {
		t.Errorf("%d wakes, failing since %s", s.woken-woken, kept.FailingSince)
	}
}

func TestTheBudgetOfRequestsIsKept(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	overloaded := false
	for i := range 20 {
		s.SetInputs(strings.Repeat("x", i+1))
		// New credentials don't reset the budget.
		s.logins[c.host] = cloudconfig.Login{User: user + strings.Repeat(" ", i%2), Password: password}
		s.Tick(t.Context())
		overloaded = overloaded || s.only().Err != nil && s.only().Err.Reason == vsphere.Overloaded
	}
	if got := c.requests(""); got != vsphere.DefaultBudget || !overloaded {
		t.Errorf("%d requests within one moment, want %d: %v", got, vsphere.DefaultBudget, s.only().Err)
	}
	s.clock.pass(vsphere.Interval)
	s.logins[c.host] = cloudconfig.Login{User: user, Password: password}
	s.SetInputs("last")
	s.tick()
}
