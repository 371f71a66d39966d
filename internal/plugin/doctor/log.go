package doctor

import (
	"slices"
	"strings"
)

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
