package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// answer is how long the cluster may take for an answer.
	answer = 20 * time.Second
	// deletion is how long namespaces of the tests may take to go.
	deletion = 3 * time.Minute
	// runLabel has the ID of a run of Kubernetes' tests (v1.36.3, test/e2e/framework/util.go:327).
	runLabel = "e2e-run"
)

// claims are what the manifest says of the cluster.
type claims struct {
	StorageClass, SnapshotClass struct{ FromExistingClassName string }
	DriverInfo                  struct{ Name string }
}

// connect returns a client for the cluster in which the tests run.
func (c *certification) connect() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("KUBECONFIG=%s: %w", c.kubeconfig, err)
	}
	config.Timeout = answer
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	connected, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("the cluster of KUBECONFIG=%s does not answer: %w", c.kubeconfig, err)
	}
	return connected, nil
}

// check returns an error unless the cluster has what the manifest names. Without it, every test would fail after minutes.
func (c *certification) check(ctx context.Context, cluster client.Client) error {
	text, err := os.ReadFile(c.manifest)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	var said claims
	if err := yaml.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("manifest %s: %w", c.manifest, err)
	}
	if err := c.checkDriver(ctx, cluster, said.DriverInfo.Name); err != nil {
		return err
	}
	name := said.StorageClass.FromExistingClassName
	class := &storagev1.StorageClass{}
	if name != "" {
		if err := c.get(ctx, cluster, "StorageClass", name, class); err != nil {
			return err
		}
		if class.Provisioner != said.DriverInfo.Name {
			return fmt.Errorf("%s names StorageClass %s for driver %s, but in the cluster it is of %s: name a manifest with MANIFEST=",
				c.manifest, name, said.DriverInfo.Name, class.Provisioner)
		}
	}
	if name = said.SnapshotClass.FromExistingClassName; name != "" {
		return c.get(ctx, cluster, "VolumeSnapshotClass", name, env.NewObject("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "", name))
	}
	return nil
}

// checkDriver returns an error unless a node has the driver.
func (c *certification) checkDriver(ctx context.Context, cluster client.Client, driver string) error {
	err := cluster.Get(ctx, client.ObjectKey{Name: driver}, &storagev1.CSIDriver{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster has no driver %s: install it first", driver)
	}
	if err != nil {
		return fmt.Errorf("KUBECONFIG=%s: the cluster does not say whether it has driver %s: %w", c.kubeconfig, driver, err)
	}
	nodes := &storagev1.CSINodeList{}
	if err := cluster.List(ctx, nodes); err != nil {
		return fmt.Errorf("KUBECONFIG=%s: the cluster does not say which nodes have driver %s: %w", c.kubeconfig, driver, err)
	}
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Spec.Drivers, func(one storagev1.CSINodeDriver) bool { return one.Name == driver }) {
			return nil
		}
	}
	return fmt.Errorf("no node of the cluster has driver %s: wait until its node pods are ready", driver)
}

// get reads an object that the manifest names.
func (c *certification) get(ctx context.Context, cluster client.Client, kind, name string, into client.Object) error {
	err := cluster.Get(ctx, client.ObjectKey{Name: name}, into)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return fmt.Errorf("%s names %s %s, which the cluster lacks: create it, or name another manifest with MANIFEST=", c.manifest, kind, name)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return nil
}

// awaitCleanUp returns an error unless the namespaces of this run go. The tests delete them, and do not wait.
func (c *certification) awaitCleanUp(ctx context.Context, cluster client.Client) error {
	var names []string
	err := env.AwaitFor(ctx, deletion, "the tests' namespaces are deleted", func() error {
		namespaces := &corev1.NamespaceList{}
		if err := cluster.List(ctx, namespaces, client.MatchingLabels{runLabel: c.id}); err != nil {
			return err
		}
		names = nil
		for _, namespace := range namespaces.Items {
			names = append(names, namespace.Name)
		}
		if len(names) > 0 {
			return errors.New("namespaces are left: " + strings.Join(names, ", "))
		}
		return nil
	})
	if err != nil && len(names) > 0 {
		return fmt.Errorf("%w: see what holds them, and delete them: kubectl delete namespace %s", err, strings.Join(names, " "))
	}
	return err
}
