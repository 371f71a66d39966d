// Package redact removes tokens, keys and passwords from what the plugin prints and writes.
package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Hidden replaces a secret.
const Hidden = "[redacted]"

// Redactor removes secrets from texts and objects, and counts the removed values. When in doubt, it removes a value.
type Redactor struct {
	Count int

	*rules
}

// rules are the patterns of secrets.
type rules struct {
	patterns []pattern
	// setting matches the end of a secret's name, and the separator before the secret's value. hint matches every text that setting matches, and some
	// other texts. hint is faster, so Line tries hint first.
	setting, hint *regexp.Regexp
	// quoted matches a value in quotes, up to the closing quote or the end of the line.
	quoted *regexp.Regexp
	// key matches a line of YAML that begins with the name of a secret value, such as a password. flag matches a list item that is a flag with such
	// a value.
	key, flag *regexp.Regexp
	// leads matches a line of YAML that is itself a key or a list item. Such a line is not a part of the value in the lines above.
	leads *regexp.Regexp
	// named matches the YAML field "name" of a container's environment variable whose value is secret.
	named *regexp.Regexp
	// whole matches a text that consists of a single setting or flag with a secret.
	whole *regexp.Regexp
	// reason matches the beginning of an error message. If an error message follows a colon, as in "password: permission denied", the redactor keeps the
	// message, because it is no secret.
	reason *regexp.Regexp
}

// pattern matches a secret anywhere in a text. keep is the replacement: "$1" keeps the first group of the match, and an empty text keeps nothing.
type pattern struct {
	find *regexp.Regexp
	keep string
}

// words returns words. A name that ends with one of these words is the name of a secret.
func words() []string {
	return []string{
		"password", "passwd", "passphrase", "pwd", "secret", "token", "accesskey", "accesskeyid", "accountkey", "privatekey", "apikey", "sharedkey",
		"storagekey", "secretkey", "clientkey", "clientkeydata", "keydata", "connectionstring", "signature", "sig", "credential", "authorization", "cookie",
		"auth",
		"dockerconfigjson", "dockercfg", "sessionid",
	}
}

// New makes a Redactor.
func New() *Redactor { return &Redactor{rules: compiled} }

// compiled has the compiled rules. The program compiles them once, because this takes a millisecond.
//
//nolint:gochecknoglobals // Constant.
var compiled = newRules()

func newRules() *rules {
	const word = `(?:password|passwd|passphrase|pwd|secret|token|` +
		`(?:access|account|private|api|shared|storage|client|secret)[ _-]?key(?:[ _-]?(?:id|data))?|` +
		`key-data|connection[ _-]?string|signature|credential|authorization|cookie|dockerconfigjson|dockercfg|session[ _-]?id)`
	const short = `(?:sig|auth|pass)`
	// camel matches the end of names such as adminPass.
	const camel = `(?-i:[a-z0-9]Pass)`
	const name = `(?:[\w.-]*` + word + `|\b(?:[\w.-]*[_.-])?` + short + `|\b[\w.-]*` + camel + `)`
	// A backslash escapes the next character, also in text that was quoted twice. The closing quote may be cut off.
	const quotes = `(?:\\\\\\"(?:[^"\\]|\\+[^"\\])*(?:\\+"|$)|\\"(?:[^"\\]|\\\\\\["\\]|\\[^"])*(?:\\"|$)|"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)`
	return &rules{
		patterns: []pattern{
			{regexp.MustCompile(`(?i)\b((?:bearer|basic|negotiate|digest)\s+)[A-Za-z0-9+/=._~-]{6,}`), "$1"},
			// A JSON Web Token (RFC 7519).
			{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), ""},
			// The unique IDs of AWS's keys, roles and users (IAM User Guide, "IAM identifiers").
			{regexp.MustCompile(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{4,}\b`), ""},
			// OpenShift's OAuth tokens.
			{regexp.MustCompile(`\bsha256~[A-Za-z0-9_-]{20,}`), ""},
			// A Fernet token, such as Keystone's. It begins with version 0x80 and a time, in base64.
			{regexp.MustCompile(`\bgAAAAA[A-Za-z0-9_-]{40,}={0,2}`), ""},
			// The user may be missing, as in redis://:password@host.
			{regexp.MustCompile(`(://)[^/\s:"]*:[^/\s"]+@`), "$1"},
			// A flag and its value, in a list of arguments in JSON.
			{regexp.MustCompile(`(?i)(\\*["']--?` + name + `\\*["']\s*,\s*)` + quotes), "$1"},
			// The name and the value of a container's environment variable, in JSON.
			{regexp.MustCompile(`(?i)(\\*"name\\*"\s*:\s*\\*"` + name + `\\*"\s*,\s*\\*"value\\*"\s*:\s*)` + quotes), "$1"},
			// The name and the value of a container's environment variable, in YAML that was quoted.
			{regexp.MustCompile(`(?i)(\bname:\s+[\\"']*` + name + `[\\"']*\\n\s*value:(?:[\s|>+-]|\\+n)+)(?:[^"\\]|\\+[^n\\])+`), "$1"},
			{regexp.MustCompile(`(?i)((?:^|[\s"'=\[(])--?` + name + `\s+)(?:` + quotes + `|[^\s"'\\-][^\s"]*)`), "$1"},
		},
		hint:    regexp.MustCompile(`(?i)pass|pwd|secret|token|key|sig|auth|cookie|credential|connection|docker|session`),
		setting: regexp.MustCompile(`(?i)(` + word + `|(?:\b|[_.-])` + short + `|` + camel + `)(\\*["']?\s*[:=]\s*)`),
		quoted:  regexp.MustCompile(`^` + quotes),
		key:     regexp.MustCompile(`(?i)^(\s*(?:- +)?)["']?` + name + `["']?:(?:\s+(\S.*))?$`),
		leads:   regexp.MustCompile(`^(?:- |["']?[\w./-]+["']?:(?:\s|$))`),
		named:   regexp.MustCompile(`(?i)^(\s*(?:- +)?)name:\s+["']?` + name + `["']?$`),
		flag:    regexp.MustCompile(`(?i)^\s*- +["']?--?` + name + `["']?$`),
		// These are errors of Go's os, net, net/url, crypto/x509, context and syscall, of gRPC, and of the AWS SDK v2 (Go 1.26). Each error contains
		// several words, a path or an address, which hardly ever occur in a password.
		reason: regexp.MustCompile(`^(?:(?:open|stat|lstat|read|readlink|write|mkdir|remove|rename|unlink|chmod|chown) /|` +
			`(?:Get|Head|Post|Put|Patch|Delete) \\*"https?://|(?:dial|read|write) (?:tcp|udp|unix)[46]? |lookup \S+(?: on \S+)?: |x509: |` +
			`rpc error: code = |operation error \w+: |context (?:deadline exceeded|canceled)|` +
			`permission denied|operation not permitted|no such file or directory|is a directory|connection refused|i/o timeout)`),
		whole: regexp.MustCompile(`(?i)^(-{0,2}` + name + `\s*[:=]\s*)\S`),
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
	if !r.hint.MatchString(text) {
		return text
	}
	var out strings.Builder
	quotes := quotes{text: text}
	for rest := 0; ; {
		found := r.setting.FindStringSubmatchIndex(text[rest:])
		if found == nil {
			return out.String() + text[rest:]
		}
		from := rest + found[1]
		if begin := r.reason.FindStringIndex(text[from:]); begin != nil && strings.Contains(text[rest+found[4]:from], ":") {
			out.WriteString(text[rest : from+begin[1]])
			rest = from + begin[1]
			continue
		}
		to := r.end(text, rest+found[0], from, text[rest+found[4]:from], quotes.openAt(from))
		out.WriteString(text[rest:from])
		if value := text[from:to]; isHarmless(value) {
			out.WriteString(value)
		} else {
			r.Count++
			out.WriteString(Hidden)
		}
		rest = to
	}
}

// end returns the position at which a value ends. Parameter from is the position at which the value begins. Parameter word is the position at which
// the last word of the value's name begins. Parameter between is the separator of name and value. Parameter escaped means that the value is inside
// quoted text.
func (r *Redactor) end(text string, word, from int, between string, escaped bool) int {
	if found := r.quoted.FindStringIndex(text[from:]); found != nil {
		return from + found[1]
	}
	before := strings.TrimRightFunc(text[:word], func(letter rune) bool {
		return letter == '_' || letter == '.' || letter == '-' || unicode.IsLetter(letter) || unicode.IsDigit(letter)
	})
	if name := strings.ToLower(text[word : from-len(between)]); name == "cookie" && strings.Contains(between, ":") {
		// This is the value of the HTTP header Cookie. The value can contain several cookies, with blanks between them.
		return from + until(text[from:], "", escaped)
	}
	begins := escaped && (strings.HasSuffix(before, `"`) || endsLine(before, text[len(before):word]))
	before = strings.TrimRight(before, `"'`)
	if begins || strings.Trim(before, " \t-") == "" {
		// In YAML, and in a file such as cloud.conf, the value ends where the line ends.
		if trimmed := strings.TrimLeft(between, `"'\`); strings.HasPrefix(trimmed, ": ") || strings.HasPrefix(trimmed, " ") {
			return from + until(text[from:], "", escaped)
		}
	}
	return from + until(text[from:], " \t"+stopsAfter(before, between), escaped)
}

// stopsAfter returns the characters that end a value. The character before the value's name shows which separator comes after the value, for instance
// & in a URL.
func stopsAfter(before, between string) string {
	stops := ""
	if strings.IndexByte(`"'\`, between[0]) >= 0 {
		// The name is quoted and the value is not, so the value is a JSON number.
		stops = `,}]"`
	}
	if before == "" {
		return stops
	}
	switch before[len(before)-1] {
	case '?', '&':
		stops += "&"
	case ';':
		stops += ";"
	case ',', '{':
		stops += ",}"
	}
	return stops
}

// endsLine reports whether the text before a name ends with an escaped line end or tab, and perhaps indentation. In `\npassword`, for example, the
// name is matched as "npassword", and the text before the name ends with the backslash.
func endsLine(before, name string) bool {
	if strings.HasSuffix(before, `\`) && name != "" && strings.IndexByte("nrt", name[0]) >= 0 {
		return true
	}
	before = strings.TrimRight(before, " -")
	return strings.HasSuffix(before, `\n`) || strings.HasSuffix(before, `\t`)
}

// quotes finds out which parts of a text are between double quotes.
type quotes struct {
	text string
	at   int
	open bool
}

// openAt reports whether a place in the text is between double quotes. Each call must ask about a later place than the previous call.
func (q *quotes) openAt(place int) bool {
	for ; q.at < place; q.at++ {
		switch q.text[q.at] {
		case '\\':
			q.at++
		case '"':
			q.open = !q.open
		}
	}
	return q.open
}

// until returns the length of the text before the end of the line, or before one of the stops. In quoted text, a quote or an escaped line end
// also ends the value.
func until(text, stops string, quoted bool) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\r' || text[i] == '\n' || strings.IndexByte(stops, text[i]) >= 0 || quoted && text[i] == '"':
			return i
		case quoted && text[i] == '\\':
			if i+1 < len(text) && (text[i+1] == 'n' || text[i+1] == 'r' || text[i+1] == 't' && stops != "") {
				return i
			}
			i++
		}
	}
	return len(text)
}

// isHarmless reports whether a value is empty, a constant or a symbol of YAML or JSON, or a word of a sentence, as in "failed to get secret: not
// found".
func isHarmless(value string) bool {
	return strings.HasPrefix(value, Hidden) || slices.Contains([]string{
		"", `""`, "''", "not", "no", "is", "was", "the", "a", "an", "failed", "cannot", "can't", "could",
		"null", "<nil>", "nil", "true", "false", "{}", "[]", "{", "[", "|", ">",
	}, strings.ToLower(value))
}

// Object redacts an object before it becomes text. In each text, it removes the secrets. In each field with the name of a secret, it removes the
// whole value. It drops managedFields and the last applied configuration, which repeat other fields.
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
	named, _ := fields["name"].(string)
	for key, value := range fields {
		if secret := isSecret(key) || key == "value" && isSecret(named); secret && isValue(value) {
			fields[key] = Hidden
			r.Count++
			continue
		} else if list, ok := value.([]any); ok && secret {
			// A header has a list of values.
			for i, one := range list {
				if isValue(one) {
					list[i] = Hidden
					r.Count++
				}
			}
		}
		fields[key] = r.value(value)
	}
}

// isValue reports whether a value is a text or a number, and not empty.
func isValue(value any) bool {
	switch value := value.(type) {
	case string:
		return value != "" && value != Hidden
	case map[string]any, []any, bool, nil:
		return false
	}
	return true
}

func (r *Redactor) value(value any) any {
	switch value := value.(type) {
	case map[string]any:
		r.fields(value)
	case []any:
		for i, one := range value {
			value[i] = r.value(one)
			if flag, ok := one.(string); ok && i+1 < len(value) && r.flag.MatchString("- "+flag) {
				if next, ok := value[i+1].(string); ok && !strings.HasPrefix(next, "-") {
					value[i+1] = Hidden
					r.Count++
				}
			}
		}
	case string:
		return r.text(value)
	}
	return value
}

// text redacts a text in a field of an object.
func (r *Redactor) text(text string) string {
	if found := r.whole.FindStringSubmatchIndex(text); found != nil && !strings.Contains(text, "\n") && !isHarmless(text[found[3]:]) &&
		!r.reason.MatchString(text[found[3]:]) {
		r.Count++
		return text[:found[3]] + Hidden
	}
	return r.lines(text)
}

// isSecret reports whether a name ends like the name of a secret. The names secretName and tokenExpirationSeconds do not end in this way.
func isSecret(name string) bool {
	lower := strings.ToLower(name)
	plain := strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(lower)
	parts := strings.FieldsFunc(lower, func(letter rune) bool { return strings.ContainsRune("_-. ", letter) })
	return slices.ContainsFunc(words(), func(word string) bool { return strings.HasSuffix(plain, word) }) ||
		len(parts) > 0 && parts[len(parts)-1] == "pass" || strings.HasSuffix(name, "Pass")
}
