package e2e

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	volumeLabel = "openshift.io/aws-efs-operator-owned"
	controller  = "system:serviceaccount:" + env.OperatorNamespace + ":aws-efs-csi-driver-controller-sa"
)

// limited checks that an error is the refusal of the policies in config/limits, not of RBAC.
func limited(err error) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "limits.aws-efs-csi-driver-operator") {
		return errors.New("want the refusal of a limit, got: " + errorText(err))
	}
	return nil
}

// volumeBy is a PersistentVolume of a CSI driver.
func volumeBy(driver, name string, labels map[string]string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "made-up"},
			},
		},
	}
}

func pvcOf(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// The token of the operator is held to its volumes, PVCs and namespace, whatever RBAC gives: here all, as OLM gives
// the rules of the Role in all namespaces. Each request is a dry run.
func TestAStolenTokenOfTheOperatorIsLimited(t *testing.T) {
	cluster := clean(t)
	namespace(t, cluster, "victim", nil)
	ours, none := map[string]string{volumeLabel: "true"}, map[string]string(nil)
	ebs, efs := volumeBy("ebs.csi.aws.com", "of-ebs", none), volumeBy("efs.csi.aws.com", "of-efs", none)
	community := volumeBy("efs.csi.aws.com", "of-the-community", ours)
	marked := volumeBy("efs.csi.aws.com", "without-label", none)
	marked.Annotations = map[string]string{"aws-efs.managed.openshift.io/shared-volume-uid": "made-up"}
	stolen, left := pvcOf("foreign", none), pvcOf("of-the-community", ours)
	sv := env.SharedVolume("victim", "sv")
	env.Scene{Cluster: cluster, T: t}.Keep(sv)
	owned := pvcOf("owned", none)
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: "SharedVolume", Name: sv.Name, UID: sv.UID,
	}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "settings"}}
	for _, object := range []client.Object{ebs, efs, community, marked, stolen, left, owned, config} {
		env.Scene{Cluster: cluster, T: t}.Keep(object)
	}
	operator, sidecar := as(t, cluster, env.OperatorUser, "system:masters"), as(t, cluster, controller, "system:masters")
	create := func(who client.Client, object client.Object) func() error {
		return func() error {
			return who.Create(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll)
		} //nolint:forcetypeassert // A copy.
	}
	remove := func(who client.Client, object client.Object) func() error {
		return func() error { return who.Delete(t.Context(), object, client.DryRunAll) }
	}
	change := func(who client.Client, object client.Object, fields string) func() error {
		return func() error {
			copied := object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // A copy.
			return who.Patch(t.Context(), copied, env.Merge(fields), client.DryRunAll)
		}
	}
	const label = `{"metadata":{"labels":{"` + volumeLabel + `":"true"}}}`
	env.Eventually(t, "the limits in force", func() error { return limited(remove(operator, ebs)()) })
	deleting := volumeBy("efs.csi.aws.com", "new", ours)
	deleting.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	lease := func(namespace, name string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	role := func(namespace string) client.Object {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}}
	}
	pods := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "new"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "new"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "new"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "registry.example/a:1"}}},
		},
	}}
	// A Deployment of an allowed name could run as any account of the namespace, such as another operator's.
	runs := func(account string) client.Object {
		pods := pods.Spec.DeepCopy()
		pods.Template.Spec.ServiceAccountName = account
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "aws-efs-csi-driver-controller"},
			Spec:       appsv1.DeploymentSpec{Selector: pods.Selector, Template: pods.Template},
		}
	}
	onNodes := func(account string) client.Object {
		created := pods.DeepCopy()
		created.Namespace, created.Spec.Template.Spec.ServiceAccountName = env.OperatorNamespace, account
		return created
	}
	podOf := func(app string) client.Object {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "of-" + app, Labels: map[string]string{"app": app}},
			Spec:       *pods.Spec.Template.Spec.DeepCopy(),
		}
		env.Scene{Cluster: cluster, T: t}.Keep(pod)
		return pod
	}
	asks := func(change func(*cloudcredentialv1.CredentialsRequest)) client.Object {
		request := &cloudcredentialv1.CredentialsRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredentialv1.Namespace, Name: "new"},
			Spec: cloudcredentialv1.CredentialsRequestSpec{
				SecretRef: corev1.ObjectReference{Namespace: env.OperatorNamespace, Name: "aws-efs-cloud-credentials"},
				ProviderSpec: &cloudcredentialv1.ProviderSpec{
					APIVersion: "cloudcredential.openshift.io/v1", Kind: "AWSProviderSpec", StatementEntries: []cloudcredentialv1.StatementEntry{
						{Effect: "Allow", Action: []string{"elasticfilesystem:DescribeFileSystems"}, Resource: "*"},
						{
							Effect: "Allow", Action: []string{"elasticfilesystem:DeleteAccessPoint"}, Resource: "*",
							PolicyCondition: map[string]map[string]string{"StringEquals": {"aws:ResourceTag/efs.csi.aws.com/cluster": "true"}},
						},
					},
				},
			},
		}
		change(request)
		return request
	}
	allowing := func(actions ...string) client.Object {
		return asks(func(request *cloudcredentialv1.CredentialsRequest) {
			request.Spec.ProviderSpec.StatementEntries[0].Action = actions
		})
	}
	node, neighbour := podOf("efs-csi-node"), podOf("aws-ebs-csi-driver-node")
	dashboard := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config-managed", Name: "aws-efs-csi-driver-dashboard"}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config-managed", Name: "trusted-ca-bundle"}}
	for what, request := range map[string]func() error{
		"delete a volume of another driver":    remove(operator, ebs),
		"delete a volume of an administrator":  remove(operator, efs),
		"call a volume ours":                   change(operator, efs, label),
		"give a volume to another PVC":         change(operator, ebs, `{"spec":{"claimRef":null}}`),
		"let the data of a volume be deleted":  change(operator, community, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`),
		"take the label off a volume":          change(operator, community, `{"metadata":{"labels":{"`+volumeLabel+`":null}}}`),
		"create a volume of another driver":    create(operator, volumeBy("ebs.csi.aws.com", "new", ours)),
		"create a volume without label":        create(operator, volumeBy("efs.csi.aws.com", "new", none)),
		"create a volume that deletes data":    create(operator, deleting),
		"delete a PVC of a tenant":             remove(operator, stolen),
		"call a PVC ours":                      change(operator, stolen, label),
		"create a PVC without label":           create(operator, pvcOf("new", none)),
		"create a lease elsewhere":             create(operator, lease("victim", "efs-csi-aws-com")),
		"create a lease of another operator":   create(operator, lease(env.OperatorNamespace, "aws-ebs-csi-driver-operator-lock")),
		"run a controller as another operator": create(operator, runs("vmware-vsphere-csi-driver-operator")),
		"run a controller as nobody":           create(operator, runs("")),
		"run node pods as the controller":      create(operator, onNodes("aws-efs-csi-driver-controller-sa")),
		"delete a pod of another driver":       remove(operator, neighbour),
		"ask for all of AWS":                   create(operator, allowing("*")),
		"ask for all of EFS":                   create(operator, allowing("elasticfilesystem:*")),
		"ask for users":                        create(operator, allowing("elasticfilesystem:DescribeFileSystems", "iam:CreateUser")),
		"ask to delete all access points":      create(operator, allowing("elasticfilesystem:DeleteAccessPoint")),
		"ask for a Secret elsewhere": create(operator, asks(func(request *cloudcredentialv1.CredentialsRequest) {
			request.Spec.SecretRef.Namespace = "victim"
		})),
		"ask for the Secret of another driver": create(operator, asks(func(request *cloudcredentialv1.CredentialsRequest) {
			request.Spec.SecretRef.Name = "ebs-cloud-credentials"
		})),
		"create a role elsewhere":                  create(operator, role("victim")),
		"create pods elsewhere":                    create(operator, pods),
		"change a ConfigMap elsewhere":             change(operator, config, `{"data":{"a":"b"}}`),
		"create a ConfigMap beside the dashboard":  create(operator, other),
		"sidecar: delete a volume of another":      remove(sidecar, ebs),
		"sidecar: create a volume of another":      create(sidecar, volumeBy("ebs.csi.aws.com", "new", none)),
		"sidecar: change a volume of another":      change(sidecar, ebs, `{"metadata":{"labels":{"a":"b"}}}`),
		"account of that name in a tenant's place": remove(as(t, cluster, "system:serviceaccount:victim:aws-efs-csi-driver-operator", "system:masters"), ebs),
	} {
		if err := limited(request()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, request := range map[string]func() error{
		"create a volume":                       create(operator, volumeBy("efs.csi.aws.com", "new", ours)),
		"adopt a volume of the community":       change(operator, community, `{"metadata":{"annotations":{"a":"b"}}}`),
		"give a volume its label back":          change(operator, marked, label),
		"delete a volume":                       remove(operator, community),
		"create a PVC":                          create(operator, pvcOf("new", ours)),
		"adopt a PVC of the community":          change(operator, left, `{"metadata":{"annotations":{"a":"b"}}}`),
		"give a PVC its label back":             change(operator, owned, label),
		"delete a PVC":                          remove(operator, left),
		"create the dashboard":                  create(operator, dashboard),
		"create a lease at home":                create(operator, lease(env.OperatorNamespace, "efs-csi-aws-com")),
		"run the controller":                    create(operator, runs("aws-efs-csi-driver-controller-sa")),
		"run node pods":                         create(operator, onNodes("aws-efs-csi-driver-node-sa")),
		"run node pods of the community":        create(operator, onNodes("efs-csi-sa")),
		"delete a node pod":                     remove(operator, node),
		"ask for credentials":                   create(operator, asks(func(*cloudcredentialv1.CredentialsRequest) {})),
		"create a role at home":                 create(operator, role(env.OperatorNamespace)),
		"sidecar: create a volume":              create(sidecar, volumeBy("efs.csi.aws.com", "new", none)),
		"sidecar: delete a volume":              remove(sidecar, efs),
		"somebody else: delete a volume":        remove(cluster.Client, ebs),
		"somebody else: write leases":           create(cluster.Client, lease("victim", "new")),
		"account of another name in that space": remove(as(t, cluster, env.OperatorUser+"-2", "system:masters"), ebs),
	} {
		if err := request(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
