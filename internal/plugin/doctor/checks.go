package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// check finds problems of one kind. If doctor could not read the facts that a check needs, the check returns no finding.
type check func(*facts) []Finding

// checks lists all checks. Their order does not matter, because the function roots sorts the findings.
func checks() []check {
	return []check{
		apiUnreachable, waitingPods, subscriptions, operatorGroups, installPlans, clusterServiceVersions,
		twoCopies, operatorMissing, operatorDown, thirdParty, notRequested, management, removalBlocked,
		noReport, conditions, cloud, cloudLacks,
		nodesDown, daemonSetMissing, pluginsMissing, controllerDown, defaultClasses, classParameters,
		subjectMissing, claimClasses, claimVolumes, claimDrivers, claimBinding, claimStates, volumeStates, volumesFailed, volumesRefused, sameHandles,
		refusals, mismatches, classesGrow,
		podZone, podScheduling, podRegistration, podPlugin, nodeDrivers, nodeTaints, diskFull, classSubject, longPaths,
		shared, events, unexplained, clusterOperator,
	}
}

// diagnose runs every check, and returns the findings that no other finding explains.
func diagnose(f *facts) []Finding {
	var all []Finding
	for _, check := range checks() {
		all = append(all, check(f)...)
	}
	all = withoutSymptoms(all)
	if f.subject != nil {
		all = relevant(all)
	}
	found := withoutDoubles(roots(all))
	return append(unsettled(f, found), found...)
}

func apiUnreachable(f *facts) []Finding {
	if f.unreachable == nil {
		return nil
	}
	return []Finding{{
		Severity: Error, Cause: "The API server of your kubeconfig cannot be reached.", Object: "APIServer", Said: clip(f.unreachable.Error()),
		Do: "Check the address in the kubeconfig, the network, and whether the API server runs.", Command: "oc cluster-info", Page: string(pageTrouble),
		topic: "api", level: ofAPI,
	}}
}

// each calls find with every relevant driver, and returns the findings.
func (f *facts) each(find func(survey.Driver) *Finding) []Finding {
	var all []Finding
	for _, one := range f.Drivers {
		if !f.about(one.Name) {
			continue
		}
		if found := find(one); found != nil {
			found.general = f.subject != nil
			all = append(all, *found)
		}
	}
	return all
}

// ofDriver returns the topics (see Finding) of the findings about all objects of a driver.
func ofDriver(name string) []string {
	return []string{
		topicOf("report", name), topicOf("condition", name), topicOf("daemonset", name), topicOf("controller", name),
		topicOf("csidriver", name), topicOf("node", "*", "csinode", name), topicOf("node", "*", "plugin", name), topicOf("node", "*", "absent", name),
		topicOf("provision", name), topicOf("event", "provision", name),
	}
}

func crOf(name string) string { return "ClusterCSIDriver " + name }

func twoCopies(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if len(d.Operators) < 2 || d.CR == nil {
			return nil
		}
		var names []string
		for _, one := range d.Operators {
			names = append(names, one.Namespace+"/"+one.Name)
		}
		newest := d.Operators[len(d.Operators)-1]
		return &Finding{
			Severity: Error, Object: "Deployment " + status.Shorten(names), Page: string(pageOther),
			Cause: fmt.Sprintf("%d copies of the operator of driver %s run in different namespaces.", len(names), d.Name),
			Do:    "Uninstall all copies but one, and keep the ClusterCSIDriver.", Command: toCopy("oc -n %s get subscriptions,csv", newest.Namespace),
			topic: topicOf("copies", d.Name), level: ofAPI, effects: append(ofDriver(d.Name), topicOf("operator", d.Name), topicOf("removal", d.Name)),
		}
	})
}

func operatorMissing(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if d.CR == nil || d.Profile == nil || f.Operators != plugin.Present || len(d.Operators) > 0 {
			return nil
		}
		found := Finding{
			Severity: Error, Object: crOf(d.Name), Page: installPage(d.Name),
			Cause: fmt.Sprintf("Driver %s has no operator: Deployment %s does not exist, and no Lease shows an operator outside of the cluster.",
				d.Name, d.Profile.Operator),
			// If the operator runs outside of the cluster, doctor can find it only by its Lease.
			Do:      "Install the operator. If it runs outside of the cluster, start it with --leader-elect=true, so that it holds the Lease of the operator.",
			Command: "oc get subscriptions -A",
			topic:   topicOf("operator", d.Name), level: ofOperator, effects: append(ofDriver(d.Name), topicOf("removal", d.Name)),
		}
		if d.LeaseHolder != "" {
			return &Finding{
				Severity: Info, Object: crOf(d.Name), Page: string(pageWithoutOLM), topic: found.topic, level: ofOperator,
				Cause:   fmt.Sprintf("An operator without a Deployment in the cluster manages driver %s: %s holds the operator's Lease.", d.Name, d.LeaseHolder),
				Do:      "If you did not expect this, find out who started this operator.",
				Command: toCopy("oc -n %s get lease %s-lock -o yaml", catalogue.Namespace, d.Profile.Operator),
			}
		}
		if d.Profile.Platform != "" {
			found.Do, found.Page = "Find out why the cluster-storage-operator has not created the Deployment of the driver's operator.", string(pageStorage)
			found.Command = "oc describe clusteroperator storage"
		}
		if d.CR.DeletionTimestamp != nil {
			found.Cause = fmt.Sprintf("No operator can remove driver %s, whose ClusterCSIDriver is Terminating: Deployment %s does not exist.",
				d.Name, d.Profile.Operator)
			found.Do, found.Page = "Install the operator again, so that it can remove the driver.", string(pageRemove)
		}
		return &found
	})
}

// installPage returns the guide for installing a driver that administrators install.
func installPage(driver string) string {
	if driver == efs.DriverName {
		return string(pageInstall)
	}
	return string(pageThirdParty)
}

func operatorDown(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if len(d.Operators) != 1 || survey.Runs(d.Operators[0]) {
			return nil
		}
		deployment := d.Operators[0]
		found := &Finding{
			Severity: Error, Object: "Deployment " + deployment.Namespace + "/" + deployment.Name, Page: string(pageOperator),
			Cause: fmt.Sprintf("The operator of driver %s does not run.", d.Name), Do: "Read the logs and the events of the operator's pods.",
			Command: toCopy("oc -n %s describe deployment/%s", deployment.Namespace, deployment.Name), Said: status.Shorten(status.Unready(d.OperatorPods)),
			topic: topicOf("operator", d.Name), level: ofOperator,
			effects: []string{topicOf("report", d.Name), topicOf("condition", d.Name), topicOf("daemonset", d.Name), topicOf("csidriver", d.Name),
				topicOf("removal", d.Name), topicOf("node", "*", "absent", d.Name)},
		}
		if wants := deployment.Spec.Replicas; wants != nil && *wants == 0 {
			found.Cause = fmt.Sprintf("The operator of driver %s does not run: its Deployment is scaled to 0.", d.Name)
			found.Do = "Scale the Deployment to one replica."
			found.Command = toCopy("oc -n %s scale deployment/%s --replicas=1", deployment.Namespace, deployment.Name)
		}
		return found
	})
}

func thirdParty(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		holder := d.Holder()
		if holder == "" || (d.CR == nil && !f.CRs.Known()) {
			return nil
		}
		found := &Finding{
			Severity: Info, Object: "CSIDriver " + d.Name, Page: string(pageOfHolder(d, holder)),
			Cause:   fmt.Sprintf("Driver %s is a third-party driver, installed by %s.", d.Name, clip(holder)),
			Do:      "Either keep this driver, or replace it: uninstall it, and then create the ClusterCSIDriver.",
			Command: toCopy("oc get csidriver %s -o yaml", d.Name), topic: topicOf("thirdparty", d.Name), level: ofOperator,
		}
		if d.CR != nil || len(d.Operators) > 0 {
			found.Severity, found.level = Error, ofAPI
			found.Do = "Uninstall the third-party driver when no pod uses its volumes; the operator then installs its own driver."
			found.effects = append(ofDriver(d.Name), topicOf("request", d.Name), topicOf("operator", d.Name))
		}
		return found
	})
}

// pageOfHolder returns the guide about replacing a driver that another owner has installed.
func pageOfHolder(d survey.Driver, holder string) page {
	switch {
	case d.Name != efs.DriverName:
		return pageStorage
	case strings.HasPrefix(holder, survey.HelmRelease):
		return pageChart
	default:
		return pageOther
	}
}

func notRequested(f *facts) []Finding {
	all, wanted := noDriver(f), f.operated()
	for _, class := range f.classes.items {
		if class.Provisioner == efs.DriverName {
			wanted[class.Provisioner] = cmp.Or(wanted[class.Provisioner], "StorageClass "+class.Name+" needs the driver")
		}
	}
	if f.subject != nil {
		for _, name := range f.subject.drivers {
			if name == efs.DriverName {
				wanted[name] = cmp.Or(wanted[name], f.subject.kind+" "+f.subject.name+" needs the driver")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		d, why := f.driver(name), wanted[name]
		// Skip clusters without the kind ClusterCSIDriver. Also skip a driver that has a CSIDriver and no ClusterCSIDriver, because another owner installed
		// such a driver.
		if !f.about(name) || f.CRs != plugin.Present || d != nil && (d.CR != nil || d.CSIDriver != nil) {
			continue
		}
		all = append(all, Finding{
			Severity: Error, Object: crOf(name), Page: installPage(name),
			Cause:   fmt.Sprintf("Driver %s is not installed, although %s: its ClusterCSIDriver does not exist.", name, why),
			Do:      "Create ClusterCSIDriver " + name + ".",
			Command: toCopy(`oc create -f - <<<'{"apiVersion":"operator.openshift.io/v1","kind":"ClusterCSIDriver","metadata":{"name":"%s"}}'`, name),
			topic:   topicOf("request", name), level: ofRequest, effects: ofDriver(name), general: f.subject != nil,
		})
	}
	return all
}

// operated maps the name of each driver that has an operator to the reason why doctor expects the driver to be installed.
func (f *facts) operated() map[string]string {
	names := map[string]string{}
	for _, d := range f.Drivers {
		if (len(d.Operators) > 0 || d.LeaseHolder != "") && d.Profile != nil {
			names[d.Name] = "its operator runs"
		}
	}
	return names
}

// noDriver reports a cluster that has neither a CSI driver nor a ClusterCSIDriver.
func noDriver(f *facts) []Finding {
	if f.subject != nil || len(f.Drivers) > 0 || f.CSIDrivers != plugin.Present || f.CRs != plugin.Present {
		return nil
	}
	return []Finding{{
		Severity: Info, Object: crOf(efs.DriverName), Page: string(pageInstall), Cause: "The cluster has no CSI driver.",
		Do: "To use EFS, install the operator, and create ClusterCSIDriver " + efs.DriverName + ".", Command: "oc storage install efs",
		topic: topicOf("request", efs.DriverName, "nobody"), level: ofRequest,
	}}
}

func management(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if d.CR == nil {
			return nil
		}
		manage := toCopy(`oc patch clustercsidriver %s --type=merge -p '{"spec":{"managementState":"Managed"}}'`, d.Name)
		switch d.State() {
		case survey.Removed:
			found := &Finding{
				Severity: Error, Object: crOf(d.Name), Page: string(pageRemove), Command: manage,
				Cause: fmt.Sprintf("Driver %s is not installed, because its managementState is Removed.", d.Name),
				Do:    "Set managementState to Managed to install the driver.",
				topic: topicOf("request", d.Name), level: ofRequest, effects: ofDriver(d.Name),
			}
			if d.Disabled() != nil && f.subject == nil && f.classOf(d.Name) == "" {
				// Nothing is wrong, because the operator reports that the removal was intended, and no StorageClass uses the driver.
				found.Severity = Info
			}
			return found
		case survey.Unmanaged:
			return &Finding{
				Severity: Info, Object: crOf(d.Name), Page: string(pageUnmanaged), Command: manage,
				Cause: fmt.Sprintf("The operator does not change driver %s, because its managementState is Unmanaged.", d.Name),
				Do:    "Set managementState to Managed when you have finished your changes.",
				topic: topicOf("request", d.Name), level: ofRequest,
			}
		default:
			return nil
		}
	})
}

func noReport(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if d.State() != survey.NoReport {
			return nil
		}
		return &Finding{
			Severity: Error, Object: crOf(d.Name), Page: string(pageTrouble),
			Cause: "No operator has written a status into the ClusterCSIDriver.", Do: "Read the log of the operator.",
			Command: logCommand(d), topic: topicOf("report", d.Name), level: ofConfiguration, effects: ofDriver(d.Name),
		}
	})
}

func logCommand(d survey.Driver) string {
	if len(d.Operators) == 0 {
		return "oc get deployments -A"
	}
	return toCopy("oc -n %s logs deployment/%s", d.Operators[0].Namespace, d.Operators[0].Name)
}

func defaultClasses(f *facts) []Finding {
	if f.subject != nil || f.classes.Answer != plugin.Present {
		return nil
	}
	names := f.defaults()
	switch {
	case len(names) > 1:
		return []Finding{{
			Severity: Warning, Object: "StorageClass " + status.Shorten(names), Page: string(pageDefault),
			Cause:   fmt.Sprintf("%d StorageClasses are marked as the default; Kubernetes uses the newest.", len(names)),
			Do:      "Keep one StorageClass as the default.",
			Command: toCopy("oc annotate storageclass %s --overwrite %s=false", names[0], driver.DefaultAnnotation("StorageClass")),
			topic:   "defaultclass", level: ofClass,
		}}
	case len(names) == 0 && len(f.classes.items) > 0:
		return []Finding{{
			Severity: Info, Object: "StorageClass", Page: string(pageDefault),
			Cause:   "No StorageClass is the default, so PVCs without a class stay Pending.",
			Do:      "Make one StorageClass the default.",
			Command: toCopy("oc annotate storageclass %s --overwrite %s=true", f.classes.items[0].Name, driver.DefaultAnnotation("StorageClass")),
			topic:   "defaultclass", level: ofClass,
		}}
	}
	return nil
}

// defaults returns the names of the default StorageClasses.
func (f *facts) defaults() []string {
	var names []string
	for _, class := range f.classes.items {
		if class.Annotations[driver.DefaultAnnotation("StorageClass")] == "true" {
			names = append(names, class.Name)
		}
	}
	slices.Sort(names)
	return names
}

func available(deployment *appsv1.Deployment) bool {
	return deployment != nil && survey.Runs(*deployment)
}

// podOn returns the pod that runs on a node and is not being deleted. If the node has no such pod, the result is nil.
func podOn(pods []corev1.Pod, node string) *corev1.Pod {
	for i := range pods {
		if pods[i].Spec.NodeName == node && pods[i].DeletionTimestamp == nil {
			return &pods[i]
		}
	}
	return nil
}
