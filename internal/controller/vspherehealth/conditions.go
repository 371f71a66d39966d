package vspherehealth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The types of the conditions. The first two are those of the operator (pkg/operator/vspherecontroller/vspherecontroller.go, updateConditions), whose
// ends the cluster-storage-operator sums up. Nobody sums up the third: it is for people.
const (
	upgradeableType = "VMwareVSphereControllerUpgradeable"
	degradedType    = "VMwareVSphereOperatorCheckDegraded"
	warningType     = "VMwareVSphereOperatorCheckWarning"
)

func types() []string { return []string{upgradeableType, degradedType, warningType} }

// conditions say what was found. A line of a message is a finding, and begins with the name of its check.
func conditions(found []finding) []operatorv1.OperatorCondition {
	tell := func(kind string, bad bool, matters func(severity) bool) operatorv1.OperatorCondition {
		var lines []string
		reasons := map[string]bool{}
		for _, one := range found {
			if matters(one.severity) {
				lines = append(lines, string(one.check)+": "+strings.ReplaceAll(one.message, "\n", " "))
				reasons[string(one.check)] = true
			}
		}
		slices.Sort(lines)
		switch reason := slices.Collect(maps.Keys(reasons)); len(reason) {
		case 0:
			return status.Condition(kind, !bad, "", "")
		case 1:
			return status.Condition(kind, bad, reason[0], strings.Join(lines, "\n"))
		default:
			return status.Condition(kind, bad, "Multiple", strings.Join(lines, "\n"))
		}
	}
	return []operatorv1.OperatorCondition{
		tell(upgradeableType, false, func(s severity) bool { return s >= blockUpgrade }),
		tell(degradedType, true, func(s severity) bool { return s == degrade }),
		tell(warningType, true, func(s severity) bool { return s == warn }),
	}
}

// remembered are the findings that conditions tell of: the only memory there is of them.
func remembered(have []operatorv1.OperatorCondition) []finding {
	var found []finding
	known := map[problem]severity{}
	for _, check := range checks() {
		known[check.name] = check.most
	}
	add := func(kind string, severity severity) {
		condition := cmp.Or(status.Find(have, kind), &operatorv1.OperatorCondition{})
		for line := range strings.SplitSeq(condition.Message, "\n") {
			name, message, _ := strings.Cut(line, ": ")
			one := finding{check: problem(name), severity: severity, message: message, objects: 1}
			most, exists := known[one.check]
			if !exists || slices.ContainsFunc(found, func(other finding) bool { return other.check == one.check && other.message == message }) {
				continue
			}
			if severity == blockUpgrade && most == blockInstall {
				one.severity = most
			}
			if rest, is := strings.CutPrefix(message, "vCenter "); is {
				// Names of servers have no space; a sentence that happens to begin so has.
				if server, _, cut := strings.Cut(rest, ": "); cut && !strings.Contains(server, " ") {
					one.server = server
				}
			}
			found = append(found, one)
		}
	}
	// What degrades keeps from upgrades as well.
	add(degradedType, degrade)
	add(upgradeableType, blockUpgrade)
	add(warningType, warn)
	return found
}

// same reports whether two findings are one to people: its text may have changed.
func same(a, b finding) bool { return a.check == b.check && a.server == b.server }

// tier is a severity, as far as conditions tell it.
func (s severity) tier() severity {
	if s == blockInstall {
		return blockUpgrade
	}
	return s
}

// news are the findings that have begun, or have become more or less severe, and those that have gone.
func news(before, now []finding) (begun, healed []finding) {
	for _, one := range now {
		if !slices.ContainsFunc(before, func(old finding) bool { return same(old, one) && old.severity.tier() == one.severity.tier() }) {
			begun = append(begun, one)
		}
	}
	for _, old := range before {
		if !slices.ContainsFunc(now, func(one finding) bool { return same(old, one) }) {
			healed = append(healed, old)
		}
	}
	return begun, healed
}

// refused says why the driver is not to be installed, where it is not there; empty if nothing speaks against it.
func refused(in input, found []finding) string {
	if in.cluster.installed {
		return ""
	}
	var why []string
	for _, one := range found {
		if one.severity >= blockInstall {
			why = append(why, fmt.Sprintf("%s: %s", one.check, one.message))
		}
	}
	return strings.Join(why, "; ")
}
