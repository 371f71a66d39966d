package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// startPlatform brings up the cluster, which knows the programs of the operators and has none of them yet.
func (d *demo) startPlatform(ctx context.Context) error {
	if d.real {
		d.say("Starting a cluster on platform %s with %d nodes, all of them real: kubelet, containerd and runc start the pods.", d.platform, d.nodes)
		if err := d.startCluster(ctx, append(d.realNodes(), "--platform", d.platform)...); err != nil {
			return err
		}
		// The nodes are in several zones, and a recorder knows one.
		images, err := nodeimages.PlatformPayload(env.ClusterRelease, "", d.platform)
		return d.loadImages(ctx, images, err)
	}
	d.say("Starting a cluster on platform %s with %d nodes: a real API server, scheduler and controller-manager; nodes and pods are fake,", d.platform, d.nodes)
	d.say("but pods of operators are processes of this machine, with the RBAC of their ServiceAccounts.")
	programs, err := env.ReleasePrograms(false, env.ClusterRelease)
	if err != nil {
		return err
	}
	return d.startCluster(ctx, append(programs, "--platform", d.platform)...)
}

// startCloud starts the cloud of a platform whose operators ask theirs.
func (d *demo) startCloud(ctx context.Context) error {
	switch d.platform {
	case string(configv1.OpenStackPlatformType):
		d.say("Starting a cloud: Keystone, Nova, Cinder and Manila at one address of this machine, with a CA of its own.")
		cloud, err := d.cluster.PutOpenStack(ctx)
		if err != nil {
			return err
		}
		d.closeCloud = cloud.Close
	case string(configv1.VSpherePlatformType):
		return d.startVCenter(ctx)
	}
	return nil
}

// apply applies the release and says what comes of it.
func (d *demo) apply(ctx context.Context) error {
	if err := d.startCloud(ctx); err != nil {
		return err
	}
	d.say("Applying the manifests of release %s, as the cluster-version operator does.", env.ClusterRelease)
	if err := d.cluster.ApplyRelease(ctx, env.Release{Version: env.ClusterRelease}); err != nil {
		return err
	}
	err := env.AwaitFor(ctx, 5*time.Minute, "ClusterOperator storage is healthy", func() error {
		if err := d.follow(ctx); err != nil {
			return err
		}
		return d.cluster.Reached(ctx, env.ClusterRelease)
	})
	if err != nil {
		return err
	}
	return d.follow(ctx)
}

// namespaces are where operators and drivers run.
func (d *demo) namespaces() []string {
	found := []string{catalogue.OperatorNamespace, catalogue.Namespace}
	for _, entry := range catalogue.All() {
		if string(entry.Platform) == d.platform && entry.Namespace != "" {
			found = append(found, entry.Namespace)
		}
	}
	return found
}

// follow says what has changed.
func (d *demo) follow(ctx context.Context) error {
	deployments, daemonSets := &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}
	for _, namespace := range d.namespaces() {
		for _, list := range []client.ObjectList{deployments, daemonSets} {
			if err := d.cluster.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("list what runs in %s: %w", namespace, err)
			}
		}
		for i := range deployments.Items {
			one := &deployments.Items[i]
			d.sayOnce("Deployment "+one.Name, fmt.Sprintf("%d of %d pods", one.Status.AvailableReplicas, *one.Spec.Replicas))
		}
		for i := range daemonSets.Items {
			one := &daemonSets.Items[i]
			d.sayOnce("DaemonSet "+one.Name, fmt.Sprintf("%d of %d nodes", one.Status.NumberAvailable, one.Status.DesiredNumberScheduled))
		}
	}
	if err := d.followVCenter(ctx); err != nil {
		return err
	}
	operator, err := d.cluster.ClusterOperator(ctx)
	if err != nil {
		return fmt.Errorf("read the ClusterOperator: %w", err)
	}
	var states []string
	for _, kind := range []configv1.ClusterStatusConditionType{
		configv1.OperatorAvailable, configv1.OperatorProgressing, configv1.OperatorDegraded, configv1.OperatorUpgradeable,
	} {
		if condition := env.OperatorCondition(operator, kind); condition.Status != "" {
			states = append(states, fmt.Sprintf("%s=%s", kind, condition.Status))
		}
	}
	if len(states) > 0 {
		d.sayOnce("ClusterOperator storage", strings.Join(states, " "))
	}
	return nil
}

// sayOnce says something once.
func (d *demo) sayOnce(about, what string) {
	if d.said[about] != what {
		d.said[about] = what
		d.say("  %-52s %s", about, what)
	}
}

// tellState prints what there is in the end.
func (d *demo) tellState(ctx context.Context) error {
	operator, err := d.cluster.ClusterOperator(ctx)
	if err != nil {
		return fmt.Errorf("read the ClusterOperator: %w", err)
	}
	d.say("Healthy. ClusterOperator storage says:")
	for _, condition := range operator.Status.Conditions {
		fmt.Printf("           %-28s %-6s %s\n", condition.Type, condition.Status, strings.ReplaceAll(condition.Message, "\n", "\n"+strings.Repeat(" ", 47)))
	}
	versions := map[string]string{}
	for _, version := range operator.Status.Versions {
		versions[version.Name] = version.Version
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		fmt.Printf("           version of %-36s %s\n", name, versions[name])
	}
	classes := &storagev1.StorageClassList{}
	if err := d.cluster.Client.List(ctx, classes); err != nil {
		return fmt.Errorf("list the StorageClasses: %w", err)
	}
	for _, class := range classes.Items {
		fmt.Printf("           StorageClass %-22s default: %s\n", class.Name, class.Annotations["storageclass.kubernetes.io/is-default-class"])
	}
	d.say("The pods of operators and drivers:")
	for _, namespace := range d.namespaces() {
		text, err := d.cluster.Kubectl(ctx, "get", "pods", "-n", namespace, "-o", "wide", "--ignore-not-found")
		if err != nil {
			return err
		}
		fmt.Print(text)
	}
	return nil
}
