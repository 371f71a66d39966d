package drivers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// Unknown is the state of a driver that may have a ClusterCSIDriver which the command could not read.
const Unknown survey.State = "Unknown"

// Row describes one driver.
type Row struct {
	Driver string       `json:"driver"`
	State  survey.State `json:"state"`
	// Operator is "namespace/name", with a note if the operator does not run. It is empty if the driver has no operator.
	Operator string `json:"operator,omitempty"`
	Version  string `json:"version,omitempty"`
	// Ready counts the ready node pods. Nodes counts the nodes that should have a node pod.
	Ready int32 `json:"ready"`
	Nodes int32 `json:"nodes"`
	// Excluded names the nodes that the DaemonSet of the driver does not select, each with the reason. Pods on these nodes can't mount volumes of the
	// driver.
	Excluded []string        `json:"excluded,omitempty"`
	Rollout  *survey.Rollout `json:"rollout,omitempty"`
	// HeldUp says what the driver waits for, or which problem it has.
	HeldUp string `json:"heldUp,omitempty"`
}

// Report is the result that the command prints as JSON or YAML.
type Report struct {
	Drivers       []Row          `json:"drivers"`
	MissingRights []plugin.Right `json:"missingRights,omitempty"`
	// NotRead lists the errors of failed requests, and the kinds of which the folder of --from may lack objects.
	NotRead []string `json:"notRead,omitempty"`
}

// rows returns a row for each driver. Drivers with a ClusterCSIDriver come first.
func rows(found survey.Survey) []Row {
	var own, others []Row
	for _, driver := range found.Drivers {
		row := rowOf(driver, found)
		if driver.CR != nil {
			own = append(own, row)
			continue
		}
		others = append(others, row)
	}
	return append(own, others...)
}

func rowOf(driver survey.Driver, found survey.Survey) Row {
	row := Row{
		Driver: driver.Name, State: driver.State(), Operator: driver.OperatorText(), Rollout: driver.Rollout(), HeldUp: driver.HeldUp(),
	}
	if driver.CR != nil {
		row.Version = driver.CR.Status.Version
	}
	if driver.Nodes != nil {
		row.Ready, row.Nodes = driver.Nodes.Status.NumberReady, driver.Nodes.Status.DesiredNumberScheduled
	}
	switch {
	case row.State == survey.ThirdParty && !found.CRs.Known():
		// The driver may have a ClusterCSIDriver that the command could not read. So do not call the driver third-party.
		row.State = Unknown
	case row.State == survey.ThirdParty && driver.Name == awsefs.Name && strings.HasPrefix(driver.Holder(), survey.HelmRelease):
		row.HeldUp = driver.Holder() + " runs the driver: see docs/guide/from-the-helm-chart.md"
	case row.State == survey.NoReport:
		row.HeldUp = cmp.Or(row.HeldUp, "no operator has written a status into its ClusterCSIDriver")
	case row.HeldUp == "" && row.State != survey.Unmanaged && found.Operators == plugin.Present && driver.IsUnattended():
		row.HeldUp = "its operator is not installed: ask oc storage doctor"
	case row.State == survey.NotRequested:
		row.HeldUp = "the operator waits for a ClusterCSIDriver of this name: create it, see docs/guide/install.md"
	}
	return row
}

// addExcluded adds the nodes that the driver's DaemonSet does not select. It omits nodes that the DaemonSet excludes because of their operating
// system, such as Windows.
func (r *Row) addExcluded(found survey.Survey, nodes []corev1.Node) {
	at := slices.IndexFunc(found.Drivers, func(driver survey.Driver) bool { return driver.Name == r.Driver })
	for i := range nodes {
		why := found.Drivers[at].Excludes(&nodes[i])
		if why != "" && !strings.Contains(why, corev1.LabelOSStable+"=") {
			r.Excluded = append(r.Excluded, fmt.Sprintf("%s (%s)", nodes[i].Name, why))
		}
	}
	if len(r.Excluded) > 0 && r.HeldUp == "" {
		r.HeldUp = "nothing; nodes without a node pod: " + status.Shorten(r.Excluded)
	}
}

// Escape sequences of colours. All have the same length, so that the columns of a table align.
const (
	plain  = "\x1b[39m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
)

func colour(state survey.State) string {
	switch state {
	case survey.Available:
		return green
	case survey.Degraded, survey.Unavailable, survey.NoReport:
		return red
	case survey.Progressing, survey.Removing:
		return yellow
	default:
		return plain
	}
}

// widest is the largest number of characters of a message in the table.
const widest = 100

// table returns the header, and a line for each driver. Only a wide table has whole messages.
func table(all []Row, colours, wide bool) [][]string {
	state := func(text, code string) string {
		if !colours {
			return text
		}
		return code + text + plain
	}
	lines := [][]string{{"DRIVER", state("STATE", plain), "VERSION", "NODES", "ROLL-OUT", "OPERATOR", "HELD UP BY"}}
	for _, row := range all {
		message := row.HeldUp
		if !wide {
			message = shorten(message)
		}
		lines = append(lines, []string{
			row.Driver, state(string(row.State), colour(row.State)), cmp.Or(row.Version, "-"), nodes(row), row.Rollout.String(),
			cmp.Or(row.Operator, "-"), cmp.Or(message, "-"),
		})
	}
	return lines
}

func nodes(row Row) string {
	if row.Nodes == 0 {
		return "-"
	}
	text := fmt.Sprintf("%d/%d", row.Ready, row.Nodes)
	if len(row.Excluded) > 0 {
		text += fmt.Sprintf(" of %d", int(row.Nodes)+len(row.Excluded))
	}
	return text
}

func shorten(text string) string {
	letters := []rune(strings.Join(strings.Fields(text), " "))
	if len(letters) <= widest {
		return string(letters)
	}
	return string(letters[:widest-1]) + "…"
}

// pending returns a text for each driver that is not available yet, with its state. Result "wanted" is the number of drivers with a ClusterCSIDriver
// that is not Unmanaged. A driver in state Removed counts in "wanted", and is not pending.
func pending(found survey.Survey) (names []string, wanted int) {
	for _, driver := range found.Drivers {
		if driver.CR == nil || driver.CR.Spec.ManagementState == operatorv1.Unmanaged {
			continue
		}
		wanted++
		row := rowOf(driver, found)
		if row.State == survey.Available || row.State == survey.Removed {
			continue
		}
		text := fmt.Sprintf("%s is %s", row.Driver, row.State)
		if row.Rollout != nil {
			text += ", " + row.Rollout.String()
		}
		names = append(names, text)
	}
	return names, wanted
}
