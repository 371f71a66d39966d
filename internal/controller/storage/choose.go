package storage

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// decision is what is to become of a driver.
type decision string

const (
	// absent drivers are not here and need not be.
	absent decision = "Absent"
	// wanted drivers are started and kept up.
	wanted decision = "Wanted"
	// kept drivers are here, and nobody knows whether they are wanted: they are only looked at.
	kept decision = "Kept"
	// unwanted drivers are here and are to go.
	unwanted decision = "Unwanted"
)

// choice says what is to become of one driver, and why.
type choice struct {
	entry    catalogue.Entry
	decision decision
	// why explains decisions that are not a matter of course.
	why string
	// problem is what somebody has to put right before the driver can be evaluated.
	problem string
}

type facts struct {
	// infrastructure is nil if it could not be read.
	infrastructure *configv1.InfrastructureStatus
	gates          gates
	// present are the drivers that have a ClusterCSIDriver, ours those whose operator this program has started, by their CSI names.
	present, ours map[string]bool
}

// platform is the one that the Infrastructure names; empty if it names none.
func (f facts) platform() configv1.PlatformType {
	if f.infrastructure == nil {
		return ""
	}
	return openshift.PlatformOf(*f.infrastructure)
}

// problem says why the platform is not known.
func (f facts) problem() string {
	switch {
	case f.infrastructure == nil:
		return "the Infrastructure cluster is missing: no driver is started or removed until it is back; every OpenShift cluster has it, restore it"
	case f.platform() == "":
		return "the Infrastructure cluster names no platform in status.platformStatus.type: no driver is started or removed until it does"
	default:
		return ""
	}
}

// choose decides about every entry of a catalogue.
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

// gated decides about an entry of which the feature gate does not say that it is wanted.
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
		// It was enabled once. What runs is kept up.
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
	// problem says why none is known.
	problem string
}

// gatesOf reads the gates of a release. A nil FeatureGate does not exist.
func gatesOf(gate *configv1.FeatureGate, version string) gates {
	if gate == nil {
		return gates{problem: "the FeatureGate cluster is missing; every OpenShift cluster has it, restore it"}
	}
	at := slices.IndexFunc(gate.Status.FeatureGates, func(details configv1.FeatureGateDetails) bool { return details.Version == version })
	if at >= 0 {
		return gates{listed: gate.Status.FeatureGates[at]}
	}
	return gates{problem: fmt.Sprintf("the FeatureGate cluster does not list the gates of release %q yet", version)}
}

// of is the state of a gate, and what is wrong if it is not known.
func (g gates) of(name configv1.FeatureGateName) (gateState, string) {
	attributes := configv1.FeatureGateAttributes{Name: name}
	switch {
	case g.problem != "":
		return gateUnknown, fmt.Sprintf("whether the feature gate %s is enabled is not known: %s", name, g.problem)
	case slices.Contains(g.listed.Enabled, attributes):
		return gateEnabled, ""
	case slices.Contains(g.listed.Disabled, attributes):
		return gateDisabled, ""
	default:
		return gateUnknown, fmt.Sprintf("the feature gate %s is not known to this release", name)
	}
}
