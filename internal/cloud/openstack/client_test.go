package openstack_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/openstack"
	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/test/env/fakeopenstack"
)

func TestACloudIsAskedWithPasswordsAndApplicationCredentials(t *testing.T) {
	for _, application := range []bool{false, true} {
		cloud := start(t)
		cloud.SetZones([]fakeopenstack.Zone{{Name: "b"}, {Name: "a"}, {Name: "off", Disabled: true}}, []fakeopenstack.Zone{{Name: "c"}})
		cloud.SetShareTypes(fakeopenstack.ShareType{Name: "gold"}, fakeopenstack.ShareType{Name: "Default_NFS"})
		client := connect(t, cloud, cloud.CloudsYAML(application))
		compute, err := client.ComputeZones(t.Context())
		must(t, err)
		volume, err := client.VolumeZones(t.Context())
		must(t, err)
		types, found, err := client.ShareTypes(t.Context())
		must(t, err)
		if diff := cmp.Diff([][]string{{"a", "b"}, {"c"}}, [][]string{compute, volume}); diff != "" || !found || names(types) != "Default_NFS gold" {
			t.Errorf("application credential %t: zones %s, found %t, types %v", application, diff, found, types)
		}
		for _, service := range []fakeopenstack.Service{fakeopenstack.Keystone, fakeopenstack.Nova, fakeopenstack.Cinder, fakeopenstack.Manila} {
			if got := cloud.Requests(service); got != 1 {
				t.Errorf("application credential %t: %d requests to %s", application, got, service)
			}
		}
		if cloud.AllRequests() != 4 {
			t.Errorf("%d requests", cloud.AllRequests())
		}
	}
}

func TestAProjectAndAUserAreFoundByNameInTheirDomains(t *testing.T) {
	cloud := start(t)
	text := fmt.Sprintf("clouds: {openstack: {auth: {auth_url: '%s', username: cluster, password: '%s', project_name: shift, %%s}}}",
		strings.TrimSuffix(cloud.URL, "/v3"), cloud.User().Password)
	for domains, want := range map[string]openstack.Reason{
		"user_domain_name: Default, project_domain_name: Default": "", "user_domain_id: default, project_domain_id: default": "",
		"domain_name: Default": "", "default_domain: default": "", "domain_id: ''": "",
		"domain_name: Other": openstack.CredentialsRejected,
	} {
		_, err := connect(t, cloud, fmt.Appendf(nil, text, domains)).ComputeZones(t.Context())
		if (err == nil) != (want == "") || err != nil && openstack.ReasonOf(err) != want {
			t.Errorf("%s: %v", domains, err)
		}
	}
}

func TestShareTypesAreReadToTheLastPage(t *testing.T) {
	cloud := start(t)
	var all []fakeopenstack.ShareType
	for i := range 25 {
		all = append(all, fakeopenstack.ShareType{Name: fmt.Sprintf("type-%02d", i)})
	}
	cloud.SetShareTypes(all...)
	for size, requests := range map[int]int{0: 1, 10: 3, 25: 1, 24: 2, 1: 25} {
		cloud.SetPageSize(size)
		cloud.Reset()
		types, _, err := connect(t, cloud, cloud.CloudsYAML(false)).ShareTypes(t.Context())
		if err != nil || len(types) != 25 || cloud.Requests(fakeopenstack.Manila) != requests {
			t.Errorf("pages of %d: %d types, %d requests, error %v", size, len(types), cloud.Requests(fakeopenstack.Manila), err)
		}
	}
}

// The client sends the token only to the service, and stops long lists.
func TestLinksToElsewhereAreNotFollowed(t *testing.T) {
	asked := 0
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer thief.Close()
	for name, link := range map[string]string{
		"another path": thief.URL + "/v2/types?marker=a", "no query": thief.URL + "/share/v2/types", "the same again": "?marker=t-1",
		"another host": thief.URL + "/share/v2/types?marker=t-1",
	} {
		cloud := start(t)
		cloud.SetFault(fakeopenstack.Manila, fakeopenstack.Fault{
			Body: fmt.Sprintf(`{"share_types": [{"id": "t-1", "name": "a"}], "share_types_links": [{"rel": "next", "href": %q}]}`, link),
		})
		types, _, err := connect(t, cloud, cloud.CloudsYAML(false)).ShareTypes(t.Context())
		if openstack.ReasonOf(err) != openstack.InvalidAnswer || types != nil || cloud.AllRequests() > 4 {
			t.Errorf("%s: types %v, %d requests, error %v", name, types, cloud.AllRequests(), err)
		}
	}
	cloud := start(t)
	cloud.SetFault(fakeopenstack.Manila, fakeopenstack.Fault{Redirect: thief.URL})
	if _, _, err := connect(t, cloud, cloud.CloudsYAML(false)).ShareTypes(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP 302") {
		t.Errorf("redirected: %v", err)
	}
	if asked != 0 {
		t.Errorf("the other host was asked %d times", asked)
	}
}

func TestWhatACloudSaysInsteadOfAnAnswer(t *testing.T) {
	type tc struct {
		fault  fakeopenstack.Fault
		reason openstack.Reason
		// says is part of the error.
		says  string
		retry time.Duration
	}
	for name, tc := range map[string]tc{
		"403":             {fault: fakeopenstack.Fault{Status: 403}, reason: openstack.AccessDenied, says: "HTTP 403: grant the user of the credentials the required role"},
		"404":             {fault: fakeopenstack.Fault{Status: 404}, reason: openstack.InvalidAnswer, says: "HTTP 404: this address does not serve the API"},
		"413":             {fault: fakeopenstack.Fault{Status: 413, RetryAfter: "90"}, reason: openstack.RateLimited, says: "HTTP 413, too many", retry: 90 * time.Second},
		"429":             {fault: fakeopenstack.Fault{Status: 429, RetryAfter: "7"}, reason: openstack.RateLimited, says: "HTTP 429, too many", retry: 7 * time.Second},
		"429 for ever":    {fault: fakeopenstack.Fault{Status: 429, RetryAfter: "999999999"}, reason: openstack.RateLimited, retry: 30 * time.Minute},
		"429 of nonsense": {fault: fakeopenstack.Fault{Status: 429, RetryAfter: "-1"}, reason: openstack.RateLimited},
		"429 till a date": {fault: fakeopenstack.Fault{Status: 429, RetryAfter: time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)},
			reason: openstack.RateLimited, retry: 30 * time.Minute},
		"500":               {fault: fakeopenstack.Fault{Status: 500}, reason: openstack.ServerFailed, says: "HTTP 500: look at the logs of that service"},
		"503":               {fault: fakeopenstack.Fault{Status: 503, RetryAfter: "30"}, reason: openstack.ServerFailed, retry: 30 * time.Second},
		"truncated":         {fault: fakeopenstack.Fault{Truncated: true}, reason: openstack.InvalidAnswer, says: "the answer is truncated"},
		"slow":              {fault: fakeopenstack.Fault{Latency: time.Minute}, reason: openstack.Unreachable, says: "no answer in time"},
		"another answer":    {fault: fakeopenstack.Fault{Body: `{"versions": []}`}, reason: openstack.InvalidAnswer, says: "the answer has no "},
		"null":              {fault: fakeopenstack.Fault{Body: `{"share_types": null, "availabilityZoneInfo": null}`}, reason: openstack.InvalidAnswer, says: "the answer has no "},
		"HTML":              {fault: fakeopenstack.Fault{Body: "<html>sign in</html>"}, reason: openstack.InvalidAnswer, says: "not JSON"},
		"other types":       {fault: fakeopenstack.Fault{Body: `{"share_types": {"a": 1}, "availabilityZoneInfo": 3}`}, reason: openstack.InvalidAnswer, says: "not JSON"},
		"without an end":    {fault: fakeopenstack.Fault{Body: `{"a": "` + strings.Repeat("x", 2<<20) + `"}`}, reason: openstack.InvalidAnswer, says: "too long"},
		"a password echoed": {fault: fakeopenstack.Fault{Status: 400, Body: "p4ssw0rd-of-the-user"}, reason: openstack.InvalidAnswer, says: "HTTP 400"},
	} {
		for service, ask := range map[fakeopenstack.Service]func(*openstack.Client) error{
			fakeopenstack.Keystone: func(c *openstack.Client) error { _, err := c.ComputeZones(t.Context()); return err },
			fakeopenstack.Nova:     func(c *openstack.Client) error { _, err := c.ComputeZones(t.Context()); return err },
			fakeopenstack.Cinder:   func(c *openstack.Client) error { _, err := c.VolumeZones(t.Context()); return err },
			fakeopenstack.Manila:   func(c *openstack.Client) error { _, _, err := c.ShareTypes(t.Context()); return err },
		} {
			if service == fakeopenstack.Keystone && (tc.fault.Body != "" && tc.fault.Status == 0 || name == "truncated") {
				continue
			}
			cloud, timeout := start(t), time.Minute
			if tc.fault.Latency > 0 {
				timeout = 100 * time.Millisecond
			}
			cloud.SetFault(service, tc.fault)
			err := ask(connectFor(t, cloud, cloud.CloudsYAML(false), timeout))
			if err == nil || openstack.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s of %s: reason %s, want %s; error %v", name, service, openstack.ReasonOf(err), tc.reason, err)
			}
			failure, _ := err.(*openstack.Error) //nolint:errorlint // The client returns it as it is.
			if failure == nil || failure.RetryAfter > tc.retry || failure.RetryAfter < tc.retry-time.Second {
				t.Errorf("%s of %s: wait %v, want %s", name, service, failure, tc.retry)
			}
			if cloud.AllRequests() > 2 {
				t.Errorf("%s of %s: %d requests: nothing is repeated at once", name, service, cloud.AllRequests())
			}
			hidesSecrets(t, cloud, fmt.Sprintf("%s of %s: %v %+v %#v", name, service, err, err, failure))
		}
	}
}

func TestALogInThatIsAnsweredWithNonsenseIsNoLogIn(t *testing.T) {
	for name, fault := range map[string]fakeopenstack.Fault{
		"truncated": {Truncated: true}, "no token": {Status: 201, Body: `{"token": {}}`}, "no JSON": {Status: 201, Body: "<html>"},
		"empty catalogue": {Status: 201, Body: `{"token": {"catalog": [], "expires_at": "2100-01-01T00:00:00.000000Z"}}`}, "200": {Body: `{}`},
	} {
		cloud := start(t)
		cloud.SetFault(fakeopenstack.Keystone, fault)
		types, found, err := connect(t, cloud, cloud.CloudsYAML(false)).ShareTypes(t.Context())
		if openstack.ReasonOf(err) != openstack.InvalidAnswer || found || types != nil || cloud.Requests(fakeopenstack.Manila) != 0 {
			t.Errorf("%s: found %t, %v", name, found, err)
		}
	}
}

func TestNoManilaInTheCatalogueIsAnAnswerAndNoNovaIsAnError(t *testing.T) {
	cloud := start(t)
	cloud.SetMissing(fakeopenstack.Manila, true)
	client := connect(t, cloud, cloud.CloudsYAML(false))
	if types, found, err := client.ShareTypes(t.Context()); found || err != nil || types != nil {
		t.Errorf("found %t, %v", found, err)
	}
	cloud.SetMissing(fakeopenstack.Manila, false)
	if types, found, err := client.ShareTypes(t.Context()); !found || err != nil || len(types) != 1 {
		t.Errorf("once it is there: found %t, %v", found, err)
	}
	cloud.SetMissing(fakeopenstack.Nova, true)
	cloud.ExpireTokens()
	if _, err := connect(t, cloud, cloud.CloudsYAML(false)).ComputeZones(t.Context()); openstack.ReasonOf(err) != openstack.ServiceMissing {
		t.Errorf("without Nova: %v", err)
	}
	elsewhere := bytes.Replace(cloud.CloudsYAML(false), []byte("RegionOne"), []byte("RegionTwo"), 1)
	if _, found, err := connect(t, cloud, elsewhere).ShareTypes(t.Context()); openstack.ReasonOf(err) != openstack.ServiceMissing || found {
		t.Errorf("in a region that is not in the catalogue: found %t, %v", found, err)
	}
}

func TestATokenThatIsNotTakenIsReplacedOnce(t *testing.T) {
	cloud := start(t)
	client := connect(t, cloud, cloud.CloudsYAML(false))
	for round, want := range []int{1, 2, 2} {
		if _, err := client.ComputeZones(t.Context()); err != nil || cloud.Requests(fakeopenstack.Keystone) != want {
			t.Errorf("round %d: %d log-ins, error %v", round, cloud.Requests(fakeopenstack.Keystone), err)
		}
		if round == 0 {
			cloud.ExpireTokens()
		}
	}
	cloud.Reset()
	cloud.SetFault(fakeopenstack.Nova, fakeopenstack.Fault{Status: http.StatusUnauthorized})
	_, err := client.ComputeZones(t.Context())
	if openstack.ReasonOf(err) != openstack.CredentialsRejected || cloud.Requests(fakeopenstack.Keystone) != 1 || cloud.Requests(fakeopenstack.Nova) != 2 {
		t.Errorf("Nova takes no token: %d log-ins, %d requests, error %v", cloud.Requests(fakeopenstack.Keystone), cloud.Requests(fakeopenstack.Nova), err)
	}
}

func TestATokenIsNotUsedAtItsEnd(t *testing.T) {
	cloud := start(t)
	cloud.SetTokenLife(time.Minute)
	client := connect(t, cloud, cloud.CloudsYAML(false))
	for range 2 {
		_, err := client.ComputeZones(t.Context())
		must(t, err)
	}
	if got := cloud.Requests(fakeopenstack.Keystone); got != 2 || cloud.Requests(fakeopenstack.Nova) != 2 {
		t.Errorf("%d log-ins with tokens that end within the margin, want one each time", got)
	}
}

func TestOnlyACloudOfATrustedCAIsAsked(t *testing.T) {
	cloud, other := start(t), start(t)
	now := time.Now
	for name, tc := range map[string]struct {
		clouds []byte
		roots  []byte
		reason openstack.Reason
	}{
		"its CA":          {roots: cloud.CA},
		"two CAs":         {roots: append(bytes.Clone(other.CA), cloud.CA...)},
		"no CA":           {reason: openstack.Untrusted},
		"another CA":      {roots: other.CA, reason: openstack.Untrusted},
		"verify is false": {clouds: bytes.Replace(cloud.CloudsYAML(false), []byte("verify: true"), []byte("verify: false"), 1)},
	} {
		if tc.clouds == nil {
			tc.clouds = cloud.CloudsYAML(false)
		}
		credentials, err := openstack.Parse(tc.clouds)
		must(t, err)
		client, err := openstack.New(credentials, openstack.Options{Roots: tc.roots, Now: now, Budget: &poll.Budget{Now: now, Limit: openstack.DefaultBudget}})
		must(t, err)
		_, err = client.ComputeZones(t.Context())
		if (err == nil) != (tc.reason == "") || err != nil && openstack.ReasonOf(err) != tc.reason {
			t.Errorf("%s: %v", name, err)
		}
		client.Close()
	}
	credentials, err := openstack.Parse(cloud.CloudsYAML(false))
	must(t, err)
	if _, err := openstack.New(credentials, openstack.Options{Roots: []byte("no PEM"), Now: now, Budget: &poll.Budget{Now: now, Limit: openstack.DefaultBudget}}); err == nil {
		t.Error("a CA that is no PEM is taken")
	}
}

func TestARequestEndsWithItsContext(t *testing.T) {
	cloud := start(t)
	cloud.SetFault(fakeopenstack.Keystone, fakeopenstack.Fault{Latency: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := connect(t, cloud, cloud.CloudsYAML(false)).ComputeZones(ctx); err == nil {
		t.Error("no error")
	}
}

// hidesSecrets fails if a text contains a secret.
func hidesSecrets(t *testing.T, cloud *fakeopenstack.Cloud, text string) {
	t.Helper()
	for _, secret := range append(cloud.Tokens(), cloud.User().Password, cloud.User().CredentialSecret) {
		if strings.Contains(text, secret) {
			t.Errorf("a secret is in %.300s", text)
		}
	}
}
