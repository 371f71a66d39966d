package fakeopenstack

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// ask sends a request, with headers as "Name: value", and returns the answer.
func ask(t *testing.T, c *Cloud, method, path, body string, headers ...string) (status int, header http.Header, text string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(c.URL, "/identity/v3")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range append([]string{"Accept: application/json"}, headers...) {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(content)
}

// A cloud for tests that is laxer than a real one would let through what fails there.
func TestTheCloudRefusesWhatARealOneRefuses(t *testing.T) {
	c, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const isJSON = "Content-Type: application/json"
	login := func(identity, scope string) string { return `{"auth": {"identity": ` + identity + scope + `}}` }
	password := func(user string) string { return `{"methods": ["password"], "password": {"user": {` + user + `}}}` }
	const right = `"id": "u-1", "password": "p4ssw0rd-of-the-user"`
	const project = `, "scope": {"project": {"id": "f1d0"}}`
	application := `{"methods": ["application_credential"], "application_credential": {"id": "ac-1", "secret": "s3cret-of-the-application"}}`
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
		// catalog tells whether the token has one.
		catalog bool
	}{
		"password":                           {login(password(right), project), []string{isJSON}, 201, true},
		"no scope":                           {login(password(right), ""), []string{isJSON}, 201, false},
		"no JSON":                            {login(password(right), project), nil, 400, false},
		"nothing":                            {"{}", []string{isJSON}, 400, false},
		"a wrong password":                   {login(password(`"id": "u-1", "password": "x"`), project), []string{isJSON}, 401, false},
		"a name without a domain":            {login(password(`"name": "cluster", "password": "p4ssw0rd-of-the-user"`), project), []string{isJSON}, 400, false},
		"another project":                    {login(password(right), `, "scope": {"project": {"id": "other"}}`), []string{isJSON}, 401, false},
		"an application credential":          {login(application, ""), []string{isJSON}, 201, true},
		"an application credential's scope":  {login(application, project), []string{isJSON}, 401, false},
		"a field that is not of Keystone v3": {login(password(right), project+`, "tenant": "a"`), []string{isJSON}, 400, false},
	} {
		status, header, text := ask(t, c, http.MethodPost, "/identity/v3/auth/tokens", tc.body, tc.headers...)
		body := struct {
			Token struct{ Catalog []any }
		}{}
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		hasToken := header.Get("X-Subject-Token") != ""
		if status != tc.status || hasToken != (tc.status == 201) || (len(body.Token.Catalog) > 0) != tc.catalog {
			t.Errorf("%s: HTTP %d, a token %t, %s", name, status, hasToken, text)
		}
	}
	_, header, _ := ask(t, c, http.MethodPost, "/identity/v3/auth/tokens", login(application, ""), isJSON)
	token := "X-Auth-Token: " + header.Get("X-Subject-Token")
	for name, tc := range map[string]struct {
		path    string
		headers []string
		status  int
	}{
		"Nova":                     {"/compute/v2.1/os-availability-zone", []string{token}, 200},
		"no token":                 {"/compute/v2.1/os-availability-zone", nil, 401},
		"a wrong token":            {"/compute/v2.1/os-availability-zone", []string{"X-Auth-Token: a"}, 401},
		"Cinder":                   {"/volume/v3/f1d0/os-availability-zone", []string{token}, 200},
		"Cinder, another project":  {"/volume/v3/other/os-availability-zone", []string{token}, 400},
		"Cinder, another version":  {"/volume/v2/f1d0/os-availability-zone", []string{token}, 404},
		"Manila":                   {"/share/v2/types", []string{token, "X-OpenStack-Manila-API-Version: 2.7"}, 200},
		"Manila without a version": {"/share/v2/types", []string{token}, 400},
		"Manila of tomorrow":       {"/share/v2/types", []string{token, "X-OpenStack-Manila-API-Version: 2.100"}, 406},
		"Manila, a wrong marker":   {"/share/v2/types?marker=x", []string{token, "X-OpenStack-Manila-API-Version: 2.7"}, 400},
	} {
		status, header, text := ask(t, c, http.MethodGet, tc.path, "", tc.headers...)
		if status != tc.status || (tc.status == 401) != (header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: HTTP %d, %s", name, status, text)
		}
	}
	c.ExpireTokens()
	if status, _, _ := ask(t, c, http.MethodGet, "/compute/v2.1/os-availability-zone", "", token); status != 401 {
		t.Errorf("an expired token: HTTP %d", status)
	}
}

func TestACloudThatWasAwayIsTheSameAgain(t *testing.T) {
	c, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := c.URL
	c.Away()
	if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.address); err == nil {
		_ = connection.Close()
		t.Error("while it is away, somebody listens")
	}
	if err := c.Back(); err != nil || c.URL != before {
		t.Errorf("back at %s, was at %s: %v", c.URL, before, err)
	}
	if status, _, _ := ask(t, c, http.MethodGet, "/compute/v2.1/os-availability-zone", ""); status != 401 {
		t.Errorf("HTTP %d", status)
	}
}
