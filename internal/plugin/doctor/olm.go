package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// eachSubscription calls find with each Subscription to the operator of a relevant driver, and completes the findings. If the operator runs, an error
// becomes a warning. If not, the error explains all findings about the missing operator and its driver.
func (f *facts) eachSubscription(find func(subscription object, driver string) *Finding) []Finding {
	var all []Finding
	for _, one := range f.olm.subscriptions.items {
		name := driverOf(one.text("spec", "name"))
		if !f.about(name) {
			continue
		}
		found := find(one, name)
		if found == nil {
			continue
		}
		found.general, found.level, found.Page = f.subject != nil, ofAPI, string(pageOLM)
		found.Cause += " " + f.installed(one, name)
		switch {
		case found.Severity != Error:
		case f.runs(name):
			// The installed version keeps working.
			found.Severity = Warning
		default:
			if d := f.driver(name); f.CRs == plugin.Present && (d == nil || d.CR == nil) {
				found.Do += fmt.Sprintf(" When the operator runs, create ClusterCSIDriver %s, which does not exist either.", name)
			}
			found.effects = append(found.effects, append(ofDriver(name), topicOf("operator", name), topicOf("request", name), topicOf("removal", name))...)
		}
		all = append(all, *found)
	}
	return all
}

// installed says whether OLM has installed the operator of a Subscription, and whether the operator runs.
func (f *facts) installed(subscription object, driver string) string {
	version := subscription.text("status", "installedCSV")
	switch {
	case f.runs(driver) && version != "":
		return fmt.Sprintf("Version %s is installed, and the operator runs.", clip(version))
	case f.runs(driver):
		return "The operator runs, but OLM has not installed it."
	case f.hasOperator(driver):
		return "The operator has a Deployment, but no ready pod."
	case version != "":
		return fmt.Sprintf("The operator is not installed, although OLM has installed version %s before.", clip(version))
	default:
		return "The operator is not installed."
	}
}

// runs reports whether an operator of a driver runs.
func (f *facts) runs(driver string) bool {
	d := f.driver(driver)
	return d != nil && slices.ContainsFunc(d.Operators, survey.Runs)
}

// hasOperator reports whether a driver's operator has a Deployment.
func (f *facts) hasOperator(driver string) bool {
	d := f.driver(driver)
	return d != nil && len(d.Operators) > 0
}

// subscriptions finds Subscriptions that OLM can't resolve, for instance because the catalog is missing, or because another Subscription installs an
// operator of the same driver.
func subscriptions(f *facts) []Finding {
	return f.eachSubscription(func(one object, driver string) *Finding {
		catalog := one.text("spec", "sourceNamespace") + "/" + one.text("spec", "source")
		found := &Finding{
			Severity: Error, Object: "Subscription " + one.name(), topic: topicOf("olm", one.name(), "subscription"),
			Command: toCopy("oc -n %s describe subscriptions.operators.coreos.com %s", one.GetNamespace(), one.GetName()),
		}
		var rivals []string
		for _, other := range f.olm.subscriptions.items {
			if driverOf(other.text("spec", "name")) == driver {
				rivals = append(rivals, other.name())
			}
		}
		source := f.olm.catalogs.find(func(other object) bool { return other.name() == catalog })
		failed, isFailed := one.condition("ResolutionFailed", "True")
		unpacked, isUnpackFailed := one.condition("BundleUnpackFailed", "True")
		switch {
		case len(rivals) > 1:
			found.Cause = fmt.Sprintf("%d Subscriptions install operators of driver %s, but a cluster may have only one.", len(rivals), driver)
			found.Said, found.topic = "Subscriptions: "+status.Shorten(rivals), topicOf("olm", driver, "rivals")
			found.Do = "Keep the Subscription that you want, and delete the others with their ClusterServiceVersions."
			found.Command = "oc get subscriptions.operators.coreos.com -A"
		case source == nil && f.olm.catalogs.Answer == plugin.Present:
			found.Cause = fmt.Sprintf("OLM can't install the operator of driver %s: its Subscription names CatalogSource %s, which does not exist.",
				driver, clip(catalog))
			found.Do = "Create the CatalogSource, or change spec.source of the Subscription."
		case source != nil && !canBeRead(*source):
			state := source.text("status", "connectionState", "lastObservedState")
			found.Cause = fmt.Sprintf("OLM can't read CatalogSource %s, from which it installs the operator of driver %s.", clip(catalog), driver)
			found.Said = clip("connection " + state + " " + source.text("status", "reason") + " " + source.text("status", "message"))
			found.Do, found.Object = "Find out why the pod of the CatalogSource is not ready, such as an image that can't be pulled.", "CatalogSource "+catalog
			found.Command = toCopy("oc -n %s get pods -l olm.catalogSource=%s", source.GetNamespace(), source.GetName())
		case isFailed:
			found.Said, found.Cause = failed, fmt.Sprintf("OLM finds no version of the operator of driver %s that it can install.", driver)
			found.Do = "Do what the message says: the package, the channel or the version of the Subscription may not be in the catalog."
		case isUnpackFailed:
			found.Said, found.Cause = unpacked, fmt.Sprintf("OLM can't unpack the bundle of the operator of driver %s.", driver)
			found.Do = "Find out why the image of the bundle can't be pulled."
		default:
			return nil
		}
		return found
	})
}

// canBeRead reports whether OLM can read a CatalogSource. A new CatalogSource has no state yet.
func canBeRead(catalog object) bool {
	state := catalog.text("status", "connectionState", "lastObservedState")
	return state == "READY" || state == "" && catalog.text("status", "reason") == ""
}

// operatorGroups finds Subscriptions whose namespace does not have exactly one OperatorGroup. OLM installs nothing in such a namespace.
func operatorGroups(f *facts) []Finding {
	return f.eachSubscription(func(one object, driver string) *Finding {
		var names []string
		for _, group := range f.olm.groups.items {
			if group.GetNamespace() == one.GetNamespace() {
				names = append(names, describeGroup(group))
			}
		}
		found := &Finding{
			Severity: Error, Object: "Subscription " + one.name(), topic: topicOf("olm", one.GetNamespace(), "group"),
			Command: toCopy("oc -n %s get operatorgroups", one.GetNamespace()),
		}
		switch {
		case f.olm.groups.Answer != plugin.Present || len(names) == 1:
			return nil
		case len(names) == 0:
			found.Cause = fmt.Sprintf("OLM installs no operator of driver %s: namespace %s has no OperatorGroup.", driver, one.GetNamespace())
			found.Do = "Create an OperatorGroup without targetNamespaces in this namespace: bundle/install/3-operatorgroup.yaml is an example."
		default:
			found.Cause = fmt.Sprintf("OLM installs no operator of driver %s: namespace %s has %d OperatorGroups, but may have only one.",
				driver, one.GetNamespace(), len(names))
			found.Said = "OperatorGroups: " + status.Shorten(names)
			found.Do = "Keep one OperatorGroup that selects all namespaces, and delete the others."
		}
		return found
	})
}

// describeGroup returns the name, the namespaces and the age of an OperatorGroup.
func describeGroup(group object) string {
	selects := "all namespaces"
	if names, _, _ := unstructured.NestedStringSlice(group.Object, "spec", "targetNamespaces"); len(names) > 0 {
		selects = "namespaces " + strings.Join(names, " ")
	} else if selector, is, _ := unstructured.NestedMap(group.Object, "spec", "selector"); is && len(selector) > 0 {
		selects = "namespaces by a selector"
	}
	text := group.GetName() + " (" + selects
	if created := group.GetCreationTimestamp(); !created.IsZero() {
		text += ", created " + created.UTC().Format(time.RFC3339)
	}
	return text + ")"
}

// installPlans finds InstallPlans that wait for an approval, or that have failed.
func installPlans(f *facts) []Finding {
	return f.eachSubscription(func(one object, driver string) *Finding {
		name := one.text("status", "installPlanRef", "name")
		plan := f.olm.plans.find(func(other object) bool { return other.GetNamespace() == one.GetNamespace() && other.GetName() == name })
		if name == "" || plan == nil {
			return nil
		}
		found := &Finding{
			Severity: Error, Object: "InstallPlan " + plan.name(), topic: topicOf("olm", one.name(), "plan"),
			Command: toCopy("oc -n %s describe installplan %s", plan.GetNamespace(), plan.GetName()),
		}
		switch phase := plan.text("status", "phase"); {
		case phase == "RequiresApproval" && !plan.flag("spec", "approved"):
			found.Cause = fmt.Sprintf("OLM waits for your approval before it installs or updates the operator of driver %s.", driver)
			found.Said = listed("versions", versionsOf(*plan))
			found.Do = "Approve the InstallPlan, if you want to install all versions that it lists."
			found.Command = toCopy(`oc -n %s patch installplan %s --type=merge -p '{"spec":{"approved":true}}'`, plan.GetNamespace(), plan.GetName())
		case phase == "Failed":
			found.Said, _ = plan.condition("Installed", "False")
			found.Cause = fmt.Sprintf("OLM could not install the operator of driver %s: its InstallPlan has failed.", driver)
			found.Do = "Do what the message says, and delete the InstallPlan and the ClusterServiceVersion: OLM then makes a new InstallPlan."
		default:
			return nil
		}
		return found
	})
}

// clusterServiceVersions finds versions of operators that OLM can't install, or can't update.
func clusterServiceVersions(f *facts) []Finding {
	return f.eachSubscription(func(one object, driver string) *Finding {
		current, installed := one.text("status", "currentCSV"), one.text("status", "installedCSV")
		at := func(name string) *object {
			return f.olm.versions.find(func(other object) bool {
				return name != "" && other.GetNamespace() == one.GetNamespace() && other.GetName() == name
			})
		}
		version := at(current)
		found := &Finding{
			Severity: Error, Object: "ClusterServiceVersion " + one.GetNamespace() + "/" + current, topic: topicOf("olm", one.name(), "version"),
			Command: toCopy("oc -n %s describe csv %s", one.GetNamespace(), current),
		}
		if version == nil {
			if f.olm.versions.Answer != plugin.Present || at(installed) != nil {
				return nil
			}
			if plan := f.completed(one, current); plan != "" && installed == "" {
				found.Object = "InstallPlan " + plan
				found.Cause = fmt.Sprintf("The InstallPlan for the operator of driver %s is Complete, but ClusterServiceVersion %s does not exist.",
					driver, clip(current))
				found.Said = clip(fmt.Sprintf("InstallPlan %s: phase Complete, clusterServiceVersionNames %s", plan, current))
				found.Do = "Delete the Subscription, and create it again: OLM does not repeat a completed InstallPlan."
				found.Command = toCopy("oc -n %s delete subscriptions.operators.coreos.com %s", one.GetNamespace(), one.GetName())
				return found
			}
			if installed == "" {
				return nil
			}
			found.Object = "Subscription " + one.name()
			found.Cause = fmt.Sprintf("The operator of driver %s is not installed: ClusterServiceVersion %s was deleted, and OLM does not install it again.",
				driver, clip(installed))
			found.Do = "Delete the Subscription, and create it again."
			found.Command = toCopy("oc -n %s delete subscriptions.operators.coreos.com %s", one.GetNamespace(), one.GetName())
			return found
		}
		return f.versionProblem(*version, driver, found)
	})
}

// completed returns the name of a Subscription's InstallPlan if this InstallPlan is completed and contains the given version. If not, the result is
// empty.
func (f *facts) completed(subscription object, version string) string {
	name := subscription.text("status", "installPlanRef", "name")
	plan := f.olm.plans.find(func(other object) bool {
		return other.GetNamespace() == subscription.GetNamespace() && other.GetName() == name
	})
	if plan == nil || version == "" || plan.text("status", "phase") != "Complete" || !slices.Contains(versionsOf(*plan), version) {
		return ""
	}
	return plan.name()
}

// versionProblem completes the finding about a ClusterServiceVersion. If the ClusterServiceVersion has no problem, the result is nil.
func (f *facts) versionProblem(version object, driver string, found *Finding) *Finding {
	reason := version.text("status", "reason")
	found.Said = clip(reason + ": " + version.text("status", "message"))
	switch phase := version.text("status", "phase"); {
	case reason == "OperatorConditionNotUpgradeable":
		found.Cause = fmt.Sprintf("OLM does not update the operator of driver %s: the installed version says that it is not upgradeable.", driver)
		found.Do = "Do what condition Upgradeable of the ClusterCSIDriver says."
		found.Command = toCopy("oc describe clustercsidriver %s", driver)
	case phase == "Failed":
		return f.versionFailure(version, driver, found)
	case phase == "Pending" && reason == "RequirementsNotMet":
		found.Cause = fmt.Sprintf("OLM does not install the operator of driver %s yet: the cluster lacks an object that the operator requires.", driver)
		found.Do = "Read status.requirementStatus of the ClusterServiceVersion, and create what is missing."
	default:
		return nil
	}
	return found
}

// versionFailure completes the finding about a ClusterServiceVersion that has failed.
func (f *facts) versionFailure(version object, driver string, found *Finding) *Finding {
	switch reason := version.text("status", "reason"); {
	case reason == "InterOperatorGroupOwnerConflict":
		found.Cause = fmt.Sprintf("OLM can't install the operator of driver %s: an operator in another namespace owns the same API.", driver)
		found.Do = "Uninstall the operator in the other namespace, or install this operator as its update: docs/guide/upgrade-from-community.md."
	case reason == "UnsupportedOperatorGroup":
		found.Cause = fmt.Sprintf("OLM can't install the operator of driver %s: the OperatorGroup selects some namespaces, but the operator must "+
			"serve all namespaces.",
			driver)
		found.Do = "Remove targetNamespaces and selector from the OperatorGroup, or install the operator into another namespace."
		found.Command = toCopy("oc -n %s get operatorgroups -o yaml", version.GetNamespace())
	case f.hasOperator(driver) && slices.Contains([]string{"InstallCheckFailed", "ComponentUnhealthy"}, reason):
		// The Deployment of the operator exists, and operatorDown says what is wrong with it.
		return nil
	default:
		found.Cause = fmt.Sprintf("OLM could not install the operator of driver %s: its ClusterServiceVersion has failed.", driver)
		found.Do = "Do what the message says."
	}
	return found
}

// versionsOf names the versions that an InstallPlan installs.
func versionsOf(plan object) []string {
	names, _, _ := unstructured.NestedStringSlice(plan.Object, "spec", "clusterServiceVersionNames")
	return names
}
