package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/mounts"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// The reasons of the condition.
const (
	reasonStalled  = "MountsStalled"
	reasonSilent   = "NodesDoNotReport"
	reasonNoAnswer = "NoAnswer"
)

// mostNodes is the maximum number of nodes in the condition. The condition has a line for each node.
const mostNodes = 10

// isPartial reports whether the last answer lacks nodes, and this process has asked for less than longSilence. So the process does not know whether
// these nodes are silent for long. It is false if mounts hang.
func (s state) isPartial() bool {
	return s.last != nil && s.last.at.Sub(s.first) < longSilence && s.failures < 2 && len(s.stalls) == 0 && len(s.last.silent) > 0
}

// mayHold reports whether an earlier condition may still be true after a partial answer: it names a silent node, or there is no earlier condition.
func (s state) mayHold(before *operatorv1.OperatorCondition) bool {
	if before == nil {
		return true
	}
	words := strings.FieldsFunc(before.Message, func(sign rune) bool { return strings.ContainsRune(" ,:\n", sign) })
	return slices.ContainsFunc(s.last.silent, func(node string) bool { return slices.Contains(words, node) })
}

// condition returns the condition after an answer, or after failures.
func (s state) condition(kind string) *operatorv1.OperatorCondition {
	unknown := func(reason, message string) *operatorv1.OperatorCondition {
		return &operatorv1.OperatorCondition{Type: kind, Status: operatorv1.ConditionUnknown, Reason: reason, Message: message}
	}
	var made operatorv1.OperatorCondition
	switch {
	case s.last == nil || s.failures > 1:
		return unknown(reasonNoAnswer, "it is unknown whether mounts of EFS hang: "+cmp.Or(s.problem, "Prometheus has not answered yet"))
	case len(s.stalls) > 0:
		lines := s.lines()
		if len(s.silent) > 0 {
			lines = append(lines, silence(s.silent))
		}
		made = status.Condition(kind, true, reasonStalled, strings.Join(lines, "\n"))
	case len(s.silent) > 0:
		return unknown(reasonSilent, silence(s.silent))
	default:
		made = status.Condition(kind, false, "", "")
	}
	return &made
}

// lines returns a line for each node whose mounts hang. No line has an age, because an age would change the condition each time.
func (s state) lines() []string {
	var lines []string
	for i, node := range slices.Sorted(maps.Keys(s.stalls)) {
		if i == mostNodes {
			return append(lines, fmt.Sprintf("and %d more nodes", len(s.stalls)-mostNodes))
		}
		text := fmt.Sprintf("node %s: at least %d mounts of EFS hang", node, s.stalls[node].mounts)
		var parts []string
		for _, one := range s.stalls[node].named {
			parts = append(parts, describe(one, s.names))
		}
		if len(parts) > 0 {
			text += ", such as " + strings.Join(parts, " and ")
		}
		lines = append(lines, text+": do not unmount by force, find out why they hang")
	}
	return lines
}

// named returns the named mounts of all nodes whose mounts hang, by node.
func (s state) named() []mount {
	var found []mount
	for _, node := range slices.Sorted(maps.Keys(s.stalls)) {
		found = append(found, s.stalls[node].named...)
	}
	return found
}

// describe names the file system, the pod and the volume of a mount.
func describe(one mount, found names) string {
	pod := "a pod without a UID"
	if one.podUID != "" {
		pod = "pod " + cmp.Or(found.pods[podKey{one.node, one.podUID}], "with UID "+one.podUID)
	}
	what := "an unknown file system"
	if system := found.systems[one.volume]; system != "" {
		what = "file system " + system
	}
	why := "the server does not answer"
	if one.kind == mounts.TunnelDead {
		why = "its tunnel is dead"
	}
	return fmt.Sprintf("%s in %s (PersistentVolume %s, %s)", what, pod, cmp.Or(one.volume, "unknown"), why)
}

func silence(nodes []string) string {
	return fmt.Sprintf("it is unknown whether mounts of EFS hang on %d nodes, because their pods of DaemonSet aws-efs-node-health do not report: %s",
		len(nodes), status.Shorten(nodes))
}
