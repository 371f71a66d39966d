package redact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// planted is part of every secret value, and must not appear in any output.
const planted = "pl4nted"

// form is a format in which programs write secrets, with %s for the value.
type form struct {
	text string
	// source is the program with this format.
	source string
	// values are the characters that a value can have, in addition to letters and digits, without ending the format.
	values string
}

// forms are lines of logs and files. TestNothingSecretIsLeftInAnObject covers values of objects.
func forms() []form {
	const word, line = `!#$%*+./<=>@^_|~;&,`, ` !#$%*+./<=>@^_|~;&,"'\\`
	return []form{
		{"password=%s", "any program's log", word},
		{"I1126 02:13:37.063413 1 main.go:87] \"login\" pass=%s", "klog v2, and names that end in pass", `!#$%*+./<=>@^_|~;&,`},
		{"DB_PASS=%s", "variables of containers", word},
		{"password = %s", "oslo.config of OpenStack's services, gcfg of cloud providers: the value goes on to the end of the line", line},
		{"    password: %s", "YAML, a plain scalar", `!$%*+./<=>@^_|~;&`},
		{"AWS_SECRET_ACCESS_KEY=%s", "AWS CLI, environment variables", `+/=`},
		{"aws_secret_access_key = %s", "AWS CLI, shared credentials file", `+/=`},
		{"GET /?a=b&X-Amz-Security-Token=%s&c=d", "AWS Signature Version 4, presigned requests", `%-._~`},
		{"DefaultEndpointsProtocol=https;AccountName=a;AccountKey=%s;EndpointSuffix=core.windows.net", "Azure Storage, connection strings", `+/=`},
		{"Authorization: Bearer %s", "RFC 6750", `-._~+/=`},
		{"X-Auth-Token: %s", "Keystone, Identity API v3", `-_=`},
		{"vmware-api-session-id: %s", "vSphere Automation API", `-`},
		{"redis://:%s@10.0.0.1:6379/0", "RFC 3986 with an empty user, as Redis has it", `!$&*+,;=._~-`},
		{"https://me:%s@example.com/a", "RFC 3986", `!$&*+,;=._~@-`},
		{"https://administrator@vsphere.local:%s@vc1/sdk", "vSphere: users have an @", `!$&*+,;=._~-`},
		{"redis://:%s@host", "RFC 3986, a password with an apostrophe", `'!$`},
		{"SECRET_KEY=%s", "variables of containers", word},
		{"['--password', '%s']", "a list of arguments in Python, as efs-utils and OpenStack log it", ` !#$%*+./<=>@^_|~;&,`},
		{"program --client-secret %s --v 2", "flags", `!#$%*+./<=>@^_|~;&,`},
		{"program --password \"%s\" --v 2", "flags in quotes of a shell", ` !#$%*+./<=>@^_|~;&,`},
		{`{"name":"DB_PASSWORD","value":"%s"}`, "variables of containers in JSON", ` !#$%*+./<=>@^_|~;&,`},
		{"- name: DB_PASSWORD\n  value: |\n    %s", "variables of containers in YAML, a literal", `!$%*+./<=>@^_|~;&`},
		{"- name: DB_PASSWORD\n  value:\n    %s", "variables of containers in YAML, in the next line", `!$%*+./<=>@^_|~;&`},
		{"- name: DB_PASSWORD\n  value: %s", "variables of containers in YAML", `!$%*+./<=>@^_|~;&`},
		{"I1126 02:13:37.063413 1 main.go:87] adminPass: %s", "names that end in Pass", `!#$%*+./<=>@^_|~;&,`},
		{"2026-11-26 request Cookie: a=1; b=\"%s\"; c=%s", "RFC 6265", `!#$%*+./<=>@^_|~&`},
		{"args: [\"--password\",\"%s\"]", "a list of arguments in JSON", ` !#$%*+./<=>@^_|~;&,`},
	}
}

// value returns a random value for a form that contains planted.
func value(random *rand.Rand, extra string) string {
	letters := "abcXYZ019" + extra
	part := func() string {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteByte(letters[random.IntN(len(letters))])
		}
		return text.String()
	}
	// The value begins and ends with a letter, so that formats don't trim it or see quotes.
	return "x" + part() + planted + part() + "x"
}

// Redaction removes secrets in every format, also when the text is quoted again.
func TestNothingSecretIsLeftInAText(t *testing.T) {
	for _, form := range forms() {
		random := rand.New(rand.NewPCG(1, 2))
		for range 60 {
			written := strings.ReplaceAll(form.text, "%s", value(random, form.values))
			asJSON, err := json.Marshal(map[string]string{"message": written})
			if err != nil {
				t.Fatal(err)
			}
			for how, text := range map[string]string{
				"as it is":               written,
				"between other lines":    "a: b\n" + written + "\nlast",
				"in a log line":          `E1126 02:13:37.0 1 a.go:1] "failed" err="x" text=` + strconv.Quote(written),
				"in a line of JSON":      string(asJSON),
				"in a quoted file":       `I1126 a.go:1] "config" text=` + strconv.Quote("[Global]\nuser = a\n"+written+"\nport = 1"),
				"in JSON in JSON":        strconv.Quote(string(asJSON)),
				"in YAML, as a literal":  "data:\n  file: |\n    " + strings.ReplaceAll(written, "\n", "\n    ") + "\n  other: x\n",
				"in a file, with others": "[Global]\nuser = a\n" + written + "\nport = 1\n",
			} {
				if got := String(text); strings.Contains(got, planted) {
					t.Fatalf("%s (%s), %s:\n%s\nbecomes\n%s", form.text, form.source, how, text, got)
				}
			}
		}
	}
}

// However YAML folds and quotes a value, redaction removes all of it.
func TestNothingSecretIsLeftInYAML(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const signs = " \n!#$%*+./<=>@^_|~;&,\"'\\:-{}[]`?"
	for range 3000 {
		secret := value(random, signs)
		if random.IntN(3) == 0 {
			// Long enough to be folded.
			secret = strings.Repeat("word ", random.IntN(40)) + secret + strings.Repeat(" word", random.IntN(40))
		}
		text, err := yaml.Marshal(map[string]any{"spec": map[string]any{
			"a": "b", "password": secret, "user": "me", "items": []any{map[string]any{"clientSecret": secret, "name": "x"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got := String(string(text))
		if strings.Contains(got, planted) || !strings.Contains(got, "user: me") || !strings.Contains(got, "name: x") {
			t.Fatalf("%s\nbecomes\n%s", text, got)
		}
	}
}

// Objects are redacted before encoding, so their encoding does not matter.
func TestNothingSecretIsLeftInAnObject(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const signs = " \n!#$%*+./<=>@^_|~;&,\"'\\:-{}[]`?"
	for range 1000 {
		secret := value(random, signs)
		oneLine := strings.ReplaceAll(secret, "\n", "")
		form := forms()[random.IntN(len(forms()))]
		object := map[string]any{
			"metadata": map[string]any{"name": "x", "annotations": map[string]any{"example.com/token": secret}},
			"data": map[string]any{
				"pass": secret, "db.password": secret, "cloud.conf": "[Global]\nuser = a\npassword = " + oneLine + "\nport = 1\n",
				"file": strings.ReplaceAll(form.text, "%s", value(random, form.values)),
			},
			"spec": map[string]any{
				"env":  []any{map[string]any{"name": "DB_PASSWORD", "value": secret}, map[string]any{"name": "HOME", "value": "/"}},
				"args": []any{"--v=2", "--password=" + oneLine, "--client-secret", secret, "--last"},
			},
		}
		r := New()
		r.Object(object)
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), planted) || !strings.Contains(string(text), "port = 1") || !strings.Contains(string(text), "--last") ||
			!strings.Contains(string(text), "value: /") {
			t.Fatalf("%q, %s becomes\n%s", secret, form.text, text)
		}
	}
	numbers := map[string]any{"password": int64(12345), "tokenExpirationSeconds": int64(3600), "auth": map[string]any{"kind": "x"}}
	r := New()
	r.Object(numbers)
	if got := fmt.Sprint(numbers); got != "map[auth:map[kind:x] password:[redacted] tokenExpirationSeconds:3600]" {
		t.Error(got)
	}
}

func FuzzNothingPlantedIsLeft(f *testing.F) {
	f.Add("GET /", " rest")
	f.Add("\"a\": \"b\", ", "\n-----BEGIN RSA PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, planted) || strings.Contains(before, "'") || strings.Contains(before, "\"") {
			// An open quote may begin another value.
			return
		}
		for _, form := range forms() {
			if got := String(before + "\n" + strings.ReplaceAll(form.text, "%s", planted) + "\n" + after); strings.Contains(got, planted) {
				t.Errorf("%s: %q", form.text, got)
			}
		}
	})
}
