package catalogue

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
)

const (
	deployment = "Deployment"
	daemonSet  = "DaemonSet"
)

// All returns the drivers that a cluster can get, sorted by the names of their operators. The entries for drivers of this repository are made from
// their Driver.
func All() []Entry {
	entries := []Entry{ibmVPCBlock(), powerVSBlock()}
	for _, d := range all.Drivers() {
		if d.Payload != nil {
			entries = append(entries, builtin(d))
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Operator, b.Operator) })
	return entries
}

// builtin returns the catalogue entry for a driver of this repository.
func builtin(d driver.Driver) Entry {
	var secrets []Secret
	namespace, bindings := d.OperandNamespace(Namespace), own()
	if d.Namespace != "" {
		bindings = append(bindings, Binding{Namespace: namespace, Role: "role"})
	}
	for _, credentials := range d.Credentials {
		if credentials.Payload {
			secrets = append(secrets, Secret{namespace, credentials.Secret})
		}
	}
	return Entry{
		Name: d.Name, Title: d.Payload.Title, Condition: cmp.Or(d.Payload.Condition, d.ConditionPrefix), Platform: d.Platform, Unfit: d.Payload.Unfit,
		Operator: d.Operator, Builtin: true, Image: d.Payload.OperatorImage(), Images: images(d.Payload.DriverImage(), d.Images()),
		MayBeDisabled: d.Disabled != nil, Cloud: d.Cloud != nil, Bindings: bindings, Secrets: secrets, Predecessor: predecessors()[d.Name],
		Workloads: append(workloads(namespace, d.Deployment, d.DaemonSet), further(namespace, d)...), Namespace: d.Namespace,
	}
}

// further returns the other Deployments and DaemonSets of a driver.
func further(namespace string, d driver.Driver) []Workload {
	var found []Workload
	for _, name := range d.Deployments {
		found = append(found, Workload{deployment, namespace, name})
	}
	for _, name := range d.DaemonSets {
		found = append(found, Workload{daemonSet, namespace, name})
	}
	return found
}

// predecessors returns the operators of our drivers that OLM installed in OpenShift 4.5, by the name of the driver.
func predecessors() map[string]*Predecessor {
	return map[string]*Predecessor{
		"ebs.csi.aws.com": {
			Package: "aws-ebs-csi-driver-operator", Deployment: "aws-ebs-csi-driver-operator",
			Configuration: schema.GroupVersionKind{Group: "csi.openshift.io", Version: "v1alpha1", Kind: "AWSEBSDriver"},
			Resource:      "awsebsdrivers", Namespace: "openshift-aws-ebs-csi-driver",
		},
		// The predecessor's driver ran in the namespace of our driver, and our operator adopts that driver there.
		"manila.csi.openstack.org": {
			Package: "manila-csi-driver-operator", Deployment: "csi-driver-manila-operator",
			Configuration: schema.GroupVersionKind{Group: "csi.openshift.io", Version: "v1alpha1", Kind: "ManilaDriver"},
			Resource:      "maniladrivers", Namespace: "openshift-manila-csi-driver",
		},
	}
}

// allSidecars returns the variables with the images of the sidecars that drivers of disks have.
func allSidecars() []string {
	return []string{
		"PROVISIONER_IMAGE", "ATTACHER_IMAGE", "RESIZER_IMAGE", "SNAPSHOTTER_IMAGE", "NODE_DRIVER_REGISTRAR_IMAGE", "LIVENESS_PROBE_IMAGE",
		"KUBE_RBAC_PROXY_IMAGE",
	}
}

// images maps the variables with an operator's images to the variables of the cluster-storage-operator. Only the variable with the driver's image has
// different names in the two environments.
func images(driver string, others []string) map[string]string {
	variables := map[string]string{}
	for _, name := range others {
		variables[name] = name
	}
	variables["DRIVER_IMAGE"] = driver
	return variables
}

// own returns the bindings of an operator: a binding in the namespace of all drivers, and the further bindings.
func own(further ...Binding) []Binding {
	return append([]Binding{{Namespace: Namespace, Role: "role"}}, further...)
}

// secret returns the only Secret that most drivers have.
func secret(name string) []Secret { return []Secret{{Namespace, name}} }

// workloads returns one Deployment and one DaemonSet.
func workloads(namespace, controller, node string) []Workload {
	return []Workload{{deployment, namespace, controller}, {daemonSet, namespace, node}}
}
