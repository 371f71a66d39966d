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
	// Warning means that something works now, but may fail later.
	Warning Severity = "warning"
	// Unknown means that the subject is not in its wanted state, and that no check found the cause.
	Unknown Severity = "unknown"
	// Info means that the finding is worth knowing, but is no problem.
	Info Severity = "info"
)

// Finding is one cause, or one thing worth knowing.
type Finding struct {
	Severity Severity `json:"severity"`
	// Cause is one sentence. Object names the object in the form "Kind namespace/name".
	Cause  string `json:"cause"`
	Object string `json:"object"`
	// Do is one sentence. Command, if set, is a command that the user can copy.
	Do      string `json:"do"`
	Command string `json:"command,omitempty"`
	// Page is the path of a guide, and can name a section: PATH#SECTION.
	Page string `json:"page"`
	// Said quotes the operator, Kubernetes or a driver.
	Said string `json:"said,omitempty"`

	// topic identifies the problem. It is a path such as "event/mount/DRIVER". doctor prints only one finding for each topic. effects has the topics of
	// the findings that this finding explains, or prefixes of these topics. A part "*" of an effect stands for every text.
	topic   string
	effects []string
	// level is the distance from the root cause. A finding can explain only findings of a higher level.
	level level
	// general means that the finding is not about the subject. doctor keeps such a finding only if it explains a finding about the subject.
	general bool
	// symptom means that the finding names no cause, and only says that something does not work. doctor drops such a finding if an error about the
	// subject names a cause.
	symptom bool
	// state means that the finding names the state of the subject, such as Terminating. doctor then adds no finding that says that the reason of the
	// state is unknown: see unsettled.
	state bool
}

// level is a number that tells how close a finding is to the root cause. A finding with a lower level is closer.
type level int

const (
	// A finding with one of these levels can explain findings with levels further down in this list.
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

// covers reports whether an effect is equal to a topic, or is a prefix of the topic. The parts between slashes are compared one by one, and "*" in
// the effect matches every part of the topic.
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

// explains reports whether its first argument is the cause of its second argument.
func explains(cause, one Finding) bool {
	return cause.level < one.level && cause.Severity == Error &&
		slices.ContainsFunc(cause.effects, func(effect string) bool { return covers(effect, one.topic) })
}

// relevant drops the general findings that have nothing to do with the subject. It keeps a general finding that explains a finding about the subject,
// or that explains a general finding which relevant keeps.
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

// withoutSymptoms drops all symptoms if at least one finding is of severity Error, is not general and is no symptom.
func withoutSymptoms(all []Finding) []Finding {
	if !slices.ContainsFunc(all, func(one Finding) bool { return one.Severity == Error && !one.general && !one.symptom }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(one Finding) bool { return one.symptom })
}

// roots drops the findings that another finding explains. If several findings have the same topic, roots keeps only the finding with the lowest
// level. It sorts the result by severity and level.
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

// topicOf joins the parts of a topic with slashes. It replaces each slash within a part by "|".
func topicOf(parts ...string) string {
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(part, "/", "|")
	}
	return strings.Join(parts, "/")
}
