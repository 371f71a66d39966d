package doctor

import (
	"cmp"
	"slices"
	"strings"
)

// Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	// Error means that something does not work.
	Error Severity = "error"
	// Warning means that something works, and will not always.
	Warning Severity = "warning"
	// Info is worth knowing, and nothing is wrong.
	Info Severity = "info"
)

// Finding is one cause, or one thing worth knowing.
type Finding struct {
	Severity Severity `json:"severity"`
	// Cause is one sentence. Object is "Kind namespace/name".
	Cause  string `json:"cause"`
	Object string `json:"object"`
	// Do is one sentence. Command, if set, can be copied.
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	// Page is a guide with its section.
	Page string `json:"page"`
	// Said is what an operator, Kubernetes or a driver has said about it, word by word.
	Said string `json:"said,omitempty"`

	// topic is what the finding is about, in parts: two findings about one topic are one. Effects are topics, or beginnings of topics, that
	// follow from it; "*" stands for any part.
	topic   string
	effects []string
	// level is how near to the root the cause is: only what has a lower one explains a finding.
	level level
	// general findings are not about what the user asks about. They matter then only if they explain something that is.
	general bool
	// symptom findings only repeat that something does not work. They count if nobody knows more.
	symptom bool
}

// level orders causes from the root.
type level int

const (
	// ofAPI and those after it are what can be wrong, each of which can be the cause of those that follow.
	ofAPI level = iota
	ofOperator
	ofRequest
	ofConfiguration
	ofCloud
	ofNode
	ofWorkload
	ofPlugin
	ofRegistration
	ofClass
	ofVolume
	ofEvent
	ofUnexplained
)

// covers reports whether a topic begins as an effect says.
func covers(effect, topic string) bool {
	wanted, has := strings.Split(effect, "/"), strings.Split(topic, "/")
	if len(wanted) > len(has) {
		return false
	}
	for i, part := range wanted {
		if part != "*" && part != has[i] {
			return false
		}
	}
	return true
}

// explains reports whether a finding follows from another one.
func explains(cause, one Finding) bool {
	return cause.level < one.level && cause.Severity == Error &&
		slices.ContainsFunc(cause.effects, func(effect string) bool { return covers(effect, one.topic) })
}

// relevant drops general findings that explain nothing of what the user asks about, however many steps it takes.
func relevant(all []Finding) []Finding {
	var kept, general []Finding
	for _, one := range all {
		if one.general {
			general = append(general, one)
			continue
		}
		kept = append(kept, one)
	}
	for found := true; found; {
		found = false
		general = slices.DeleteFunc(general, func(one Finding) bool {
			if !slices.ContainsFunc(kept, func(other Finding) bool { return explains(one, other) }) {
				return false
			}
			kept, found = append(kept, one), true
			return true
		})
	}
	return kept
}

// withoutSymptoms drops symptoms if there is a finding about the same that tells more.
func withoutSymptoms(all []Finding) []Finding {
	if !slices.ContainsFunc(all, func(one Finding) bool { return one.Severity == Error && !one.general && !one.symptom }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(one Finding) bool { return one.symptom })
}

// roots keeps what no other finding explains, the worst and the nearest to the root first. Of one topic the nearest to the root stays.
func roots(all []Finding) []Finding {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b Finding) int { return cmp.Compare(a.level, b.level) })
	var kept []Finding
	for _, one := range ordered {
		explained := slices.ContainsFunc(ordered, func(other Finding) bool {
			return explains(other, one)
		})
		same := slices.ContainsFunc(kept, func(other Finding) bool { return other.topic == one.topic })
		if !explained && !same {
			kept = append(kept, one)
		}
	}
	slices.SortStableFunc(kept, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return kept
}

func rank(severity Severity) int { return slices.Index([]Severity{Error, Warning, Info}, severity) }

// topicOf joins the parts of a topic. Parts hold no slash.
func topicOf(parts ...string) string {
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "/", "|")
	}
	return strings.Join(parts, "/")
}
