package install

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

func subscriptionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}
}

func csvKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}
}

func groupKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1", Kind: "OperatorGroup"}
}

// seen is the observed state that an installation depends on.
type seen struct {
	// denied has the kinds that the user lacks permission to read. For such a kind, an empty field below does not mean that the objects do not exist.
	denied map[string]bool
	// hasOLM means that the cluster serves the kind Subscription. hasDrivers means that the cluster serves the kind ClusterCSIDriver. Both fields are
	// false if the user lacks permission to list the kind.
	hasOLM, hasDrivers bool
	infrastructure     *configv1.Infrastructure
	// version is the version of OpenShift. It is nil if unknown.
	version *version.Version
	// issuer is the issuer of ServiceAccount tokens in a cluster with STS. It is empty in all other clusters.
	issuer string
	// noConsole means that the cluster has no web console, because it has not enabled the release's capability Console.
	noConsole bool
	// approval is installPlanApproval of the Subscription that the installation would apply. It is empty if the Subscription does not exist, or does not
	// set the field.
	approval string
	// credentials is nil if the cluster has no cloud-credential-operator.
	credentials *operatorv1.CloudCredential
	// groups are the OperatorGroups in the namespace of the installation. subscriptions has the Subscriptions to EFS operators in all namespaces. It
	// maps the namespace/name of a Subscription to its catalog.
	groups        []string
	subscriptions map[string]string
	// csiDriver is the CSIDriver of EFS, which exists if any owner has installed an EFS driver. It is nil if the CSIDriver does not exist. Field
	// "driver" below is the ClusterCSIDriver.
	csiDriver *storagev1.CSIDriver
	// plugins are the DaemonSets that run an EFS driver on the nodes, as namespace/name. charted means that Helm or kustomize installed one of these
	// DaemonSets.
	plugins []string
	charted bool

	driver    *operatorv1.ClusterCSIDriver
	namespace *corev1.Namespace
}

func observe(ctx context.Context, c *plugin.Cluster, namespace string) (seen, error) {
	found := seen{subscriptions: map[string]string{}, denied: map[string]bool{}}
	subscriptions, err := found.listOf(ctx, c, subscriptionKind(), "")
	if err != nil {
		return found, err
	}
	found.hasOLM = subscriptions != nil
	for _, one := range subscriptions {
		name, _, _ := unstructured.NestedString(one.Object, "spec", "name")
		source, _, _ := unstructured.NestedString(one.Object, "spec", "source")
		if name == awsefs.Operator || name == awsefs.CommunityOperator {
			found.subscriptions[one.GetNamespace()+"/"+one.GetName()] = source
		}
		if one.GetNamespace() == namespace && one.GetName() == awsefs.Operator {
			found.approval, _, _ = unstructured.NestedString(one.Object, "spec", "installPlanApproval")
		}
	}
	groups, err := found.listOf(ctx, c, groupKind(), namespace)
	if err != nil {
		return found, err
	}
	for _, one := range groups {
		found.groups = append(found.groups, one.GetName())
	}
	drivers := &operatorv1.ClusterCSIDriverList{}
	answer, err := c.TryList(ctx, drivers)
	if err != nil {
		return found, err
	}
	found.hasDrivers = found.note("ClusterCSIDriver", answer)
	for i := range drivers.Items {
		if drivers.Items[i].Name == awsefs.Name {
			found.driver = &drivers.Items[i]
		}
	}
	if err := found.findPlugins(ctx, c); err != nil {
		return found, err
	}
	return found, found.readCluster(ctx, c, namespace)
}

// findPlugins finds DaemonSets whose pods mount the folder of the driver's socket.
func (s *seen) findPlugins(ctx context.Context, c *plugin.Cluster) error {
	daemonSets, efs := &appsv1.DaemonSetList{}, awsefs.Driver()
	answer, err := c.TryList(ctx, daemonSets)
	if err != nil {
		return err
	}
	s.note("DaemonSet", answer)
	for i := range daemonSets.Items {
		if one := &daemonSets.Items[i]; efs.MountsSocket(one.Spec.Template.Spec.Volumes) {
			s.plugins = append(s.plugins, one.Namespace+"/"+one.Name)
			// The chart's pods have this label (kubernetes-sigs/aws-efs-csi-driver v3.4.1, charts/aws-efs-csi-driver).
			s.charted = s.charted || one.Spec.Template.Labels["app.kubernetes.io/instance"] != ""
		}
	}
	return nil
}

// readCluster reads single objects. If an object does not exist, or the user lacks permission to read it, its field stays nil or empty.
func (s *seen) readCluster(ctx context.Context, c *plugin.Cluster, namespace string) error {
	infrastructure, release := &configv1.Infrastructure{}, &configv1.ClusterVersion{}
	authentication, credential := &configv1.Authentication{}, &operatorv1.CloudCredential{}
	csiDriver, space := &storagev1.CSIDriver{}, &corev1.Namespace{}
	for _, one := range []struct {
		name string
		into client.Object
		keep func()
	}{
		{openshift.Singleton, infrastructure, func() { s.infrastructure = infrastructure }},
		{"version", release, func() {
			s.version = versionOf(release.Status.Desired.Version)
			s.noConsole = lacksConsole(release.Status.Capabilities)
		}},
		{openshift.Singleton, authentication, func() { s.issuer = authentication.Spec.ServiceAccountIssuer }},
		{openshift.Singleton, credential, func() { s.credentials = credential }},
		{awsefs.Name, csiDriver, func() { s.csiDriver = csiDriver }},
		{namespace, space, func() { s.namespace = space }},
	} {
		answer, err := c.TryGet(ctx, client.ObjectKey{Name: one.name}, one.into)
		if err != nil {
			return err
		}
		if s.note(reflect.TypeOf(one.into).Elem().Name(), answer) {
			one.keep()
		}
	}
	return nil
}

// lacksConsole reports whether a cluster lacks the capability Console. A release that does not know the capability always has a console.
func lacksConsole(found configv1.ClusterVersionCapabilitiesStatus) bool {
	return slices.Contains(found.KnownCapabilities, configv1.ClusterVersionCapabilityConsole) &&
		!slices.Contains(found.EnabledCapabilities, configv1.ClusterVersionCapabilityConsole)
}

// note takes the Answer to a read of a kind, and records the kind if the user lacks permission to read it. It reports whether the Answer is Present.
func (s *seen) note(kind string, answer plugin.Answer) bool {
	if answer == plugin.Denied {
		s.denied[kind] = true
	}
	return answer == plugin.Present
}

// lacks returns a sentence that names those of the given kinds that the user lacks permission to read. If the user has all these permissions, the
// sentence is empty.
func (s *seen) lacks(kinds ...string) string {
	var found []string
	for _, kind := range kinds {
		if s.denied[kind] {
			found = append(found, kind)
		}
	}
	if found == nil {
		return ""
	}
	return "you lack permission to read " + strings.Join(found, " and ")
}

// versionOf parses a version, and keeps only the major and the minor number. If the text is invalid, the result is nil.
func versionOf(text string) *version.Version {
	found, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return version.MajorMinor(found.Major(), found.Minor())
}

// listOf lists objects of a kind that our scheme does not have. If the cluster does not serve the kind, or the user lacks permission to list it, the
// result is nil.
func (s *seen) listOf(ctx context.Context, c *plugin.Cluster, kind schema.GroupVersionKind, namespace string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	answer, err := c.TryList(ctx, list, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	if !s.note(kind.Kind, answer) {
		return nil, nil
	}
	return append([]unstructured.Unstructured{}, list.Items...), nil
}
