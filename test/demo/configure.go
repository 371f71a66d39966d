package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// configure gives the cluster a proxy and shows what follows. A pod uses a volume meanwhile.
func (d *demo) configure(ctx context.Context, user *corev1.Pod) error {
	before, err := d.versions(ctx)
	if err != nil {
		return err
	}
	view, err := d.view(ctx)
	if err != nil {
		return err
	}
	d.say("Giving the cluster a proxy. The node pods of the driver are replaced with it: one idle node first, node %s in use last:", user.Spec.NodeName)
	proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	// OpenShift's network operator adds the networks of the cluster to noProxy: drivers ask the API server by its IP.
	patch := `{"status":{"httpsProxy":"http://proxy.example:3128","noProxy":".cluster.local,.svc,127.0.0.1,169.254.169.254,172.30.0.0/16,localhost"}}`
	if err := d.cluster.Client.Status().Patch(ctx, proxy, env.Merge(patch)); err != nil {
		return fmt.Errorf("configure the proxy: %w", err)
	}
	var after map[string]int64
	err = env.Await(ctx, "the proxy in the pods", func() error {
		if err := view.show(ctx); err != nil {
			return err
		}
		if after, err = d.versions(ctx); err != nil {
			return err
		}
		for name, version := range before {
			if after[name] == version {
				return errors.New(name + " is as it was")
			}
		}
		if len(view.replaced) < d.nodes {
			return fmt.Errorf("the pods of %d nodes were replaced", len(view.replaced))
		}
		return d.cluster.Settled(ctx)
	})
	if err != nil {
		return err
	}
	if last := view.replaced[len(view.replaced)-1]; last != user.Spec.NodeName {
		return fmt.Errorf("node %s came last, and not %s, where pod %s uses a volume", last, user.Spec.NodeName, user.Name)
	}
	fmt.Printf("           The operator replaced the node pods in this order: %s\n", strings.Join(view.replaced, ", "))
	for _, name := range []string{"DaemonSet efs-csi-node", "Deployment aws-efs-csi-driver-controller"} {
		fmt.Printf("           %-45s version %d -> %d, rolled out\n", name, before[name], after[name])
	}
	return nil
}

// versions are the generations of the two workloads.
func (d *demo) versions(ctx context.Context) (map[string]int64, error) {
	daemonSet, deployment := &appsv1.DaemonSet{}, &appsv1.Deployment{}
	for name, object := range map[string]client.Object{"efs-csi-node": daemonSet, "aws-efs-csi-driver-controller": deployment} {
		if err := d.cluster.Client.Get(ctx, client.ObjectKey{Namespace: env.OperatorNamespace, Name: name}, object); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return map[string]int64{
		"DaemonSet efs-csi-node": daemonSet.Generation, "Deployment aws-efs-csi-driver-controller": deployment.Generation,
	}, nil
}
