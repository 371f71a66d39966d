// Package survey finds out which CSI drivers a cluster has, and which operators manage these drivers. It reads the cluster with the user's rights,
// and returns a plain value.
package survey

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// Survey lists the drivers of a cluster. A field of a driver can be nil because the object is missing. It can also be nil because the Answer for
// this kind of object is not Known.
type Survey struct {
	// Drivers are sorted by name.
	Drivers []Driver
	// CRs, CSIDrivers, Operators, Workloads and Pods say whether the survey could list the objects of these kinds.
	CRs, CSIDrivers, Operators, Workloads, Pods plugin.Answer
	// Failures are the errors of failed requests. The survey has read everything else.
	Failures []error
}

// Driver is one CSI driver.
type Driver struct {
	Name string
	// Profile is nil for a third-party driver.
	Profile *Profile
	// CR is nil if the driver has no ClusterCSIDriver. CSIDriver is nil if the driver is not installed.
	CR        *operatorv1.ClusterCSIDriver
	CSIDriver *storagev1.CSIDriver
	// Operators are the Deployments of the driver's operator. More than one Deployment means that the operator is installed more than once.
	Operators []appsv1.Deployment
	// LeaseHolder is the holder of the operator's Lease if the operator has no Deployment, for instance because it runs outside of the cluster. It is
	// empty if no process has renewed the Lease within twice the Lease's duration, or if the survey did not read the Lease.
	LeaseHolder string
	// Controller and Nodes are the driver's workloads. They are nil if they do not exist.
	Controller *appsv1.Deployment
	Nodes      *appsv1.DaemonSet
	// ControllerPods are the pods of Controller. NodePods are the pods of Nodes. OperatorPods are the pods of Operators.
	ControllerPods, NodePods, OperatorPods []corev1.Pod
}

// reader builds a Survey.
type reader struct {
	*plugin.Cluster
	Survey
	now         time.Time
	profiles    map[string]Profile
	deployments map[client.ObjectKey]appsv1.Deployment
	daemonSets  map[client.ObjectKey]appsv1.DaemonSet
}

// Read makes a survey. Parameter now decides which Leases are in use. Read returns an error only if it could not reach the API server.
func Read(ctx context.Context, cluster *plugin.Cluster, now time.Time) (Survey, error) {
	r := &reader{
		Cluster: cluster, profiles: profiles(), now: now,
		deployments: map[client.ObjectKey]appsv1.Deployment{}, daemonSets: map[client.ObjectKey]appsv1.DaemonSet{},
	}
	found := map[string]*Driver{}
	if err := r.names(ctx, found); err != nil {
		return Survey{}, err
	}
	r.workloads(ctx)
	for _, name := range slices.Sorted(maps.Keys(r.profiles)) {
		hasOperator := len(r.operatorsOf(r.profiles[name].Operator)) > 0
		holder := ""
		if !hasOperator {
			holder = r.leaseHolder(ctx, name, found[name])
		}
		if (hasOperator || holder != "") && found[name] == nil {
			found[name] = &Driver{Name: name}
		}
		if holder != "" {
			found[name].LeaseHolder = holder
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		r.attach(found[name])
	}
	r.pods(ctx)
	return r.Survey, nil
}

// names finds the names of the drivers. It sends the first request of a survey, which shows whether the API server answers.
func (r *reader) names(ctx context.Context, found map[string]*Driver) error {
	csiDrivers, crs := &storagev1.CSIDriverList{}, &operatorv1.ClusterCSIDriverList{}
	r.CSIDrivers = r.list(ctx, "CSIDrivers", csiDrivers)
	for _, err := range r.Failures {
		if plugin.IsUnanswered(err) {
			return err
		}
	}
	r.CRs = r.list(ctx, "ClusterCSIDrivers", crs)
	at := func(name string) *Driver {
		if found[name] == nil {
			found[name] = &Driver{Name: name}
		}
		return found[name]
	}
	for i := range csiDrivers.Items {
		at(csiDrivers.Items[i].Name).CSIDriver = &csiDrivers.Items[i]
	}
	for i := range crs.Items {
		at(crs.Items[i].Name).CR = &crs.Items[i]
	}
	return nil
}

// list reads all objects of a kind. If the request fails, list records the error.
func (r *reader) list(ctx context.Context, what string, into client.ObjectList, options ...client.ListOption) plugin.Answer {
	answer, err := r.TryList(ctx, into, options...)
	if err != nil {
		r.Failures = append(r.Failures, fmt.Errorf("list %s: %w", what, err))
	}
	return answer
}

// workloads reads all Deployments and DaemonSets in the drivers' namespace. In all other namespaces, it looks by name for operators and
// DaemonSets that OLM may have installed.
func (r *reader) workloads(ctx context.Context) {
	in := client.InNamespace(catalogue.Namespace)
	deployments, daemonSets := &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}
	r.Operators = r.list(ctx, "Deployments in namespace "+catalogue.Namespace, deployments, in)
	r.Workloads = r.list(ctx, "DaemonSets in namespace "+catalogue.Namespace, daemonSets, in)
	r.add(deployments, daemonSets)
	operators, plugins := anywhere(r.profiles)
	for _, name := range operators {
		everywhere := &appsv1.DeploymentList{}
		r.Operators = min(r.Operators, r.list(ctx, "Deployments "+name, everywhere, client.MatchingFields{"metadata.name": name}))
		r.add(everywhere, &appsv1.DaemonSetList{})
	}
	for _, name := range plugins {
		everywhere := &appsv1.DaemonSetList{}
		r.Workloads = min(r.Workloads, r.list(ctx, "DaemonSets "+name, everywhere, client.MatchingFields{"metadata.name": name}))
		r.add(&appsv1.DeploymentList{}, everywhere)
	}
}

func (r *reader) add(deployments *appsv1.DeploymentList, daemonSets *appsv1.DaemonSetList) {
	for i := range deployments.Items {
		r.deployments[client.ObjectKeyFromObject(&deployments.Items[i])] = deployments.Items[i]
	}
	for i := range daemonSets.Items {
		r.daemonSets[client.ObjectKeyFromObject(&daemonSets.Items[i])] = daemonSets.Items[i]
	}
}

// operatorsOf returns the Deployments of this name that are not scaled to 0, the oldest first. If all are scaled to 0, it returns all.
func (r *reader) operatorsOf(name string) []appsv1.Deployment {
	var running, others []appsv1.Deployment
	for _, key := range r.keys(name) {
		one := r.deployments[key]
		if one.Spec.Replicas != nil && *one.Spec.Replicas == 0 && one.Status.Replicas == 0 {
			others = append(others, one)
			continue
		}
		running = append(running, one)
	}
	if len(running) == 0 {
		return others
	}
	slices.SortStableFunc(running, func(a, b appsv1.Deployment) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return running
}

func (r *reader) keys(name string) []client.ObjectKey {
	var keys []client.ObjectKey
	for key := range r.deployments {
		if key.Name == name {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) })
	return keys
}

// attach adds the profile, the operator and the workloads to a driver.
func (r *reader) attach(driver *Driver) {
	if one, is := r.profiles[driver.Name]; is {
		driver.Profile = &one
		driver.Operators = r.operatorsOf(one.Operator)
		namespace := catalogue.Namespace
		if len(driver.Operators) > 0 {
			namespace = driver.Operators[0].Namespace
		}
		if controller, is := r.deployments[client.ObjectKey{Namespace: namespace, Name: one.Deployment}]; is {
			driver.Controller = &controller
		}
		driver.Nodes = r.daemonSet(namespace, one.DaemonSet)
	}
	r.Drivers = append(r.Drivers, *driver)
}

// daemonSet finds a DaemonSet by name, first in the given namespace. A third-party driver can have its DaemonSet in another namespace, so
// daemonSet then looks in all namespaces.
func (r *reader) daemonSet(namespace, name string) *appsv1.DaemonSet {
	var keys []client.ObjectKey
	for key := range r.daemonSets {
		if key.Name == name && name != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	chosen := slices.MinFunc(keys, func(a, b client.ObjectKey) int {
		return cmp.Or(btoi(a.Namespace != namespace)-btoi(b.Namespace != namespace), cmp.Compare(a.Namespace, b.Namespace))
	})
	found := r.daemonSets[chosen]
	return &found
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// pods reads the pods in the namespaces of operators and drivers, and assigns each pod to its workload.
func (r *reader) pods(ctx context.Context) {
	namespaces := map[string]bool{}
	for _, driver := range r.Drivers {
		for _, operator := range driver.Operators {
			namespaces[operator.Namespace] = true
		}
		if driver.Nodes != nil {
			namespaces[driver.Nodes.Namespace] = true
		}
		if driver.Controller != nil {
			namespaces[driver.Controller.Namespace] = true
		}
	}
	r.Pods = plugin.Present
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		pods := &corev1.PodList{}
		r.Pods = min(r.Pods, r.list(ctx, "pods in namespace "+namespace, pods, client.InNamespace(namespace)))
		for i := range pods.Items {
			r.assign(&pods.Items[i])
		}
	}
}

// assign adds a pod to each workload whose selector matches the pod.
func (r *reader) assign(pod *corev1.Pod) {
	for i := range r.Drivers {
		driver := &r.Drivers[i]
		if driver.Nodes != nil && selects(driver.Nodes.Namespace, driver.Nodes.Spec.Selector, pod) {
			driver.NodePods = append(driver.NodePods, *pod)
		}
		if driver.Controller != nil && selects(driver.Controller.Namespace, driver.Controller.Spec.Selector, pod) {
			driver.ControllerPods = append(driver.ControllerPods, *pod)
		}
		for _, operator := range driver.Operators {
			if selects(operator.Namespace, operator.Spec.Selector, pod) {
				driver.OperatorPods = append(driver.OperatorPods, *pod)
			}
		}
	}
}
