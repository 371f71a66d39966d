// Package redact takes tokens, keys and passwords out of what the plugin prints and writes.
package redact

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Hidden stands where something secret was.
const Hidden = "[redacted]"

// Redactor takes what is secret out of texts and objects, and counts it. It would rather take too much than too little.
type Redactor struct {
	Count int

	patterns []pattern
	setting  *regexp.Regexp
}

// pattern is something that is secret wherever it stands. What is in the first group stays.
type pattern struct {
	find *regexp.Regexp
	keep string
}

// words end the names of what is secret.
func words() []string {
	return []string{
		"password", "passwd", "passphrase", "pwd", "secret", "token", "accesskey", "accesskeyid", "accountkey", "privatekey", "apikey", "sharedkey",
		"storagekey", "clientkey", "clientkeydata", "keydata", "connectionstring", "signature", "sig", "credential", "authorization", "cookie", "auth",
		"dockerconfigjson", "dockercfg", "sessionid",
	}
}

// New is one that has counted nothing.
func New() *Redactor {
	const name = `[\w.-]*(?:password|passwd|passphrase|pwd|secret|token|` +
		`(?:access|account|private|api|shared|storage|client)[ _-]?key(?:[ _-]?(?:id|data))?|` +
		`key-data|connection[ _-]?string|signature|\bsig|credential|authorization|cookie|\bauth|dockerconfigjson|dockercfg)`
	// Between quotes, a backslash takes the meaning from what follows, also where the whole has been quoted once more. The end may be cut off.
	const value = `(\\"(?:[^"\\]|\\\\\\["\\]|\\[^"])*(?:\\"|$)|"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|[^\s"',;&\\]+)`
	return &Redactor{
		patterns: []pattern{
			{regexp.MustCompile(`(?i)\b((?:bearer|basic|negotiate|digest)\s+)[A-Za-z0-9+/=._~-]{6,}`), "$1"},
			{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), ""},
			{regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{4,}\b`), ""},
			{regexp.MustCompile(`\bsha256~[A-Za-z0-9_-]{20,}`), ""},
			{regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+(?:@)`), "$1"},
			// A line of a file such as cloud.conf has one value, which goes on to its end.
			{regexp.MustCompile(`(?im)^(\s*` + name + `"?\s+=\s+)[^\s"'\[][^\r\n]*`), "$1"},
			{regexp.MustCompile(`(?i)(--?` + name + `\s+)[^\s-]\S*`), "$1"},
		},
		setting: regexp.MustCompile(`(?i)(` + name + `)(\\?["']?\s*[:=]\s*)` + value),
	}
}

// Line redacts one line of a log or of YAML.
func (r *Redactor) Line(text string) string {
	for _, pattern := range r.patterns {
		text = pattern.find.ReplaceAllStringFunc(text, func(found string) string {
			r.Count++
			return pattern.find.ReplaceAllString(found, pattern.keep) + Hidden
		})
	}
	return r.setting.ReplaceAllStringFunc(text, func(found string) string {
		parts := r.setting.FindStringSubmatch(found)
		if isHarmless(parts[3]) {
			return found
		}
		r.Count++
		return parts[1] + parts[2] + Hidden
	})
}

// isHarmless tells words of a sentence, such as "failed to get secret: not found", from values.
func isHarmless(value string) bool {
	return strings.HasPrefix(value, Hidden) || slices.Contains([]string{
		"", `""`, "''", "not", "no", "is", "was", "the", "a", "an", "failed", "cannot", "can't", "could",
		"null", "<nil>", "nil", "true", "false", "{}", "[]", "{", "[", "|", ">",
	}, strings.ToLower(value))
}

// Text copies a text line by line. Private keys go as a whole.
func (r *Redactor) Text(out io.Writer, in io.Reader) error {
	lines := bufio.NewReader(in)
	inKey := false
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			line, inKey = r.keyed(line, inKey)
			if _, problem := io.WriteString(out, line); problem != nil {
				return fmt.Errorf("write: %w", problem)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read: %w", err)
		}
	}
}

// String redacts a text of any number of lines.
func String(text string) string {
	var out strings.Builder
	// Neither end can fail.
	_ = New().Text(&out, strings.NewReader(text))
	return out.String()
}

// keyed redacts a line that may be within a private key, which may stand in one line.
func (r *Redactor) keyed(line string, inKey bool) (text string, goesOn bool) {
	const begin, end = "-----BEGIN ", "-----END "
	from := strings.Index(line, begin)
	switch {
	case !inKey && from >= 0 && strings.Contains(line[from:], "PRIVATE KEY"):
		r.Count++
		return r.Line(line[:from]) + Hidden + "\n", !strings.Contains(line[from:], end)
	case inKey:
		return "", !strings.Contains(line, end)
	default:
		return r.Line(line), false
	}
}

// Object redacts the fields of an object whose names say that they are secret, and variables of such names. What servers note down beside the
// fields goes: it has all of them once more.
func (r *Redactor) Object(fields map[string]any) {
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	r.fields(fields)
}

func (r *Redactor) fields(fields map[string]any) {
	if name, ok := fields["name"].(string); ok && isSecret(name) {
		if value, ok := fields["value"].(string); ok && value != "" {
			fields["value"] = Hidden
			r.Count++
		}
	}
	for key, value := range fields {
		if text, ok := value.(string); ok && isSecret(key) && text != "" && text != Hidden {
			fields[key] = Hidden
			r.Count++
			continue
		}
		r.value(value)
	}
}

func (r *Redactor) value(value any) {
	switch value := value.(type) {
	case map[string]any:
		r.fields(value)
	case []any:
		for _, one := range value {
			r.value(one)
		}
	}
}

// isSecret tells by the end of a name: secretName and tokenExpirationSeconds are none.
func isSecret(name string) bool {
	plain := strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(words(), func(word string) bool { return strings.HasSuffix(plain, word) })
}
