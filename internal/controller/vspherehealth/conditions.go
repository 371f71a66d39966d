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

// The types of the conditions. OpenShift's operator has the first two types (vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/vspherecontroller/vspherecontroller.go, updateConditions). The cluster-storage-operator aggregates conditions with suffix Upgradeable
// or Degraded, but not with suffix Warning.
const (
	upgradeableType = "VMwareVSphereControllerUpgradeable"
	degradedType    = "VMwareVSphereOperatorCheckDegraded"
	warningType     = "VMwareVSphereOperatorCheckWarning"
)

func types() []string { return []string{upgradeableType, degradedType, warningType} }

// conditions returns the conditions for findings. Each line of a message is a finding, and begins with the name of its check.
func conditions(found []finding) []operatorv1.OperatorCondition {
	condition := func(kind string, bad bool, matters func(severity) bool) operatorv1.OperatorCondition {
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
		condition(upgradeableType, false, func(s severity) bool { return s >= blockUpgrade }),
		condition(degradedType, true, func(s severity) bool { return s == degrade }),
		condition(warningType, true, func(s severity) bool { return s == warn }),
	}
}

// findingsIn reads the findings from the conditions. Findings are stored only there.
func findingsIn(have []operatorv1.OperatorCondition) []finding {
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
				// The name of a server contains no space. If the text before the colon contains a space, the message only happens to begin with "vCenter".
				if server, _, cut := strings.Cut(rest, ": "); cut && !strings.Contains(server, " ") {
					one.server = server
				}
			}
			found = append(found, one)
		}
	}
	// The condition Degraded comes first, because the condition Upgradeable also contains the findings of the condition Degraded.
	add(degradedType, degrade)
	add(upgradeableType, blockUpgrade)
	add(warningType, warn)
	return found
}

// isSame reports whether two findings are about the same problem. Their messages may differ.
func isSame(a, b finding) bool { return a.check == b.check && a.server == b.server }

// tier returns the severity that conditions store. Conditions do not distinguish blockInstall from blockUpgrade.
func (s severity) tier() severity {
	if s == blockInstall {
		return blockUpgrade
	}
	return s
}

// changes returns two lists. The first has the findings that are new or have another severity than before. The second has the findings that are
// resolved.
func changes(before, now []finding) (started, resolved []finding) {
	for _, one := range now {
		if !slices.ContainsFunc(before, func(old finding) bool { return isSame(old, one) && old.severity.tier() == one.severity.tier() }) {
			started = append(started, one)
		}
	}
	for _, old := range before {
		if !slices.ContainsFunc(now, func(one finding) bool { return isSame(old, one) }) {
			resolved = append(resolved, old)
		}
	}
	return started, resolved
}

// refused says why the operator must not install the driver. It returns an empty string if the operator may install the driver, or has already
// installed it.
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
