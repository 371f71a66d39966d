package collect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// hidden stands where something secret was.
const hidden = "[redacted]"

// redactor takes tokens, keys and passwords out of texts and objects, and counts them. It would rather take too much than too little.
type redactor struct {
	count int

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

func newRedactor() *redactor {
	const name = `[\w.-]*(?:password|passwd|passphrase|pwd|secret|token|` +
		`(?:access|account|private|api|shared|storage|client)[ _-]?key(?:[ _-]?(?:id|data))?|` +
		`key-data|connection[ _-]?string|signature|\bsig|credential|authorization|cookie|\bauth|dockerconfigjson|dockercfg)`
	const value = `(\\?"[^"]*"|'[^']*'|[^\s"',;&\\]+)`
	return &redactor{
		patterns: []pattern{
			{regexp.MustCompile(`(?i)\b((?:bearer|basic|negotiate|digest)\s+)[A-Za-z0-9+/=._~-]{6,}`), "$1"},
			{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), ""},
			{regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b`), ""},
			{regexp.MustCompile(`\bsha256~[A-Za-z0-9_-]{20,}`), ""},
			{regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+(?:@)`), "$1"},
			{regexp.MustCompile(`(?i)(--?` + name + `\s+)[^\s-]\S*`), "$1"},
		},
		setting: regexp.MustCompile(`(?i)(` + name + `)(\\?["']?\s*[:=]\s*)` + value),
	}
}

// line redacts one line of a log or of YAML.
func (r *redactor) line(text string) string {
	for _, pattern := range r.patterns {
		text = pattern.find.ReplaceAllStringFunc(text, func(found string) string {
			r.count++
			return pattern.find.ReplaceAllString(found, pattern.keep) + hidden
		})
	}
	return r.setting.ReplaceAllStringFunc(text, func(found string) string {
		parts := r.setting.FindStringSubmatch(found)
		if isHarmless(parts[3]) {
			return found
		}
		r.count++
		return parts[1] + parts[2] + hidden
	})
}

// isHarmless tells words of a sentence, such as "failed to get secret: not found", from values.
func isHarmless(value string) bool {
	return strings.HasPrefix(value, hidden) || slices.Contains([]string{
		"", `""`, "''", "not", "no", "is", "was", "the", "a", "an", "failed", "cannot", "can't", "could",
		"null", "<nil>", "nil", "true", "false", "{}", "[]", "{", "[", "|", ">",
	}, strings.ToLower(value))
}

// text copies a text line by line. Private keys go as a whole.
func (r *redactor) text(out io.Writer, in io.Reader) error {
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

// keyed redacts a line that may be within a private key, which may stand in one line.
func (r *redactor) keyed(line string, inKey bool) (text string, goesOn bool) {
	const begin, end = "-----BEGIN ", "-----END "
	from := strings.Index(line, begin)
	switch {
	case !inKey && from >= 0 && strings.Contains(line[from:], "PRIVATE KEY"):
		r.count++
		return r.line(line[:from]) + hidden + "\n", !strings.Contains(line[from:], end)
	case inKey:
		return "", !strings.Contains(line, end)
	default:
		return r.line(line), false
	}
}

// object redacts the fields of an object whose names say that they are secret, and variables of such names. What servers note down beside the
// fields goes: it has all of them once more.
func (r *redactor) object(fields map[string]any) {
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	r.fields(fields)
}

func (r *redactor) fields(fields map[string]any) {
	if name, ok := fields["name"].(string); ok && isSecret(name) {
		if value, ok := fields["value"].(string); ok && value != "" {
			fields["value"] = hidden
			r.count++
		}
	}
	for key, value := range fields {
		if text, ok := value.(string); ok && isSecret(key) && text != "" && text != hidden {
			fields[key] = hidden
			r.count++
			continue
		}
		r.value(value)
	}
}

func (r *redactor) value(value any) {
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
