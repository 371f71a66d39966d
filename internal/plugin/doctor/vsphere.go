package doctor

import (
	"cmp"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

const (
	vSphereName = "csi.vsphere.vmware.com"
	// thinClass is the name of the StorageClass that the operator creates. vCenterAway is the name of the check whether a vCenter answers.
	thinClass, vCenterAway = "thin-csi", "VCenterConnection"
)

// vSphereChecks maps the name of a check to a sentence about what its failure means. The message of the check says what to do.
func vSphereChecks() map[string]string {
	const privileges = "The user of a vCenter lacks privileges."
	return map[string]string{
		vCenterAway:                     "A vCenter does not answer the operator, or refuses it.",
		"VCenterCertificateNotVerified": "The certificate of a vCenter is not verified.",
		"VCenterUserWithoutDomain":      "The driver does not accept the name of the user of a vCenter.",
		"VCenterVersion":                "A vCenter is too old, or hides its version.",
		"ExistingDriver":                "Another owner has installed a driver for vSphere.",
		"SeveralVCenters":               "Volumes of Kubernetes' own vSphere plugin can't be used with several vCenters.",
		"InfrastructureConfig":          "The Infrastructure and the cloud configuration do not agree on the vCenters.",
		"DatacenterConsistency":         "The datacenter of a failure domain is not listed for its vCenter.",
		"NodePlatform":                  "A node is not a vSphere VM, so the driver does not run there.",
		"NodeProviderID":                "A node has no provider ID of a vSphere VM.",
		"NodeVM":                        "The vCenters do not show the VM of a node, or show only a part of the VM.",
		"NodeHardwareVersion":           "The virtual hardware of a node is too old.",
		"NodeDiskUUID":                  "The VM of a node does not expose the UUIDs of its disks.",
		"NodeChangeTracking":            "Only some nodes track changed blocks, so backups of volumes fail.",
		"HostVersion":                   "An ESXi host of a node is too old.",
		"HostConnection":                "A vCenter does not reach an ESXi host of a node.",
		"VolumeLimit":                   "ESXi hosts of nodes allow fewer volumes than the ClusterCSIDriver configures.",
		"DefaultDatastore":              "The datastore of a failure domain does not exist, or the user can't see it.",
		"FailureDomain":                 "An object of a failure domain does not exist in a vCenter, or the user can't see it.",
		"DatastoreState":                "A datastore can't be used at the moment.",
		"StorageClassPlacement":         "A StorageClass names a datastore or a storage policy that a vCenter lacks.",
		"VolumePlacement":               "A PersistentVolume is on a datastore that no vCenter has.",
		"ZoneTags":                      "Tags of regions or zones are missing in a vCenter.",
		"HostGroups":                    "A host group of a failure domain differs from the Infrastructure.",
		"AccountPermissions":            privileges, "ComputeClusterPermissions": privileges, "ResourcePoolPermissions": privileges,
		"TaskPermissions": "The user of a vCenter may not list tasks, which the driver has to watch.",
	}
}

// vSphere makes one finding from each line in the conditions about the operator's checks. It also makes a finding from the condition about a failed
// connection or a wrong storage policy.
func vSphere(f *facts) []Finding {
	d := f.driver(vSphereName)
	if d == nil || d.CR == nil || d.Profile == nil || d.State() == survey.Removed || !f.about(d.Name) && len(f.withoutThin()) == 0 {
		return nil
	}
	var all []Finding
	// Two of these conditions can contain the same line. The two findings then have the same topic, and function roots keeps only the first.
	for _, kind := range []string{"OperatorCheckDegraded", "ControllerUpgradeable", "OperatorCheckWarning"} {
		condition := cmp.Or(status.Find(d.CR.Status.Conditions, d.Profile.Prefix+kind), &operatorv1.OperatorCondition{})
		for text := range strings.Lines(condition.Message) {
			if name, message, _ := strings.Cut(strings.TrimSpace(text), ": "); vSphereChecks()[name] != "" {
				all = append(all, f.vSphereLine(d, kind, name, message))
			}
		}
	}
	if condition := status.Find(d.CR.Status.Conditions, d.Profile.Prefix+"DriverCloudDegraded"); condition != nil && condition.Status == "True" {
		all = append(all, f.vSphereCloud(d, condition.Message))
	}
	return all
}

// vSphereLine makes a finding from one result of a check. The finding is an error if the result degrades the operator, prevents the installation,
// or names the subject's node or class.
func (f *facts) vSphereLine(d *survey.Driver, kind, name, message string) Finding {
	isNode := strings.HasPrefix(name, "Node") || strings.HasPrefix(name, "Host")
	ours, install := f.subject.named(message, isNode), d.Disabled() != nil && strings.Contains(d.Disabled().Message, message)
	found := Finding{
		Severity: Warning, Cause: vSphereChecks()[name], Do: "Do what the message says.", Object: crOf(d.Name), Said: clip(message),
		Page: string(pageVSphereChecks), Command: toCopy("oc describe clustercsidriver %s", d.Name),
		topic: topicOf("vsphere", name, message), level: ofCloud,
		general: f.subject != nil && !ours, effects: []string{topicOf("condition", d.Name, d.Profile.Prefix+"OperatorCheck")},
	}
	if kind == "OperatorCheckDegraded" || install || ours {
		found.Severity = Error
	}
	add := func(effects ...string) { found.effects = append(found.effects, effects...) }
	switch {
	case install:
		add(ofDriver(d.Name)...)
	case ours && isNode:
		add("event/attach", "event/mount")
	case name == vCenterAway:
		add("event/attach", "event/clouds", "event/cloudca", "event/privilege", topicOf("condition", d.Name, d.Profile.Prefix+"DriverCloud"))
	case name == "StorageClassPlacement" && ours:
		add("event/policy")
	}
	if !isNode {
		add(topicOf("provision", d.Name), topicOf("event", "provision", d.Name), "event/place")
	}
	return found
}

// vSphereCloud makes a finding from the condition about the connection and the storage policy.
func (f *facts) vSphereCloud(d *survey.Driver, message string) Finding {
	found := Finding{
		Severity: Error, Object: crOf(d.Name), Said: clip(message), Page: string(pageVSphereHelp), level: ofNode, general: f.subject != nil,
		Cause: "The storage policy of StorageClass " + thinClass + " is missing or wrong in a vCenter.", Do: "Do what the message says.",
		Command: toCopy("oc describe clustercsidriver %s", d.Name), topic: topicOf("condition", d.Name, d.Profile.Prefix+"DriverCloud"),
		effects: []string{topicOf("provision", d.Name), topicOf("event", "provision", d.Name), "event/policy", "event/place"},
	}
	if strings.HasPrefix(message, "vCenter ") {
		found.Cause = vSphereChecks()[vCenterAway]
	}
	for _, one := range f.withoutThin() {
		// The operator creates its class only if there is a storage policy. So this finding explains why the class of the claim is missing.
		found.effects = append(found.effects, topicOf("claim", f.subject.namespace, one.name)+"/class", "event/provision/")
	}
	return found
}

// withoutThin returns those claims of the subject that are not bound, probably because the operator's class is missing. Such a claim names this
// class, or names no class and the cluster has no default class.
func (f *facts) withoutThin() []claim {
	if f.subject == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.subject.claims), func(one claim) bool {
		return !one.waits() || one.class != nil || one.className != thinClass && (one.className != "" || !one.usesDefault)
	})
}

// named reports whether a message of a check names a subject that does not work. Argument "node" is true if the check is about nodes. The message of
// such a check must contain the name of the subject's node. The message of any other check must contain the StorageClass of a claim that is not
// bound.
func (s *subject) named(message string, node bool) bool {
	words := strings.FieldsFunc(message, isSeparator)
	if s.works() || node {
		return !s.works() && s.nodeOf() != "" && slices.Contains(words, s.nodeOf())
	}
	return slices.ContainsFunc(s.claims, func(one claim) bool { return one.waits() && one.class != nil && slices.Contains(words, one.className) })
}

// ofVSphere returns symptoms for errors of the driver and of vCenters (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/csi/service,
// vanilla/controller.go, common/vsphereutil.go and common/commonco/k8sorchestrator/topology.go; the texts of faults come from vim25).
func ofVSphere() []symptom {
	of, look := []string{vSphereName}, "oc describe clustercsidriver "+vSphereName
	return []symptom{{
		drivers: of, words: []string{"no pbm profile found", "storage policy name", "failed to get policy id"},
		cause: "A vCenter does not have the storage policy of StorageClass CLASS.", do: "Create the policy again, or use another class.",
		command: "oc get storageclass CLASS -o yaml", page: pageVSphereChecks, topic: "event/policy", effects: []string{"provision"},
	}, {
		drivers: of, words: []string{"compatible datastore", "no compatible shared datastores", "no shared datastores", "not accessible to all nodes"},
		cause:   "No datastore that matches the storage policy of StorageClass CLASS is mounted where the pod may run.",
		do:      "Mount the datastore on all hosts of a zone, and give it the tag of the policy.",
		command: look, page: pageVSphereHelp, topic: "event/place", effects: []string{"provision"},
	}, {
		drivers: of, words: []string{"incorrect user name or password", "invalidlogin", "cannot complete login"},
		cause: "A vCenter refuses the user and the password of driver DRIVER.", do: "Correct Secret vsphere-creds in namespace kube-system.",
		command: look, page: pageVSphereLogin, topic: "event/clouds", effects: []string{"provision", "event/mount", "event/attach"},
	}, {
		drivers: of, words: []string{"x509:", "failed to verify certificate"},
		cause:   "Driver DRIVER does not trust the certificate of a vCenter.",
		do:      "Put the CA of the vCenter into the ConfigMap that spec.trustedCA of Proxy cluster names.",
		command: "oc get proxy cluster -o yaml", page: pageVSphereTrust, topic: "event/cloudca", effects: []string{"provision", "event/attach"},
	}, {
		drivers: of, words: []string{"nopermission", "permission to perform this operation was denied"},
		cause: "The user of a vCenter lacks a privilege.", do: "Compare the role of this user with what condition VMwareVSphereOperatorCheckWarning says.",
		command: look, page: pageVSphereChecks, topic: "event/privilege", effects: []string{"provision", "event/attach"},
	}, {
		drivers: of, words: []string{"exceed max volume count"},
		cause: "All nodes that the pod may run on have reached their limit of volumes.", do: "Add a node, or raise maxAllowedBlockVolumesPerNode.",
		command: look, page: pageVSphereLimits, topic: "event/volumes", effects: []string{"event/schedule"},
	}}
}
