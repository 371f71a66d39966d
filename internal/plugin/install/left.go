package install

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// Left is an object that remains after an uninstallation. Command is the command that deletes it.
type Left struct {
	Object  string `json:"object"`
	Command string `json:"command"`
}

// leaving describes objects of one kind that can remain after an uninstallation. OLM, an administrator or the operator created them.
type leaving struct {
	group, version, kind string
	// resource is the name of the kind in a command of oc. namespace is empty for cluster-scoped objects.
	resource, namespace string
	names               []string
}

// leavings describes the objects that can remain after an uninstallation, in the order in which an administrator should delete them. The CRD comes
// last, because Kubernetes deletes all SharedVolumes with it.
func leavings(namespace string) []leaving {
	const (
		rbac, admission, console = "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "console.openshift.io"
		limits, role             = ".limits." + awsefs.Operator, awsefs.Operator + "-sharedvolume-"
	)
	policies := []string{"claims" + limits, "credentials" + limits, "namespace" + limits, "nodes" + limits, "roles" + limits, "volumes" + limits}
	prometheus := []string{awsefs.Operator + "-prometheus"}
	return []leaving{
		{"operators.coreos.com", "v1alpha1", "CatalogSource", "catalogsources", "openshift-marketplace", []string{"csi-operators"}},
		{"operators.coreos.com", "v1", "OperatorGroup", "operatorgroups.operators.coreos.com", namespace, []string{awsefs.Operator}},
		{admission, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "", policies},
		{admission, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "", policies},
		{"networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", namespace, []string{awsefs.Operator + "-metrics"}},
		{rbac, "v1", "RoleBinding", "rolebindings", namespace, prometheus},
		{rbac, "v1", "Role", "roles", namespace, prometheus},
		{rbac, "v1", "ClusterRole", "clusterroles", "", []string{role + "admin-role", role + "editor-role", role + "viewer-role"}},
		{console, "v1", "ConsoleCLIDownload", "consoleclidownloads", "", []string{"oc-storage"}},
		{console, "v1", "ConsoleQuickStart", "consolequickstarts", "", []string{"aws-efs-install", "aws-efs-first-volume", "aws-efs-one-zone"}},
		{console, "v1", "ConsoleYAMLSample", "consoleyamlsamples", "", []string{"aws-efs-storageclass", "aws-efs-pvc", "aws-efs-sharedvolume"}},
		// The Lease remains, because OLM deletes the operator's permissions before the operator can release the Lease.
		{"coordination.k8s.io", "v1", "Lease", "leases", namespace, []string{awsefs.Operator + "-lock"}},
		{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "", []string{"sharedvolumes.aws-efs.managed.openshift.io"}},
	}
}

// Leavings returns all objects that can remain after an uninstallation, in the order in which an administrator should delete them.
func Leavings(namespace string) []Left {
	var all []Left
	for _, one := range leavings(namespace) {
		for _, name := range one.names {
			all = append(all, one.left(name))
		}
	}
	return all
}

func (l leaving) object(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: l.group, Version: l.version, Kind: l.kind})
	object.SetNamespace(l.namespace)
	object.SetName(name)
	return object
}

func (l leaving) left(name string) Left {
	command := plugin.ToCopy("oc delete %s %s", l.resource, name)
	if l.namespace != "" {
		command = plugin.ToCopy("oc -n %s delete %s %s", l.namespace, l.resource, name)
	}
	return Left{Object: nameOf(l.object(name)), Command: command}
}

// leftOf returns those objects that exist.
func leftOf(ctx context.Context, c *plugin.Cluster, namespace string) ([]Left, error) {
	var found []Left
	for _, one := range leavings(namespace) {
		for _, name := range one.names {
			there, err := c.Find(ctx, client.ObjectKey{Namespace: one.namespace, Name: name}, one.object(name))
			if err != nil {
				return found, err
			}
			if there {
				found = append(found, one.left(name))
			}
		}
	}
	return found, nil
}
