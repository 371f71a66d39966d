package storage

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// decision says what this program does with a driver.
type decision string

const (
	// absent means that the driver is not needed, and that this program has not installed it.
	absent decision = "Absent"
	// wanted means that this program installs and reconciles the driver.
	wanted decision = "Wanted"
	// kept means that the driver is installed, but that this program can't tell whether the driver is needed. This program then only reports on the
	// driver.
	kept decision = "Kept"
	// unwanted means that this program removes the driver.
	unwanted decision = "Unwanted"
)

// choice is the decision about one driver.
type choice struct {
	entry    catalogue.Entry
	decision decision
	// why explains the decision. It is empty if the decision is obvious.
	why string
	// problem says what an administrator must fix before a decision is possible. It is empty if there is nothing to fix.
	problem string
}

type facts struct {
	// infrastructure is nil if the Infrastructure does not exist.
	infrastructure *configv1.InfrastructureStatus
	gates          gates
	// present has the drivers with a ClusterCSIDriver. ours has the drivers whose operator this program has started. The keys of both maps are CSI
	// names.
	present, ours map[string]bool
}

// platform returns the platform of the Infrastructure. It returns an empty string if the Infrastructure has no platform.
func (f facts) platform() configv1.PlatformType {
	if f.infrastructure == nil {
		return ""
	}
	return openshift.PlatformOf(*f.infrastructure)
}

// problem returns why the platform is unknown. It returns an empty string if the platform is known.
func (f facts) problem() string {
	switch {
	case f.infrastructure == nil:
		return "Infrastructure cluster is missing: restore it. Until then, the operator starts and removes no driver"
	case f.platform() == "":
		return "Infrastructure/cluster has no platform in status.platformStatus.type: until it has one, the operator starts and removes no driver"
	default:
		return ""
	}
}

// choose decides about every entry of the catalogue.
func choose(entries []catalogue.Entry, f facts) []choice {
	choices := make([]choice, 0, len(entries))
	for _, entry := range entries {
		made := f.choose(entry)
		made.entry = entry
		choices = append(choices, made)
	}
	return choices
}

func (f facts) choose(entry catalogue.Entry) choice {
	present, ours := f.present[entry.Name], f.ours[entry.Name]
	platform := f.platform()
	switch {
	case platform == "" && ours:
		return choice{decision: kept, why: "the platform is not known"}
	case platform == "":
		return choice{decision: absent}
	case platform != entry.Platform && ours:
		return choice{decision: unwanted, why: fmt.Sprintf("the platform of the cluster is %s", platform)}
	case platform != entry.Platform:
		return choice{decision: absent}
	}
	if made, decided := f.gated(entry); decided {
		return made
	}
	if entry.Unfit != nil && !present && !ours {
		if why := entry.Unfit(*f.infrastructure); why != "" {
			return choice{decision: absent, why: why}
		}
	}
	return choice{decision: wanted}
}

// gated decides about a catalogue entry whose feature gate is disabled or unknown. For all other entries, it makes no decision, and returns false.
func (f facts) gated(entry catalogue.Entry) (choice, bool) {
	if entry.Gate == "" {
		return choice{}, false
	}
	ours := f.ours[entry.Name]
	switch state, problem := f.gates.of(entry.Gate); {
	case state == gateEnabled:
		return choice{}, false
	case state == gateDisabled && ours:
		return choice{decision: unwanted, why: fmt.Sprintf("the feature gate %s is disabled", entry.Gate)}, true
	case state == gateDisabled:
		return choice{decision: absent, why: fmt.Sprintf("the feature gate %s is disabled", entry.Gate)}, true
	case ours:
		// The gate was enabled before, so the driver keeps running.
		return choice{decision: wanted, problem: problem}, true
	default:
		return choice{decision: absent, problem: problem}, true
	}
}

type gateState string

const (
	gateEnabled  gateState = "Enabled"
	gateDisabled gateState = "Disabled"
	gateUnknown  gateState = "Unknown"
)

// gates are the feature gates of one release.
type gates struct {
	listed configv1.FeatureGateDetails
	// problem says why the gates are unknown. It is empty if they are known.
	problem string
}

// gatesOf reads the gates of a release. The FeatureGate is nil if it does not exist.
func gatesOf(gate *configv1.FeatureGate, version string) gates {
	if gate == nil {
		return gates{problem: "FeatureGate cluster is missing: restore it"}
	}
	at := slices.IndexFunc(gate.Status.FeatureGates, func(details configv1.FeatureGateDetails) bool { return details.Version == version })
	if at >= 0 {
		return gates{listed: gate.Status.FeatureGates[at]}
	}
	return gates{problem: fmt.Sprintf("FeatureGate cluster does not list the gates of release %q yet", version)}
}

// of returns the state of a gate. If the state is unknown, it also says why.
func (g gates) of(name configv1.FeatureGateName) (gateState, string) {
	attributes := configv1.FeatureGateAttributes{Name: name}
	switch {
	case g.problem != "":
		return gateUnknown, fmt.Sprintf("can't tell whether feature gate %s is enabled: %s", name, g.problem)
	case slices.Contains(g.listed.Enabled, attributes):
		return gateEnabled, ""
	case slices.Contains(g.listed.Disabled, attributes):
		return gateDisabled, ""
	default:
		return gateUnknown, fmt.Sprintf("this release does not know feature gate %s", name)
	}
}
