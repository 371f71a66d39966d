package survey

import (
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

// Profile is what this program knows about a driver and its operator without a cluster.
type Profile struct {
	// Title is the display name of the driver. Operator is the name of its operator's Deployment.
	Title, Operator string
	// Prefix starts the driver's own condition types.
	Prefix string
	// Deployment and DaemonSet are the names of its workloads; empty if none or several are known.
	Deployment, DaemonSet string
	// Platform is the platform on which the cluster installs the driver itself; empty if administrators install it.
	Platform string
	// Ours means that the operator comes from this repository.
	Ours bool
}

// profiles returns the drivers of this repository and of all platforms, by CSI name.
func profiles() map[string]Profile {
	found := map[string]Profile{}
	for _, entry := range catalogue.All() {
		one := Profile{Title: entry.Title, Operator: entry.Operator, Prefix: entry.Condition, Platform: string(entry.Platform), Ours: entry.Builtin}
		for _, workload := range entry.Workloads {
			switch {
			case workload.Kind == "DaemonSet" && one.DaemonSet == "":
				one.DaemonSet = workload.Name
			case workload.Kind == "Deployment" && one.Deployment == "" && strings.HasSuffix(workload.Name, "controller"):
				one.Deployment = workload.Name
			}
		}
		found[entry.Name] = one
	}
	for _, driver := range all.Drivers() {
		one := found[driver.Name]
		one.Operator, one.Prefix, one.Deployment, one.DaemonSet, one.Ours = driver.Operator, driver.ConditionPrefix, driver.Deployment,
			driver.DaemonSet, true
		if one.Title == "" {
			one.Title = driver.Name
		}
		found[driver.Name] = one
	}
	return found
}

// anywhere names the operators and DaemonSets that may be in any namespace: OLM installs them where the administrator wants.
func anywhere(all map[string]Profile) (operators, daemonSets []string) {
	for _, one := range all {
		if one.Platform == "" {
			operators, daemonSets = append(operators, one.Operator), append(daemonSets, one.DaemonSet)
		}
	}
	slices.Sort(operators)
	slices.Sort(daemonSets)
	return operators, daemonSets
}
