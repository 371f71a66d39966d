package survey

import (
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

// Known is what this program knows of a driver and its operator without a cluster.
type Known struct {
	// Title is what people call the driver. Operator is the name of its operator's Deployment.
	Title, Operator string
	// Prefix starts the driver's own condition types.
	Prefix string
	// Deployment and DaemonSet are the names of its workloads; empty where several or none are known.
	Deployment, DaemonSet string
	// Platform is where the cluster itself installs it; empty for a driver that administrators install.
	Platform string
	// Ours means that the operator is of this repository.
	Ours bool
}

// known are the drivers of this repository and those that a cluster gets by its platform, by their CSI names.
func known() map[string]Known {
	found := map[string]Known{}
	for _, entry := range catalogue.All() {
		one := Known{Title: entry.Title, Operator: entry.Operator, Prefix: entry.Condition, Platform: string(entry.Platform), Ours: entry.Builtin}
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

// everywhere are the names of operators and DaemonSets that may be in any namespace: OLM installs them where the administrator wants.
func everywhere(all map[string]Known) (operators, daemonSets []string) {
	for _, one := range all {
		if one.Platform == "" {
			operators, daemonSets = append(operators, one.Operator), append(daemonSets, one.DaemonSet)
		}
	}
	slices.Sort(operators)
	slices.Sort(daemonSets)
	return operators, daemonSets
}
