package openstack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/cloud/openstack"
)

const secret = "p4ss-Wörd: *&%"

func TestCloudsYAMLIsReadAndMistakesAreNamedWithoutTheirValues(t *testing.T) {
	good := "clouds:\n  openstack:\n    auth:\n      auth_url: https://keystone.example:5000/v3\n      username: a\n" +
		"      password: '" + secret + "'\n      project_id: b\n"
	for name, tc := range map[string]struct{ text, want string }{
		"password":               {text: good},
		"a number as a password": {text: strings.Replace(good, "'"+secret+"'", "0123", 1)},
		"unknown keys":           {text: good + "    floating_ip_source: None\n    networks: [{name: a}]\n    region_name: here\n"},
		"tenant":                 {text: strings.Replace(good, "project_id", "tenant_name", 1)},
		"application credential": {text: "clouds:\n  openstack:\n    auth_type: v3applicationcredential\n    auth: {auth_url: 'https://a/v3', " +
			"application_credential_id: a, application_credential_secret: '" + secret + "'}\n"},
		"empty":           {want: "missing or empty"},
		"long":            {text: strings.Repeat("#", 300<<10), want: "more than 262144 bytes"},
		"no YAML":         {text: "clouds: [" + secret, want: "not valid YAML in the form of clouds.yaml"},
		"another form":    {text: "clouds: " + strings.ReplaceAll(secret, ":", "") + "\n", want: "not valid YAML in the form of clouds.yaml"},
		"a key twice":     {text: good + "      password: other\n", want: "not valid YAML in the form of clouds.yaml, line 8"},
		"another cloud":   {text: strings.Replace(good, "openstack:", "other:", 1), want: "no cloud openstack"},
		"a cloud of null": {text: "clouds: {openstack: }", want: "no cloud openstack"},
		"no auth":         {text: "clouds: {openstack: {region_name: a}}", want: "no auth"},
		"no address":      {text: strings.Replace(good, "auth_url", "url", 1), want: "auth.auth_url: the address of Keystone is missing"},
		"a wrong address": {text: strings.Replace(good, "https://keystone.example:5000/v3", "keystone", 1), want: "not of the form"},
		"a user in it":    {text: strings.Replace(good, "keystone.example", "a:"+"secretword"+"@keystone.example", 1), want: "has a user"},
		"Keystone v2":     {text: strings.Replace(good, "/v3", "/v2.0", 1), want: "Keystone v2 is not supported"},
		"no password":     {text: strings.Replace(good, "password", "pass", 1), want: "auth.password: the password is missing"},
		"no user":         {text: strings.Replace(good, "username", "user", 1), want: "auth.username: the user is missing"},
		"no project":      {text: strings.Replace(good, "project_id", "project", 1), want: "auth.project_id: the project is missing"},
		"a token":         {text: good + "    auth_type: v3token\n", want: "auth_type: only password"},
		"an interface":    {text: good + "    interface: back\n", want: "interface: it must be public"},
		"a certificate":   {text: good + "    cert: /a\n", want: "cert: client certificates"},
		"half a credential": {text: "clouds: {openstack: {auth: {auth_url: 'https://a', application_credential_id: a}}}",
			want: "application_credential_secret: the application credential has no secret"},
	} {
		credentials, err := openstack.Parse([]byte(tc.text))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want == "":
		case err == nil || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		case openstack.ReasonOf(err) != openstack.InvalidCredentials:
			t.Errorf("%s: reason %s", name, openstack.ReasonOf(err))
		}
		if text := fmt.Sprintf("%v %+v %#v", err, err, credentials); strings.Contains(text, "Wörd") || strings.Contains(text, "secretword") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestCredentialsPrintNoSecretInAnyWay(t *testing.T) {
	credentials, err := openstack.Parse([]byte("clouds: {openstack: {auth: {auth_url: 'https://keystone.example/v3', username: a, project_id: b, " +
		"password: 'verysecret'}}}"))
	must(t, err)
	text := &bytes.Buffer{}
	slog.New(slog.NewTextHandler(text, nil)).Info("a", "credentials", credentials, "pointer", &credentials)
	slog.New(slog.NewJSONHandler(text, nil)).Info("a", "credentials", credentials, "in", struct{ C openstack.Credentials }{credentials})
	encoded, err := json.Marshal(map[string]any{"a": credentials})
	must(t, err)
	fmt.Fprintf(text, "%v %+v %#v %s %q %x %d %v %+v", credentials, credentials, credentials, credentials, credentials, credentials, credentials,
		[]openstack.Credentials{credentials}, &credentials)
	if all := text.String() + string(encoded); strings.Contains(all, "verysecret") || strings.Contains(all, fmt.Sprintf("%x", "verysecret")) ||
		!strings.Contains(all, "credentials for https://keystone.example/v3") {
		t.Error(all)
	}
}

func TestTheHashFollowsEveryField(t *testing.T) {
	base := "clouds: {openstack: {region_name: r, auth: {auth_url: 'https://k/v3', username: a, project_id: b, password: c}}}"
	seen := map[string]string{}
	for _, text := range []string{
		base, strings.Replace(base, "password: c", "password: d", 1), strings.Replace(base, "username: a", "username: e", 1),
		strings.Replace(base, "region_name: r", "region_name: s", 1), strings.Replace(base, "https://k/v3", "https://l/v3", 1),
		strings.Replace(base, "region_name: r", "region_name: r, verify: false", 1), strings.Replace(base, "project_id: b", "project_id: f", 1),
	} {
		credentials, err := openstack.Parse([]byte(text))
		must(t, err)
		if other := seen[credentials.Hash()]; other != "" {
			t.Errorf("%s and %s have the same hash", text, other)
		}
		seen[credentials.Hash()] = text
	}
}

func FuzzCloudsYAMLNeverPanics(f *testing.F) {
	f.Add([]byte("clouds: {openstack: {auth: {auth_url: 'https://k/v3', username: a, project_id: b, password: c}}}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := openstack.Parse(text); err != nil && len(err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
