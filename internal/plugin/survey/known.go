package survey

import (
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

// Profile has the facts about a driver and its operator that this program knows without reading a cluster.
type Profile struct {
	// Title is the display name of the driver. Operator is the name of the Deployment of the driver's operator.
	Title, Operator string
	// Prefix is the beginning of the types of the conditions that are about this driver.
	Prefix string
	// Deployment is the name of the driver's controller. DaemonSet is the name of its node plugin. They are empty if no name is known.
	Deployment, DaemonSet string
	// Platform is the platform on which the cluster itself installs the driver. It is empty if administrators install the driver.
	Platform string
	// Ours means that the operator comes from this repository.
	Ours bool
}

// profiles returns the drivers of this repository and the drivers of all platforms, by CSI name.
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

// anywhere returns the names of operators and DaemonSets that can be in any namespace, because the administrator chooses the namespace in OLM.
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
