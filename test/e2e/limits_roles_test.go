package e2e

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// Kubernetes lets the operator grant each right that it has itself, also the right to patch Nodes. The policy keeps the driver's accounts from that
// right. Each request is a dry run.
func TestAStolenTokenOfTheOperatorGrantsNoChangeOfNodes(t *testing.T) {
	cluster := clean(t)
	operator := as(t, cluster, env.OperatorUser, "system:masters")
	grants := func(group, resource string, verbs ...string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "made-up"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
				{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
				{APIGroups: []string{group}, Resources: []string{"pods", resource}, Verbs: verbs},
			},
		}
	}
	binds := func(role, namespace, account string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "made-up"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		}
	}
	person := binds("efs-privileged-role", "", "eve")
	person.Subjects = append(binds("", env.OperatorNamespace, "efs-csi-sa").Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "eve"})
	write := func(who client.Client, object client.Object) error {
		return who.Create(t.Context(), object, client.DryRunAll)
	}
	env.Eventually(t, "the limits in force", func() error { return limited(write(operator, grants("", "nodes", "patch"))) })
	const provisioner, controller, node = "efs-csi-provisioner-role", "aws-efs-csi-driver-controller-sa", "aws-efs-csi-driver-node-sa"
	for what, object := range map[string]client.Object{
		"change nodes":                    grants("", "nodes", "get", "update"),
		"delete nodes":                    grants("*", "nodes", "deletecollection"),
		"every verb on nodes":             grants("", "nodes", "*"),
		"change the status of nodes":      grants("", "nodes/status", "patch"),
		"change everything":               grants("", "*", "patch"),
		"change every status":             grants("", "*/status", "patch"),
		"bind the role of the operator":   binds("aws-efs-csi-driver-operator", env.OperatorNamespace, node),
		"bind the role of administrators": binds("cluster-admin", env.OperatorNamespace, node),
		"bind to an account of a tenant":  binds(provisioner, "victim", controller),
		"bind to another operator":        binds(provisioner, env.OperatorNamespace, "aws-ebs-csi-driver-operator"),
		"bind to a person as well":        person,
	} {
		if err := limited(write(operator, object)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, object := range map[string]client.Object{
		"read nodes":                          grants("", "nodes", "get", "list", "watch"),
		"change the topology of nodes":        grants("example.com", "nodetopologies", "patch"),
		"bind the provisioner":                binds(provisioner, env.OperatorNamespace, controller),
		"bind the node pods of the community": binds("efs-privileged-role", env.OperatorNamespace, "efs-csi-sa"),
		"bind as OpenShift's operator":        binds("openshift-csi-main-provisioner-role", env.OperatorNamespace, controller),
		"bind nobody":                         &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "made-up"}, RoleRef: binds(provisioner, "", "").RoleRef},
		"write a role without a rule":         &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "made-up"}},
	} {
		if err := write(operator, object); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := write(cluster.Client, grants("", "nodes", "patch")); err != nil {
		t.Errorf("somebody else grants the right: %v", err)
	}
	role := grants("", "nodes", "get")
	env.Scene{Cluster: cluster, T: t}.Keep(role)
	change := role.DeepCopy()
	change.Rules[2].Verbs = []string{"patch"}
	if err := limited(operator.Update(t.Context(), change, client.DryRunAll)); err != nil {
		t.Errorf("change a role: %v", err)
	}
	if err := operator.Delete(t.Context(), role, client.DryRunAll); err != nil {
		t.Errorf("delete a role: %v", err)
	}
}
