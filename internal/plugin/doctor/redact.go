package doctor

import (
	"regexp"
	"slices"
	"strings"
)

// redact takes out what opens doors: keys of AWS, tokens, passwords, and what follows words that announce them.
func redact(text string) string {
	const hidden = "${1}REDACTED${2}"
	// The longer ones come first: what is left of a secret after another pattern would not be found any more.
	for _, pattern := range []string{
		`(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
		`()\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`,
		`(?i)(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s]+`,
		`(?i)(\b(?:bearer|basic)\s+)\S+`,
		`(?i)((?:secret|token|password|passwd|access[_-]?key|accountkey|credential)[a-z_-]*"?\s*[:=]\s*"?)[^\s",;&}]+`,
		`()\b(?:AKIA|ASIA)[A-Z0-9]{4,}\b`,
		`(//)[^/\s:@]+:[^/\s@]+(@)`,
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, hidden)
	}
	return text
}

// mostLines is how many lines of a log are shown.
const mostLines = 5

// matter are the last lines of a log that tell of a failure and name one of the texts, without secrets.
func matter(log string, names []string) []string {
	var found []string
	for text := range strings.SplitSeq(log, "\n") {
		lower := strings.ToLower(text)
		isFailure := slices.ContainsFunc([]string{"error", "failed", "denied", "timed out", "timeout"}, func(word string) bool {
			return strings.Contains(lower, word)
		})
		if isFailure && slices.ContainsFunc(names, func(name string) bool { return name != "" && strings.Contains(text, name) }) {
			found = append(found, clip(text))
		}
	}
	return found[max(0, len(found)-mostLines):]
}
