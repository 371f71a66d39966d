package aws

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// cloud is a fake of STS and EFS. It records the tokens it gets, and the keys that sign requests to EFS.
type cloud struct {
	mutex  sync.Mutex
	tokens []url.Values
	keys   []string
	// lifetime of the credentials it issues; status and code make it fail instead.
	lifetime time.Duration
	status   int
	code     string
	requests int
	// token is the path of the client's token file.
	token string
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.requests++
	if r.Method == http.MethodPost {
		_ = r.ParseForm()
		c.tokens = append(c.tokens, r.PostForm)
		if c.code != "" {
			w.WriteHeader(c.status)
			_, _ = fmt.Fprintf(w, `<ErrorResponse><Error><Code>%s</Code><Message>STS says why</Message></Error></ErrorResponse>`, c.code)
			return
		}
		var key strings.Builder
		_ = xml.EscapeText(&key, fmt.Appendf(nil, "ASIA%d", len(c.tokens)))
		_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId>`+
			`<SecretAccessKey>very-secret</SecretAccessKey><SessionToken>session</SessionToken><Expiration>%s</Expiration></Credentials>`+
			`</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, key.String(), time.Now().Add(c.lifetime).UTC().Format(time.RFC3339))
		return
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), "/")
	c.keys = append(c.keys, key+" "+r.Header.Get("X-Amz-Security-Token"))
	_, _ = w.Write([]byte(`{}`))
}

// use creates a client for the fake with the credentials of a Secret. Credentials in the environment and in files are wrong.
func (c *cloud) use(t *testing.T, secret Secret, more ...func(*Options)) *Client {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	trap := filepath.Join(t.TempDir(), "config")
	for key, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "trap", "AWS_SECRET_ACCESS_KEY": "trap", "AWS_SESSION_TOKEN": "trap",
		"AWS_CONFIG_FILE": trap, "AWS_SHARED_CREDENTIALS_FILE": trap, "AWS_PROFILE": "trap", "AWS_ROLE_ARN": role + "-trap",
		"AWS_WEB_IDENTITY_TOKEN_FILE": trap, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.URL, "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.URL,
	} {
		t.Setenv(key, value)
	}
	if err := os.WriteFile(trap, []byte("[profile trap]\ncredential_process = touch "+trap+"-was-run\n[trap]\naws_access_key_id = trap\naws_secret_access_key = trap\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(trap + "-was-run"); err == nil {
			t.Error("a program was run")
		}
	})
	options := Options{Region: "us-east-1", Secret: &secret, TokenFile: tokenFile(t, "token-1"), MaxAttempts: 3, MaxBackoff: time.Millisecond}
	for _, change := range more {
		change(&options)
	}
	c.token = options.TokenFile
	client, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if c.requests != 0 {
		t.Errorf("%d requests before a call", c.requests)
	}
	return client
}

func tokenFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTheKeysOfASecretAreUsedAndNoOthers(t *testing.T) {
	aws := &cloud{}
	c := aws.use(t, Secret{AccessKeyID: "AKIA1", SecretAccessKey: "very-secret", SessionToken: "session"})
	for range 2 {
		if _, err := c.FileSystems(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(aws.keys, ", "); got != "AKIA1 session, AKIA1 session" || len(aws.tokens) != 0 || c.Requests() != 2 {
		t.Errorf("signed by %s; %d tokens, %d requests", got, len(aws.tokens), c.Requests())
	}
}

func TestATokenIsExchangedOnceWhileTheCredentialsAreGood(t *testing.T) {
	aws := &cloud{lifetime: time.Hour}
	c := aws.use(t, Secret{RoleARN: role})
	for range 3 {
		if _, err := c.FileSystems(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(aws.keys, ", "); got != "ASIA1 session, ASIA1 session, ASIA1 session" || len(aws.tokens) != 1 {
		t.Fatalf("signed by %s; %d tokens", got, len(aws.tokens))
	}
	shown := aws.tokens[0]
	if shown.Get("WebIdentityToken") != "token-1" || shown.Get("RoleArn") != role || shown.Get("RoleSessionName") != sessionName {
		t.Errorf("STS was shown %v", shown)
	}
	if c.Requests() != 4 {
		t.Errorf("%d requests were counted, want 4", c.Requests())
	}
}

func TestATokenIsReadAnewForTheNextCredentials(t *testing.T) {
	aws := &cloud{lifetime: early / 2}
	c := aws.use(t, Secret{RoleARN: role})
	for _, token := range []string{"token-1", "token-2\n"} {
		if err := os.WriteFile(aws.token, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.FileSystems(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(aws.tokens) != 2 || aws.tokens[1].Get("WebIdentityToken") != "token-2" || strings.Join(aws.keys, ", ") != "ASIA1 session, ASIA2 session" {
		t.Errorf("STS was shown %v, EFS %v", aws.tokens, aws.keys)
	}
}

func TestARefusedTokenIsTheErrorOfTheCallAndIsNotRepeatedTwice(t *testing.T) {
	for code, test := range map[string]struct {
		status, requests int
		denied, invalid  bool
	}{
		"AccessDenied":         {http.StatusForbidden, 1, true, false},
		"ExpiredToken":         {http.StatusBadRequest, 1, false, true},
		"InvalidIdentityToken": {http.StatusBadRequest, 1, false, true},
		"ServiceUnavailable":   {http.StatusServiceUnavailable, 3, false, false},
		"Throttling":           {http.StatusBadRequest, 3, false, false},
	} {
		t.Run(code, func(t *testing.T) {
			aws := &cloud{code: code, status: test.status}
			c := aws.use(t, Secret{RoleARN: role})
			_, err := c.FileSystem(t.Context(), "fs-1")
			if err == nil {
				t.Fatal("no error")
			}
			want := "elasticfilesystem:DescribeFileSystems of fs-1: sts:AssumeRoleWithWebIdentity of " + role + ": " + code + ": STS says why"
			if err.Error() != want {
				t.Errorf("it says %q, want %q", err, want)
			}
			action, denied := IsAccessDenied(err)
			if denied != test.denied || denied != (action == "sts:AssumeRoleWithWebIdentity") || IsInvalidCredentials(err) != test.invalid {
				t.Errorf("denied is %t for %q, invalid is %t", denied, action, IsInvalidCredentials(err))
			}
			if IsNotFound(err) {
				t.Error("it is taken for one about an object that is not there")
			}
			if len(aws.tokens) != test.requests || len(aws.keys) != 0 {
				t.Errorf("%d tokens were shown, want %d; %d calls", len(aws.tokens), test.requests, len(aws.keys))
			}
		})
	}
}

func TestATokenThatCannotBeReadIsSaidWithoutAskingAWS(t *testing.T) {
	for name, test := range map[string]struct {
		file func(t *testing.T) string
		want string
	}{
		"none":    {func(*testing.T) string { return "" }, "no file with a ServiceAccount's token"},
		"missing": {func(t *testing.T) string { return tokenFile(t, "") + "-2" }, "no such file"},
		"folder":  {func(t *testing.T) string { return t.TempDir() }, "is a directory"},
		"empty":   {func(t *testing.T) string { return tokenFile(t, "\n") }, "is empty"},
		"endless": {func(*testing.T) string { return "/dev/zero" }, "longer than 32768 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			aws := &cloud{lifetime: time.Hour}
			c := aws.use(t, Secret{RoleARN: role}, func(o *Options) { o.TokenFile = test.file(t) })
			_, err := c.FileSystems(t.Context())
			if err == nil || !strings.Contains(err.Error(), "sts:AssumeRoleWithWebIdentity of "+role+": ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if _, denied := IsAccessDenied(err); denied || aws.requests != 0 {
				t.Errorf("denied is %t; %d requests", denied, aws.requests)
			}
		})
	}
}
