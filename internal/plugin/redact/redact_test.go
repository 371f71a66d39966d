package redact

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsSecretIsRedactedAndTheRestStays(t *testing.T) {
	for text, want := range map[string]string{
		"password=hunter2":                          "password=[redacted]",
		`"password": "a b c", "user": "x"`:          `"password": [redacted], "user": "x"`,
		`{\"password\":\"abc\",\"user\":\"x\"}`:     `{\"password\":[redacted],\"user\":\"x\"}`,
		"AWS_SECRET_ACCESS_KEY=abc/+def= and more":  "AWS_SECRET_ACCESS_KEY=[redacted] and more",
		"aws_secret_access_key = abc":               "aws_secret_access_key = [redacted]",
		"key AKIAABCDEFGHIJKLMNOP used":             "key [redacted] used",
		"key ASIAGOOD used":                         "key [redacted] used",
		"GET /?X-Amz-Signature=ab1&X-Amz-Date=1":    "GET /?X-Amz-Signature=[redacted]&X-Amz-Date=1",
		"GET /?X-Amz-Credential=AKIAGOOD%2Fx&b=1":   "GET /?X-Amz-Credential=[redacted]%2Fx&b=1",
		`{"aws_secret_access_key":"wJalr/X","a":1}`: `{"aws_secret_access_key":[redacted],"a":1}`,
		"Authorization: Bearer abcdef.ghi":          "Authorization: [redacted]",
		"sent eyJhbGciOi.eyJzdWIi.c2ln on":          "sent [redacted] on",
		"login with sha256~abcdefghijklmnopqrstuvw": "login with [redacted]",
		"AccountName=a;AccountKey=abc==;x=y":        "AccountName=a;AccountKey=[redacted];x=y",
		"https://user:pass@example.com/a":           "https://[redacted]example.com/a",
		"GET /a?X-Amz-Security-Token=abc&b=c":       "GET /a?X-Amz-Security-Token=[redacted]&b=c",
		"started with --token abc --v 2":            "started with --token [redacted] --v 2",
		"--password=abc":                            "--password=[redacted]",
		"clientSecret: abc":                         "clientSecret: [redacted]",
		"client-key-data: LS0t":                     "client-key-data: [redacted]",
		"failed to get secret: not found":           "failed to get secret: not found",
		"secretName: aws-efs-cloud-credentials":     "secretName: aws-efs-cloud-credentials",
		"tokenExpirationSeconds: 3600":              "tokenExpirationSeconds: 3600",
		"volume fs-1234cdef::fsap-01234567 mounted": "volume fs-1234cdef::fsap-01234567 mounted",
		"serviceAccountToken:":                      "serviceAccountToken:",
	} {
		if got := New().Line(text); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
}

// An error can stand in place of a value. Secrets in it are redacted, and so is a value that only starts like an error.
func TestAnErrorBehindASecretNameStays(t *testing.T) {
	for text, want := range map[string]string{
		"failed to read token: open /var/run/token: no such file":                 "",
		"token: open /var/run/secrets/token: permission denied":                   "",
		`E1 secret: Get "https://u:pw@host/a?token=abc": EOF`:                     `E1 secret: Get "https://[redacted]host/a?token=[redacted]": EOF`,
		`msg="get credential: dial tcp 10.0.0.1:443: connect: refused"`:           "",
		"session token: lookup sts.amazonaws.com on 10.0.0.10:53: no such host":   "",
		"get credentials: secret: rpc error: code = Unavailable desc = away":      "",
		"refresh credential: operation error STS: AssumeRole, https response 403": "",
		"token: context deadline exceeded":                                        "",
		"password: x509: certificate signed by unknown authority":                 "",
		"password: open":           "password: [redacted]",
		"password: open-sesame /x": "password: [redacted]",
		"login password=open /var": "login password=[redacted] /var",
		"password = open /var":     "password = [redacted]",
		"password: dial":           "password: [redacted]",
	} {
		if want == "" {
			want = text
		}
		if got := String(text); got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", text, got, want)
		}
	}
	object := map[string]any{"message": "token: open /var/run/token: no such file", "token": "open sesame"}
	New().Object(object)
	if diff := cmp.Diff(map[string]any{"message": "token: open /var/run/token: no such file", "token": Hidden}, object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPrivateKeyGoesAsAWhole(t *testing.T) {
	var out bytes.Buffer
	text := "a\nkey: -----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----\nb\n-----BEGIN CERTIFICATE-----\nMIID\n" +
		"x=\"-----BEGIN PRIVATE KEY-----\\nMII\\n-----END PRIVATE KEY-----\"\nlast"
	r := New()
	if err := r.Text(&out, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	want := "a\nkey: [redacted]\nb\n-----BEGIN CERTIFICATE-----\nMIID\nx=\"[redacted]\nlast"
	if diff := cmp.Diff(want, out.String()); diff != "" || r.Count != 2 {
		t.Errorf("%d redacted (-want +got):\n%s", r.Count, diff)
	}
	broken := errors.New("broken")
	if err := r.Text(&out, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestFieldsAndVariablesWithSecretNamesAreRedacted(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{
			"managedFields": []any{"x"},
			"annotations":   map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "all of it", "example.com/token": "abc", "a": "b"},
		},
		"spec": map[string]any{"secretName": "s", "env": []any{
			map[string]any{"name": "DB_PASSWORD", "value": "abc"}, map[string]any{"name": "HOME", "value": "/"},
			map[string]any{"name": "EMPTY_TOKEN", "value": ""},
		}},
	}
	r := New()
	r.Object(object)
	want := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"example.com/token": Hidden, "a": "b"}},
		"spec": map[string]any{"secretName": "s", "env": []any{
			map[string]any{"name": "DB_PASSWORD", "value": Hidden}, map[string]any{"name": "HOME", "value": "/"},
			map[string]any{"name": "EMPTY_TOKEN", "value": ""},
		}},
	}
	if diff := cmp.Diff(want, object); diff != "" || r.Count != 2 {
		t.Errorf("%d redacted (-want +got):\n%s", r.Count, diff)
	}
}

func TestATextOfSeveralLinesIsRedacted(t *testing.T) {
	text := "a\ntoken=abc\n-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY----- x\nb"
	if got, want := String(text), "a\ntoken=[redacted]\n[redacted]\nb"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The formats are vSphere's: the INI file, the Secret, and both in logs.
func TestPasswordsOfVSphereAreRedactedWhateverTheyHave(t *testing.T) {
	const left = "LEFT"
	for _, text := range []string{
		`password = "LEFT"`, `password = "a\"LEFT"`, `password = "a\\" LEFTOVER=1`, `password = "a;LEFT#b c"`, `password = "cut off LEFT`, `password = "a\\\"LEFT`,
		`	password=xyLEFT`, `password = a;LEFT`, `password = a"LEFT`, `password = p@ss, LEFT`,
		`vc1.example.com.password: TEVGVA=LEFT`, `"vc1.example.com.password": "a\"LEFT"`, `10.0.0.1.password: 'it''s LEFT'`, `10.0.0.1.password: 'cut LEFT`,
		`msg="config" text="[VirtualCenter \"vc1\"]\nuser = \"a@b\"\npassword = \"a\\\"LEFT\"\n"`, `{"conf":"password = \"a LEFT\\\\\"\ninsecure-flag = \"true\""}`,
		`text="password = \"cut off \\\"LEFT`, "[VirtualCenter \"vc1\"]\nuser = \"a@b\"\npassword = \"x LEFT\"\nport = \"443\"\n",
	} {
		got := String(text)
		if text = strings.ReplaceAll(text, "LEFTOVER", ""); strings.Contains(strings.ReplaceAll(got, "LEFTOVER", ""), left) || !strings.Contains(got, Hidden) {
			t.Errorf("%s\nbecomes %s", text, got)
		}
	}
	const rest = "user = \"a@b\"\npassword = [redacted]\nport = \"443\"\n"
	if got := String(strings.Replace(rest, Hidden, `"a\\\" b"`, 1)); got != rest {
		t.Errorf("%q", got)
	}
	r, secret := New(), map[string]any{"stringData": map[string]any{"vc1.example.com.username": "a@b", "vc1.example.com.password": left}}
	if r.Object(secret); r.Count != 1 || secret["stringData"].(map[string]any)["vc1.example.com.username"] != "a@b" {
		t.Errorf("%d: %v", r.Count, secret)
	}
}
