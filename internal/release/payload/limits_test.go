package payload

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rolesOf returns the ClusterRoles that the committed policy lets operators bind, each after its operator.
func rolesOf(t *testing.T, files map[string][]byte) string {
	t.Helper()
	objects, err := parse(files["0000_50_cluster-storage-operator_08_limits-policy.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		if objects[i].GetKind() != "ValidatingAdmissionPolicy" || objects[i].GetName() != "csi-driver-operators-roles" {
			continue
		}
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &policy); err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(policy.Spec.Variables, func(one admissionv1.Variable) bool { return one.Name == "roles" })
		return policy.Spec.Variables[at].Expression
	}
	t.Fatal("no policy csi-driver-operators-roles")
	return ""
}

// The policy stays in the cluster after a rollback to OpenShift's release, and holds OpenShift's operators too. The roles are those that their
// bindings name, without openshift-csi-* (openshift/csi-operator f7f9dc59, assets/overlays/*/generated/standalone;
// openshift/vmware-vsphere-csi-driver-operator 030ff0e3, assets/rbac).
func TestOpenShiftsOperatorsMayBindTheirRolesAfterARollback(t *testing.T) {
	_, files := committed(t)
	roles := rolesOf(t, files)
	for operator, names := range map[string][]string{
		"aws-ebs-csi-driver-operator": {"ebs-kube-rbac-proxy-role", "ebs-privileged-role"},
		"azure-disk-csi-driver-operator": {
			"azure-disk-csi-driver-node-clusterrole", "azure-disk-kube-rbac-proxy-role", "azure-disk-node-kube-rbac-proxy-role",
			"azure-disk-privileged-role",
		},
		"azure-file-csi-driver-operator": {"azure-file-csi-driver-role", "azure-file-kube-rbac-proxy-role", "azure-file-privileged-role"},
		"gcp-pd-csi-driver-operator":     {"gcp-pd-hostnetwork-role", "gcp-pd-kube-rbac-proxy-role", "gcp-pd-privileged-role"},
		"manila-csi-driver-operator":     {"openstack-manila-kube-rbac-proxy-role", "openstack-manila-privileged-role"},
		"openstack-cinder-csi-driver-operator": {
			"openstack-cinder-kube-rbac-proxy-role", "openstack-cinder-privileged-role",
		},
		"vmware-vsphere-csi-driver-operator": {
			"vmware-vsphere-csi-driver-node-cluster-role", "vmware-vsphere-csi-driver-role", "vmware-vsphere-kube-rbac-proxy-role",
			"vmware-vsphere-privileged-role",
		},
	} {
		for _, name := range names {
			if !strings.Contains(roles, "'"+operator+" "+name+"'") {
				t.Errorf("the policy forbids %s to bind ClusterRole %s", operator, name)
			}
		}
	}
}
