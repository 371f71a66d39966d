package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/driver/vsphere"
	"github.com/csi-operators/csi-operators/internal/testing/variants"
	"github.com/csi-operators/csi-operators/test/env"
)

// thief returns a client with the name of an account of the release and with all RBAC permissions. Only the release's policies stop it.
func (s *scene) thief(user string) client.Client {
	s.t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	thief, err := client.New(config, client.Options{Scheme: s.Client.Scheme()})
	env.Must(s.t, err)
	return thief
}

// olmObject is a Subscription or a ClusterServiceVersion in the cluster.
func (s *scene) olmObject(kind, name string, spec map[string]any) client.Object {
	s.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "spec": spec,
		"metadata": map[string]any{"namespace": odd, "name": name},
	}}
	env.Must(s.t, s.Client.Create(s.t.Context(), object))
	return object
}

// webhookOf is the webhook of vSphere, as its operator renders it, after a change.
func webhookOf(t *testing.T, change func(*admissionv1.ValidatingWebhook)) client.Object {
	t.Helper()
	for _, object := range variants.Render(t, vsphere.Driver(), nil) {
		if configuration, ok := object.(*admissionv1.ValidatingWebhookConfiguration); ok {
			change(&configuration.Webhooks[0])
			return configuration
		}
	}
	t.Fatal("vSphere has no webhook")
	return nil
}

// definition is a CustomResourceDefinition.
func definition(t *testing.T, group string) client.Object {
	t.Helper()
	object := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	env.Must(t, err)
	return &unstructured.Unstructured{Object: fields}
}

// controllerAs is a Deployment that the operator of EBS may write by its name.
func controllerAs(account string) client.Object {
	labels := map[string]string{"app": "new"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: "aws-ebs-csi-driver-controller"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "a", Image: "registry.example/a:1"}}},
		}},
	}
}

// binding lets an account of the drivers' namespace have a ClusterRole.
func binding(role, account string) client.Object {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "made-up"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: catalogue.Namespace, Name: account}},
	}
}

// granting is a ClusterRole for nodes.
func granting(verb string) client.Object {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "made-up"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", verb}},
	}}
}

// tainted makes a node with taints of these keys, without a taint of Kubernetes.
func (s *scene) tainted(keys ...string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "tainted"}}
	for _, key := range keys {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	env.Scene{Cluster: s.Cluster, T: s.t}.Keep(node)
	s.eventually("the new node ready", func() error {
		if err := s.Client.Get(s.t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		if len(node.Spec.Taints) != len(keys) {
			return fmt.Errorf("it has the taints %v", node.Spec.Taints)
		}
		return nil
	})
	return node
}

// holdsTokensToTheLimits tries what RBAC can't narrow by name, as accounts whose tokens were stolen. Each request is a dry run.
func holdsTokensToTheLimits(t *testing.T, s *scene) {
	env.Must(t, s.ApplyFile(t.Context(), "testdata/olm.yaml"))
	crds := []string{"subscriptions.operators.coreos.com", "clusterserviceversions.operators.coreos.com"}
	env.Must(t, s.Served(t.Context(), crds...))
	t.Cleanup(func() {
		if _, err := s.Kubectl(context.Background(), append([]string{"delete", "crds", "--timeout=1m"}, crds...)...); err != nil {
			t.Error(err)
		}
	})
	env.Must(t, s.Namespace(t.Context(), odd))
	account := func(name string) client.Client {
		return s.thief("system:serviceaccount:" + catalogue.Namespace + ":" + name)
	}
	cso, ebs, vsphere := s.thief(env.CSOUser), account("aws-ebs-csi-driver-operator"), account("vmware-vsphere-csi-driver-operator")
	driver, file := account("vmware-vsphere-csi-driver-controller-sa"), account("azure-file-csi-driver-operator")
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-somebody"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "a", VolumeHandle: "b"}},
	}}
	env.Scene{Cluster: s.Cluster, T: t}.Keep(volume)
	create := func(who client.Client, object client.Object) func() error {
		return func() error {
			return who.Create(t.Context(), object.DeepCopyObject().(client.Object), client.DryRunAll) //nolint:forcetypeassert // A copy.
		}
	}
	remove := func(who client.Client, object client.Object) func() error {
		return func() error { return who.Delete(t.Context(), object, client.DryRunAll) }
	}
	update := func(who client.Client, change func(*corev1.PersistentVolume)) func() error {
		return func() error {
			changed := volume.DeepCopy()
			change(changed)
			return who.Patch(t.Context(), changed, client.MergeFrom(volume), client.DryRunAll)
		}
	}
	node := s.tainted("efs.csi.aws.com/agent-not-ready", "ebs.csi.aws.com/agent-not-ready")
	untaint := func(who client.Client, index int) func() error {
		text := fmt.Appendf(nil, `[{"op":"remove","path":"/spec/taints/%d"}]`, index)
		return func() error {
			return who.Patch(t.Context(), node.DeepCopy(), client.RawPatch(types.JSONPatchType, text), client.DryRunAll)
		}
	}
	same := func(*admissionv1.ValidatingWebhook) {}
	for what, tc := range map[string]struct {
		request func() error
		refused bool
	}{
		"CSO: a Subscription that it replaces": {
			remove(cso, s.olmObject("Subscription", "any", map[string]any{"name": "aws-ebs-csi-driver-operator"})), false,
		},
		"CSO: a Subscription of somebody else": {
			remove(cso, s.olmObject("Subscription", "aws-ebs-csi-driver-operator", map[string]any{"name": "other"})), true,
		},
		"CSO: a version that it replaces": {
			remove(cso, s.olmObject("ClusterServiceVersion", "aws-ebs-csi-driver-operator.4.5.0", map[string]any{})), false,
		},
		"CSO: a version of somebody else":       {remove(cso, s.olmObject("ClusterServiceVersion", "aws-ebs-csi-driver-operators.v1", map[string]any{})), true},
		"EBS: its controller":                   {create(ebs, controllerAs("aws-ebs-csi-driver-controller-sa")), false},
		"EBS: a controller as another operator": {create(ebs, controllerAs("vmware-vsphere-csi-driver-operator")), true},
		"EBS: a controller as nobody":           {create(ebs, controllerAs("")), true},
		"EBS: delete a volume":                  {remove(ebs, volume), true},
		"EBS: annotate a volume": {
			update(ebs, func(pv *corev1.PersistentVolume) {
				pv.Annotations = map[string]string{"ebs.openshift.io/volume-tags-hash": "a"}
			}), false,
		},
		"EBS: change a volume": {
			update(ebs, func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			}), true,
		},
		"Azure File: bind the role of OpenShift's operator": {
			create(file, binding("azure-file-csi-driver-role", "azure-file-csi-driver-controller-sa")), false,
		},
		"EBS: remove its taint":                     {untaint(ebs, 1), false},
		"EBS: remove the taint of another driver":   {untaint(ebs, 0), true},
		"vSphere: remove the taint of EBS":          {untaint(vsphere, 1), true},
		"vSphere: delete a node":                    {remove(vsphere, node), true},
		"EBS: grant the right to read nodes":        {create(ebs, granting("watch")), false},
		"EBS: grant the right to change nodes":      {create(ebs, granting("patch")), true},
		"EBS: bind a role of its driver":            {create(ebs, binding("ebs-csi-attacher-role", "aws-ebs-csi-driver-controller-sa")), false},
		"EBS: bind a role of OpenShift":             {create(ebs, binding("openshift-csi-main-attacher-role", "aws-ebs-csi-driver-controller-sa")), false},
		"EBS: bind its own role":                    {create(ebs, binding("aws-ebs-csi-driver-operator-role", "aws-ebs-csi-driver-controller-sa")), true},
		"EBS: bind a role of another driver":        {create(ebs, binding("vmware-vsphere-csi-driver-role", "aws-ebs-csi-driver-controller-sa")), true},
		"EBS: bind to another driver":               {create(ebs, binding("ebs-csi-attacher-role", "vmware-vsphere-csi-driver-controller-sa")), true},
		"somebody else: grant the right":            {create(s.thief("somebody"), granting("patch")), false},
		"somebody else: remove a taint":             {untaint(s.thief("somebody"), 0), false},
		"somebody else: delete a volume":            {remove(s.thief("somebody"), volume), false},
		"vSphere: its webhook":                      {create(vsphere, webhookOf(t, same)), false},
		"vSphere: a webhook for Secrets":            {create(vsphere, webhookOf(t, func(w *admissionv1.ValidatingWebhook) { w.Rules[0].Resources = []string{"secrets"} })), true},
		"vSphere: a webhook for all groups":         {create(vsphere, webhookOf(t, func(w *admissionv1.ValidatingWebhook) { w.Rules[0].APIGroups = []string{"*"} })), true},
		"vSphere: the webhook of OpenShift":         {create(vsphere, webhookOf(t, func(w *admissionv1.ValidatingWebhook) { w.MatchConditions = nil })), false},
		"vSphere: a webhook elsewhere":              {create(vsphere, webhookOf(t, func(w *admissionv1.ValidatingWebhook) { w.ClientConfig.Service.Namespace = odd })), true},
		"vSphere: define a kind":                    {create(vsphere, definition(t, "cns.vmware.com")), true},
		"driver of vSphere: define its kind":        {create(driver, definition(t, "cns.vmware.com")), false},
		"driver of vSphere: define another kind":    {create(driver, definition(t, "storage.example.com")), true},
		"driver of vSphere: it writes volumes":      {remove(driver, volume), false},
		"the operator of EFS is held by other ways": {remove(account("aws-efs-csi-driver-operator"), volume), false},
	} {
		// The API server takes a moment to know of a new policy.
		s.eventually(what, func() error {
			err := tc.request()
			if isRefused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"); isRefused != tc.refused || (err != nil && !isRefused) {
				return fmt.Errorf("refused by a policy: %v, want %v: %w", isRefused, tc.refused, err)
			}
			return nil
		})
	}
}
