package install

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/openshift"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// The kinds of OLM that count here.
func subscriptionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}
}

func csvKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}
}

func groupKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1", Kind: "OperatorGroup"}
}

// seen is what an installation depends on.
type seen struct {
	// hasOLM and hasDrivers tell whether the cluster serves these APIs.
	hasOLM, hasDrivers bool
	infrastructure     *configv1.Infrastructure
	// minor is that of OpenShift 4; 0 if it is not known.
	minor int
	// issuer is that of the tokens of a cluster with STS.
	issuer string
	mode   operatorv1.CloudCredentialsMode
	// groups are the OperatorGroups of the namespace, and subscriptions those of all EFS operators, as namespace/name, with their source.
	groups        []string
	subscriptions map[string]string
	// csiDriver is there if somebody runs an EFS driver, and driver is the ClusterCSIDriver.
	csiDriver *storagev1.CSIDriver
	// plugins are the DaemonSets that run the driver on the nodes, as namespace/name, if knowsPlugins.
	plugins      []string
	knowsPlugins bool

	driver    *operatorv1.ClusterCSIDriver
	namespace *corev1.Namespace
}

func observe(ctx context.Context, c *plugin.Cluster, namespace string) (seen, error) {
	found := seen{subscriptions: map[string]string{}}
	subscriptions, err := listOf(ctx, c, subscriptionKind(), "")
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
	}
	groups, err := listOf(ctx, c, groupKind(), namespace)
	if err != nil {
		return found, err
	}
	for _, one := range groups {
		found.groups = append(found.groups, one.GetName())
	}
	drivers := &operatorv1.ClusterCSIDriverList{}
	if found.hasDrivers, err = c.FindAll(ctx, drivers); err != nil {
		return found, err
	}
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

// findPlugins looks for DaemonSets that serve the driver's socket.
func (s *seen) findPlugins(ctx context.Context, c *plugin.Cluster) error {
	daemonSets, efs := &appsv1.DaemonSetList{}, awsefs.Driver()
	var err error
	if s.knowsPlugins, err = c.FindAll(ctx, daemonSets); err != nil {
		return err
	}
	for i := range daemonSets.Items {
		if one := &daemonSets.Items[i]; efs.MountsSocket(one.Spec.Template.Spec.Volumes) {
			s.plugins = append(s.plugins, one.Namespace+"/"+one.Name)
		}
	}
	return nil
}

// readCluster reads single objects. What is not there, or may not be read, stays nil.
func (s *seen) readCluster(ctx context.Context, c *plugin.Cluster, namespace string) error {
	infrastructure, version := &configv1.Infrastructure{}, &configv1.ClusterVersion{}
	authentication, credential := &configv1.Authentication{}, &operatorv1.CloudCredential{}
	csiDriver, space := &storagev1.CSIDriver{}, &corev1.Namespace{}
	for _, one := range []struct {
		name string
		into client.Object
		keep func()
	}{
		{openshift.Singleton, infrastructure, func() { s.infrastructure = infrastructure }},
		{"version", version, func() { s.minor = minorOf(version.Status.Desired.Version) }},
		{openshift.Singleton, authentication, func() { s.issuer = authentication.Spec.ServiceAccountIssuer }},
		{openshift.Singleton, credential, func() { s.mode = credential.Spec.CredentialsMode }},
		{awsefs.Name, csiDriver, func() { s.csiDriver = csiDriver }},
		{namespace, space, func() { s.namespace = space }},
	} {
		there, err := c.Find(ctx, client.ObjectKey{Name: one.name}, one.into)
		if err != nil {
			return err
		}
		if there {
			one.keep()
		}
	}
	return nil
}

// minorOf is 17 of 4.17.3.
func minorOf(version string) int {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || parts[0] != "4" {
		return 0
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return minor
}

// listOf lists objects of a kind that our scheme does not have; nil if the cluster does not serve it.
func listOf(ctx context.Context, c *plugin.Cluster, kind schema.GroupVersionKind, namespace string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	there, err := c.FindAll(ctx, list, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	if !there {
		return nil, nil
	}
	return append([]unstructured.Unstructured{}, list.Items...), nil
}
