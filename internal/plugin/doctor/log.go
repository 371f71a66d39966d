package doctor

import (
	"slices"
	"strings"
)

// mostLines is the largest number of lines that doctor prints from a log.
const mostLines = 5

// failures returns the last lines of a log that report a failure and contain one of the names. It redacts these lines.
func failures(log string, names []string) []string {
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
