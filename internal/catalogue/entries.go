package catalogue

import (
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	deployment = "Deployment"
	daemonSet  = "DaemonSet"
	// manilaNamespace is where the driver of Manila runs.
	manilaNamespace = "openshift-manila-csi-driver"
)

// All are the drivers that a cluster can get, in the order in which they are reported.
func All() []Entry {
	return []Entry{
		awsEBS(),
		azureDisk(),
		azureFile(),
		gcpPD(),
		ibmVPCBlock(),
		manila(),
		cinder(),
		powerVSBlock(),
		vSphere(),
	}
}

func awsEBS() Entry {
	return Entry{
		Name: "ebs.csi.aws.com", Title: "AWS EBS", Condition: "AWSEBS", Platform: configv1.AWSPlatformType,
		Operator: "aws-ebs-csi-driver-operator", Builtin: true, Image: "AWS_EBS_DRIVER_OPERATOR_IMAGE",
		Images:   images("AWS_EBS_DRIVER_IMAGE", allSidecars()),
		Bindings: own(), Secrets: secret("ebs-cloud-credentials"),
		Workloads: workloads("aws-ebs-csi-driver-controller", "aws-ebs-csi-driver-node"),
		Predecessor: &Predecessor{
			Package: "aws-ebs-csi-driver-operator", Deployment: "aws-ebs-csi-driver-operator",
			Configuration: schema.GroupVersionKind{Group: "csi.openshift.io", Version: "v1alpha1", Kind: "AWSEBSDriver"},
			Resource:      "awsebsdrivers", Namespace: "openshift-aws-ebs-csi-driver",
		},
	}
}

func gcpPD() Entry {
	return Entry{
		Name: "pd.csi.storage.gke.io", Title: "GCP PD", Condition: "GCPPD", Platform: configv1.GCPPlatformType,
		Operator: "gcp-pd-csi-driver-operator", Builtin: true, Image: "GCP_PD_DRIVER_OPERATOR_IMAGE",
		Images:   images("GCP_PD_DRIVER_IMAGE", allSidecars()),
		Bindings: own(), Secrets: secret("gcp-pd-cloud-credentials"),
		Workloads: workloads("gcp-pd-csi-driver-controller", "gcp-pd-csi-driver-node"),
	}
}

// allSidecars are the variables of the images that drivers of disks need besides their own.
func allSidecars() []string {
	return []string{
		"PROVISIONER_IMAGE", "ATTACHER_IMAGE", "RESIZER_IMAGE", "SNAPSHOTTER_IMAGE", "NODE_DRIVER_REGISTRAR_IMAGE", "LIVENESS_PROBE_IMAGE",
		"KUBE_RBAC_PROXY_IMAGE",
	}
}

// images gives an operator the driver's image and those of others, which have the same names in both environments.
func images(driver string, others []string) map[string]string {
	variables := map[string]string{"DRIVER_IMAGE": driver}
	for _, name := range others {
		variables[name] = name
	}
	return variables
}

// with adds one that has another name in the operator's environment.
func with(variables map[string]string, name, ours string) map[string]string {
	variables[name] = ours
	return variables
}

// own are the rights of an operator in the namespace of all drivers, and those in further ones.
func own(further ...Binding) []Binding {
	return append([]Binding{{Namespace: Namespace, Role: "role"}}, further...)
}

// secret is the one that most drivers have.
func secret(name string) []Secret { return []Secret{{Namespace, name}} }

// workloads are those of a driver with one of each.
func workloads(controller, node string) []Workload {
	return []Workload{{deployment, Namespace, controller}, {daemonSet, Namespace, node}}
}
