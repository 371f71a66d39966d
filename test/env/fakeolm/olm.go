// Package fakeolm stands in for OLM: it installs what bundles say, runs operators as their Deployments ask for, and refuses what OLM
// would refuse.
package fakeolm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// ownerLabel has the name of the ClusterServiceVersion that an object goes with.
	ownerLabel = "olm.owner"
	olmManager = "olm"
)

// OLM is a stand-in for the Operator Lifecycle Manager (v0) and for the kubelet of the operator's pod.
//
// It installs a bundle as OLM does, in an OperatorGroup of all namespaces. It creates the account, and a role and a binding for each
// permission under generated names. It creates the other manifests with the namespace set, the CRDs, and the Deployments with the
// Subscription's environment. An upgrade changes common objects in place and then removes objects of the previous version only. An
// uninstallation removes all but CRDs, their objects, and cluster-scoped manifests, which have no owner. It installs nothing while another
// ClusterServiceVersion owns the same CRD.
//
// It has no API: no Subscription, InstallPlan, OperatorGroup, CatalogSource or ClusterServiceVersion is in the cluster, and it acts
// when it is told to. It does not unpack images, approve, retry or roll back; it does not compare stored objects with a new
// CRD, which internal/release/olm does; it adds no variables of a proxy; objects go one after the other, not by garbage
// collection. What permissions give in the namespace is a Role and stays one: OLM gives it everywhere in such an OperatorGroup, so
// that RBAC which is enough here is enough there.
//
// The pod of the operator's Deployment is as fake as all pods. In its place runs the operator as a process, with the command,
// arguments and environment of the Deployment as the API server returns it; see startPod for what differs. Other operators run if
// Runs says so.
type OLM struct {
	cluster   *env.Cluster
	installed map[string]*installation
	// pods are those of the operators that run as processes; ours is the first.
	pods []*pod
}

// installation is a ClusterServiceVersion in a namespace. The environment is that of its Subscription.
type installation struct {
	csv         CSV
	namespace   string
	environment []corev1.EnvVar
}

// New is a stand-in that has installed nothing.
func New(cluster *env.Cluster) *OLM {
	return &OLM{cluster: cluster, installed: map[string]*installation{}, pods: []*pod{{name: env.OperatorName, command: env.OperatorName}}}
}

// OnNodes is a stand-in that has installed nothing, and runs no program: it leaves Deployments to the nodes of the cluster, which are real.
func OnNodes(cluster *env.Cluster) *OLM {
	return &OLM{cluster: cluster, installed: map[string]*installation{}}
}

// Runs makes the stand-in run a program for the Deployment of another operator, whose container has that command.
func (o *OLM) Runs(deployment, command, binary string) {
	o.pods = append(o.pods, &pod{name: deployment, command: command, binary: binary})
}

// Install installs a ClusterServiceVersion in a namespace, and starts the operator if it is ours.
func (o *OLM) Install(ctx context.Context, csv CSV, namespace string, environment ...corev1.EnvVar) error {
	return o.place(ctx, &installation{csv, namespace, environment}, "")
}

// Upgrade puts a ClusterServiceVersion in place of an installed one. The Subscription keeps its environment.
func (o *OLM) Upgrade(ctx context.Context, from string, to CSV) error {
	old := o.installed[from]
	if old == nil {
		return fmt.Errorf("%s is not installed", from)
	}
	return o.place(ctx, &installation{to, old.namespace, old.environment}, from)
}

// Configure changes the environment of the Subscription.
func (o *OLM) Configure(ctx context.Context, name string, environment ...corev1.EnvVar) error {
	old := o.installed[name]
	if old == nil {
		return fmt.Errorf("%s is not installed", name)
	}
	return o.place(ctx, &installation{old.csv, old.namespace, environment}, name)
}

// Uninstall removes Subscription and ClusterServiceVersion.
func (o *OLM) Uninstall(ctx context.Context, name string) error {
	old := o.installed[name]
	if old == nil {
		return fmt.Errorf("%s is not installed", name)
	}
	delete(o.installed, name)
	return o.remove(ctx, old, nil)
}

// Operator is the process of the operator that was installed last; nil if there is none.
func (o *OLM) Operator() *env.Operator { return o.OperatorOf(env.OperatorName) }

// OperatorOf is the process for a Deployment; nil if there is none.
func (o *OLM) OperatorOf(deployment string) *env.Operator {
	for _, pod := range o.pods {
		if pod.name == deployment {
			return pod.process
		}
	}
	return nil
}

// Stop ends the operators and leaves what is installed.
func (o *OLM) Stop() error {
	var problems []error
	for _, pod := range o.pods {
		problems = append(problems, pod.stop())
	}
	return errors.Join(problems...)
}

// follow makes the processes what the Deployments in a namespace ask for.
func (o *OLM) follow(ctx context.Context, namespace string) error {
	var problems []error
	for _, pod := range o.pods {
		problems = append(problems, pod.follow(ctx, o.cluster, namespace))
	}
	return errors.Join(problems...)
}

// place installs what replaces another version, or nothing.
func (o *OLM) place(ctx context.Context, wanted *installation, replaces string) error {
	if err := o.conflict(wanted, replaces); err != nil {
		return err
	}
	if err := o.serves(wanted.csv); err != nil {
		return err
	}
	for _, crd := range wanted.csv.CRDs {
		if err := o.define(ctx, crd.DeepCopy()); err != nil {
			return err
		}
	}
	objects, err := wanted.csv.Objects(wanted.namespace, wanted.environment)
	if err != nil {
		return err
	}
	for _, object := range objects {
		configuration := client.ApplyConfigurationFromUnstructured(object)
		if err := o.cluster.Client.Apply(ctx, configuration, client.FieldOwner(olmManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s: install %s %s: %w", wanted.csv.Name, object.GetKind(), object.GetName(), err)
		}
	}
	if err := o.follow(ctx, wanted.namespace); err != nil {
		return err
	}
	old := o.installed[replaces]
	delete(o.installed, replaces)
	o.installed[wanted.csv.Name] = wanted
	if old == nil {
		return nil
	}
	return o.remove(ctx, old, objects)
}

// conflict refuses a second owner of a CRD: all OperatorGroups here are of all namespaces, so that they overlap.
func (o *OLM) conflict(wanted *installation, replaces string) error {
	for _, name := range slices.Sorted(maps.Keys(o.installed)) {
		other := o.installed[name]
		for _, owned := range other.csv.Owns {
			switch {
			case name == replaces || !slices.Contains(wanted.csv.Owns, owned):
			case other.namespace != wanted.namespace:
				return fmt.Errorf("InterOperatorGroupOwnerConflict: %s in namespace %s owns %s as %s in namespace %s does",
					name, other.namespace, owned, wanted.csv.Name, wanted.namespace)
			default:
				return fmt.Errorf("OwnerConflict: %s owns %s as %s does, and is not replaced by it", name, owned, wanted.csv.Name)
			}
		}
	}
	return nil
}

// serves checks that the cluster has the kinds that an operator needs from others.
func (o *OLM) serves(csv CSV) error {
	served, err := o.cluster.Kinds()
	if err != nil {
		return err
	}
	for _, kind := range csv.NativeAPIs {
		if !slices.Contains(served, schema.GroupVersionKind(kind)) {
			return fmt.Errorf("RequirementsNotMet: %s needs %v", csv.Name, kind)
		}
	}
	return nil
}

// define makes a CRD, or changes it in place.
func (o *OLM) define(ctx context.Context, crd *unstructured.Unstructured) error {
	err := o.cluster.Client.Create(ctx, crd, client.FieldOwner(olmManager))
	if apierrors.IsAlreadyExists(err) {
		live := env.NewObject(crd.GetAPIVersion(), crd.GetKind(), "", crd.GetName())
		if err := o.cluster.Client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return err
		}
		crd.SetResourceVersion(live.GetResourceVersion())
		err = o.cluster.Client.Update(ctx, crd, client.FieldOwner(olmManager))
	}
	if err != nil {
		return fmt.Errorf("define %s: %w", crd.GetName(), err)
	}
	return o.cluster.Served(ctx, crd.GetName())
}

// remove deletes what goes with a version and is not among the objects to keep. In an upgrade the process has ended before it loses its RBAC.
// In an uninstallation the RBAC goes before the process, which can't release its Lease any more. That was seen with OLM itself, and so was that
// the Roles and RoleBindings among the manifests of a bundle stay.
func (o *OLM) remove(ctx context.Context, old *installation, keep []*unstructured.Unstructured) error {
	objects, err := old.csv.Objects(old.namespace, nil)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, object := range keep {
		kept[nameOf(object)] = true
	}
	for _, manifest := range old.csv.Manifests {
		if kind := manifest.GetKind(); kind == "Role" || kind == "RoleBinding" {
			object := manifest.DeepCopy()
			object.SetNamespace(old.namespace)
			kept[nameOf(object)] = true
		}
	}
	isLast := func(object *unstructured.Unstructured) bool { return keep == nil && object.GetKind() == "Deployment" }
	slices.Reverse(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		switch {
		case isLast(a) == isLast(b):
			return 0
		case isLast(a):
			return 1
		default:
			return -1
		}
	})
	var problems []error
	for _, object := range objects {
		if kept[nameOf(object)] || object.GetNamespace() == "" && object.GetLabels()[ownerLabel] == "" {
			continue
		}
		err := o.cluster.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		problems = append(problems, client.IgnoreNotFound(err))
		if object.GetKind() == "Deployment" {
			problems = append(problems, o.follow(ctx, old.namespace))
		}
	}
	return errors.Join(problems...)
}

func nameOf(object *unstructured.Unstructured) string {
	return object.GroupVersionKind().GroupKind().String() + " " + object.GetNamespace() + "/" + object.GetName()
}
