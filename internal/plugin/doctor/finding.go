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
	// Error: something does not work.
	Error Severity = "error"
	// Warning: something works now, but may fail later.
	Warning Severity = "warning"
	// Unknown: the subject is not in its wanted state, and doctor does not know why.
	Unknown Severity = "unknown"
	// Info: worth knowing, but no problem.
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
	// Said quotes the operator, Kubernetes or a driver.
	Said string `json:"said,omitempty"`

	// topic identifies the problem, in parts: doctor prints one finding for each topic. Effects are topics, or prefixes of topics, that
	// the finding explains; "*" stands for any part.
	topic   string
	effects []string
	// level is the distance from the root: a finding is only explained by one of a lower level.
	level level
	// general findings are not about the subject. They count only if they explain a finding that is.
	general bool
	// symptom findings only repeat that something does not work. They count only without a better finding.
	symptom bool
}

// level orders causes from the root.
type level int

const (
	// A finding of one level can cause findings of all later levels.
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

// covers reports whether a topic matches an effect.
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

// explains reports whether a finding is a consequence of a cause.
func explains(cause, one Finding) bool {
	return cause.level < one.level && cause.Severity == Error &&
		slices.ContainsFunc(cause.effects, func(effect string) bool { return covers(effect, one.topic) })
}

// relevant drops general findings that explain nothing about the subject, directly or through others.
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

// withoutSymptoms drops symptoms if there is a better finding.
func withoutSymptoms(all []Finding) []Finding {
	if !slices.ContainsFunc(all, func(one Finding) bool { return one.Severity == Error && !one.general && !one.symptom }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(one Finding) bool { return one.symptom })
}

// roots drops explained findings and all but the first of each topic, and sorts the rest by severity and level.
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

func rank(severity Severity) int {
	return slices.Index([]Severity{Error, Warning, Unknown, Info}, severity)
}

// topicOf joins the parts of a topic. Parts hold no slash.
func topicOf(parts ...string) string {
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "/", "|")
	}
	return strings.Join(parts, "/")
}
