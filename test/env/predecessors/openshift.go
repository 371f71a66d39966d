package predecessors

import (
	operatorv1 "github.com/openshift/api/operator/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/test/env"
)

// What OpenShift's operator makes is called as ours is, but for its node pods.
const (
	OpenShiftDaemonSet = "aws-efs-csi-driver-node"
	// NodeAccount is the account of OpenShift's node pods and of ours.
	NodeAccount       = "aws-efs-csi-driver-node-sa"
	controllerAccount = "aws-efs-csi-driver-controller-sa"
	controllerName    = "aws-efs-csi-driver-controller"
)

// OpenShiftFinalizers are what OpenShift's operators of several versions have put on the ClusterCSIDriver.
func OpenShiftFinalizers() []string {
	const prefix = "aws-efs-csi-driver-operator.operator.openshift.io/"
	return []string{
		prefix + "AWSEFSDriverControllerServiceController", prefix + "AWSEFSDriverNodeServiceController",
		prefix + "CSIStaticResourceController",
	}
}

// OpenShiftConditions are what OpenShift's operators have left in the status of the ClusterCSIDriver. The first two are of an
// older version.
func OpenShiftConditions() []operatorv1.OperatorCondition {
	var all []operatorv1.OperatorCondition
	for kind, status := range map[string]operatorv1.ConditionStatus{
		"AWSEFSDriverCredentialsRequestControllerAvailable": operatorv1.ConditionTrue,
		"CSIStaticResourceControllerDegraded":               operatorv1.ConditionFalse,
		"AWSEFSDriverControllerServiceControllerAvailable":  operatorv1.ConditionTrue,
		"AWSEFSDriverNodeServiceControllerAvailable":        operatorv1.ConditionTrue,
		"ManagementStateDegraded":                           operatorv1.ConditionFalse,
	} {
		all = append(all, operatorv1.OperatorCondition{Type: kind, Status: status, Reason: "AsExpected", LastTransitionTime: metav1.Now()})
	}
	return all
}

// OpenShift is the driver as OpenShift's operator installs it in a namespace.
func OpenShift(namespace string) []client.Object {
	objects := openShiftRights(namespace)
	objects = append(objects, openShiftMetrics(namespace)...)
	objects = append(objects, openShiftCredentials(namespace)...)
	return append(objects,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "aws-efs-csi-driver-trusted-ca-bundle",
			Labels: map[string]string{"config.openshift.io/inject-trusted-cabundle": "true"},
		}},
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: communityDriverName, Annotations: specHash("5f2c")}, Spec: EFSDriverSpec(),
		},
		openShiftDeployment(namespace), openShiftDaemonSet(namespace))
}

// OpenShiftOperator is OpenShift's operator itself. In our own namespace it would be ours, by its names.
func OpenShiftOperator(namespace string) []client.Object {
	all := []string{"*"}
	const role = env.OperatorName + ".v4.16.0-8k2d"
	return oldOperator(namespace, env.OperatorName, role, "registry.example/openshift-aws-efs-csi-driver-operator:4.16", []rbacv1.PolicyRule{
		{
			APIGroups: []string{operatorv1.GroupName}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
			Resources: []string{"clustercsidrivers", "clustercsidrivers/status"},
		},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "daemonsets"}, Verbs: all},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csidrivers"}, Verbs: all},
	})
}

// specHash marks what OpenShift's operators have applied.
func specHash(hash string) map[string]string {
	return map[string]string{"operator.openshift.io/spec-hash": hash}
}

func openShiftRights(namespace string) []client.Object {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	account := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	toRole := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	binding := func(name, role, subject string) client.Object {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: toRole("ClusterRole", role), Subjects: []rbacv1.Subject{account(subject)},
		}
	}
	const lease, prometheus = "aws-efs-csi-driver-lease-leader-election", "aws-efs-csi-driver-prometheus"
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: in(controllerAccount)}, &corev1.ServiceAccount{ObjectMeta: in(NodeAccount)},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "efs-privileged-role"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"},
			ResourceNames: []string{"privileged"}, Verbs: []string{"use"},
		}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "efs-kube-rbac-proxy-role"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"},
		}}},
		binding("efs-controller-privileged-binding", "efs-privileged-role", controllerAccount),
		binding("efs-node-privileged-binding", "efs-privileged-role", NodeAccount),
		binding("efs-kube-rbac-proxy-binding", "efs-kube-rbac-proxy-role", controllerAccount),
		binding("efs-csi-main-provisioner-binding", "openshift-csi-main-provisioner-role", controllerAccount),
		&rbacv1.Role{ObjectMeta: in(lease), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "watch", "list", "delete", "update", "create"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: in(lease), RoleRef: toRole("Role", lease), Subjects: []rbacv1.Subject{account(controllerAccount)}},
		&rbacv1.Role{ObjectMeta: in(prometheus), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"services", "endpoints", "pods"}, Verbs: []string{"get", "list", "watch"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: in(prometheus), RoleRef: toRole("Role", prometheus), Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: "openshift-monitoring", Name: "prometheus-k8s",
		}}},
	}
}

func openShiftMetrics(namespace string) []client.Object {
	const service, port = controllerName + "-metrics", "provisioner-m"
	one, always := intstr.FromInt32(1), policyv1.AlwaysAllow
	return []client.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: service, Labels: map[string]string{"app": service},
				Annotations: map[string]string{"service.beta.openshift.io/serving-cert-secret-name": service + "-serving-cert"},
			},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": controllerName},
				Ports: []corev1.ServicePort{{Name: port, Port: 9212, TargetPort: intstr.FromString(port), Protocol: corev1.ProtocolTCP}},
			},
		},
		&monitoringv1.ServiceMonitor{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controllerName + "-monitor"},
			Spec: monitoringv1.ServiceMonitorSpec{
				JobLabel: "component", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": service}},
				Endpoints: []monitoringv1.Endpoint{{Path: "/metrics", Interval: "30s", Port: port}},
			},
		},
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controllerName + "-pdb"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: &one, UnhealthyPodEvictionPolicy: &always,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": controllerName}},
			},
		},
	}
}

func openShiftCredentials(namespace string) []client.Object {
	request := func(name, secret string, actions ...string) client.Object {
		return &cloudcredentialv1.CredentialsRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredentialv1.Namespace, Name: name},
			Spec: cloudcredentialv1.CredentialsRequestSpec{
				SecretRef: corev1.ObjectReference{Namespace: namespace, Name: secret},
				ProviderSpec: &cloudcredentialv1.ProviderSpec{
					APIVersion: "cloudcredential.openshift.io/v1", Kind: "AWSProviderSpec",
					StatementEntries: []cloudcredentialv1.StatementEntry{{
						Effect: "Allow", Action: append(actions, "ec2:DescribeAvailabilityZones"), Resource: "*",
					}},
				},
			},
		}
	}
	return []client.Object{
		request("openshift-aws-efs-csi-driver", "aws-efs-cloud-credentials", "elasticfilesystem:*"),
		request("openshift-aws-efs-csi-driver-node", "node-aws-efs-cloud-credentials", "elasticfilesystem:DescribeMountTargets"),
	}
}
