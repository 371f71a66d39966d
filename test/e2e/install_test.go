package e2e

import (
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

func installReachesAvailableWithEveryObject(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	owned, err := cluster.Owned(t.Context())
	env.Must(t, err)
	var got []string
	for _, object := range owned {
		got = append(got, object.GetKind()+" "+object.GetName())
	}
	sort.Strings(got)
	want := []string{
		"CSIDriver efs.csi.aws.com",
		"ClusterRole efs-csi-provisioner-role",
		"ClusterRole efs-kube-rbac-proxy-role",
		"ClusterRole efs-privileged-role",
		"ClusterRoleBinding efs-controller-privileged-binding",
		"ClusterRoleBinding efs-csi-provisioner-binding",
		"ClusterRoleBinding efs-kube-rbac-proxy-binding",
		"ClusterRoleBinding efs-node-privileged-binding",
		"ConfigMap aws-efs-csi-driver-dashboard",
		"ConfigMap aws-efs-csi-driver-trusted-ca-bundle",
		"CredentialsRequest openshift-aws-efs-csi-driver",
		"CredentialsRequest openshift-aws-efs-csi-driver-node",
		"DaemonSet efs-csi-node",
		"Deployment aws-efs-csi-driver-controller",
		"PodDisruptionBudget aws-efs-csi-driver-controller-pdb",
		"Role aws-efs-csi-driver-lease-leader-election",
		"Role aws-efs-csi-driver-prometheus",
		"RoleBinding aws-efs-csi-driver-lease-leader-election",
		"RoleBinding aws-efs-csi-driver-prometheus",
		"Service aws-efs-csi-driver-controller-metrics",
		"ServiceAccount aws-efs-csi-driver-controller-sa",
		"ServiceAccount aws-efs-csi-driver-node-sa",
		"ServiceMonitor aws-efs-csi-driver-controller-monitor",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func statusCarriesTheConditionsThatToolsRead(t *testing.T, cluster *env.Cluster, _ *env.Operator) {
	cr := env.EFS("")
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cr), cr))
	got := map[string]string{}
	for _, condition := range cr.Status.Conditions {
		got[condition.Type] = string(condition.Status)
	}
	want := map[string]string{
		"ManagementStateDegraded":                                   "False",
		"ConfigObservationDegraded":                                 "False",
		"AWSEFSDriverControlPlaneStaticResourcesControllerDegraded": "False",
		"AWSEFSDriverGuestStaticResourcesControllerDegraded":        "False",
		"AWSEFSDriverControllerServiceControllerAvailable":          "True",
		"AWSEFSDriverControllerServiceControllerProgressing":        "False",
		"AWSEFSDriverControllerServiceControllerDegraded":           "False",
		"AWSEFSDriverNodeServiceControllerAvailable":                "True",
		"AWSEFSDriverNodeServiceControllerProgressing":              "False",
		"AWSEFSDriverNodeServiceControllerDegraded":                 "False",
		"AWSEFSCredentialsRequestControllerAvailable":               "True",
		"AWSEFSCredentialsRequestControllerProgressing":             "False",
		"AWSEFSCredentialsRequestControllerDegraded":                "False",
		"AWSEFSNodeCredentialsRequestControllerAvailable":           "True",
		"AWSEFSNodeCredentialsRequestControllerProgressing":         "False",
		"AWSEFSNodeCredentialsRequestControllerDegraded":            "False",
		"Available":   "True",
		"Progressing": "False",
		"Degraded":    "False",
		"Upgradeable": "True",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if cr.Status.Version != "1.0.0" || cr.Status.ReadyReplicas != 2 {
		t.Errorf("version %q and readyReplicas %d, want 1.0.0 and 2", cr.Status.Version, cr.Status.ReadyReplicas)
	}
}

func anotherReconcileWritesNothing(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	for name, disturb := range map[string]func() error{
		"an annotation on the ClusterCSIDriver": func() error {
			_, err := cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", "efs.csi.aws.com", "example.com/note=x", "--overwrite")
			return err
		},
		"another label on an operand": func() error {
			_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "label", "daemonset", "efs-csi-node", "example.com/note=x", "--overwrite")
			return err
		},
		"a pull secret that OpenShift adds to a ServiceAccount": func() error {
			_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "patch", "serviceaccount", "aws-efs-csi-driver-node-sa",
				"--type=json", "-p", `[{"op":"add","path":"/imagePullSecrets/-","value":{"name":"more"}}]`)
			return err
		},
		"a CA bundle that OpenShift injects": func() error {
			_, err := cluster.Kubectl(t.Context(), "-n", env.OperatorNamespace, "patch", "configmap", "aws-efs-csi-driver-trusted-ca-bundle",
				"--type=merge", "-p", `{"data":{"another.crt":"x"}}`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests := costOf(t, cluster, operator, disturb)
			if len(requests) > 0 {
				t.Errorf("%d requests, want none:\n%s", len(requests), env.Describe(requests))
			}
		})
	}
}
