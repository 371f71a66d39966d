package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

const (
	// usualZone is where the node and all volumes are, unless a zone is asked for.
	usualZone = "us-east-1a"
	// port of the node is where the driver's pods meet. No pod of the product has it.
	port = "19809"
	// soon is how long an installation may take.
	soon = 5 * time.Minute
)

// subject is a driver of which this repository has the operator.
type subject struct {
	// manifests is its folder in test/e2e/storage, and folder that in internal/driver.
	manifests, folder string
	// platform is that of a devcluster whose operators need no cloud; empty if they need one.
	platform string
	// host are folders of the kernel that the node pods mount, and that a machine may lack.
	host []string
}

func subjects() map[string]subject {
	scsi := []string{"/sys/class/scsi_host", "/sys/bus/scsi/devices"}
	return map[string]subject{
		"efs":        {manifests: ".", folder: "awsefs", platform: "AWS"},
		"ebs":        {manifests: "ebs", folder: "awsebs", platform: "AWS"},
		"gcp-pd":     {manifests: "gcp-pd", folder: "gcppd", platform: "GCP"},
		"azure-disk": {manifests: "azure-disk", folder: "azuredisk", platform: "Azure", host: scsi},
		"azure-file": {manifests: "azure-file", folder: "azurefile", platform: "Azure", host: scsi},
		"cinder":     {manifests: "cinder", folder: "cinder"},
		"manila":     {manifests: "manila", folder: "manila"},
		"vsphere":    {manifests: "vsphere", folder: "vsphere"},
	}
}

// isEFS reports whether the operator comes from a bundle, and not from the payload.
func (c *certification) isEFS() bool { return c.name == "efs" }

// place is the zone of the node.
func (c *certification) place() string { return cmp.Or(c.zone, usualZone) }

// start starts a devcluster with one real node, and installs the driver there.
func (c *certification) start(ctx context.Context) error {
	if c.subject.platform == "" {
		return fmt.Errorf("the operator of %s asks a cloud, which pods of a devcluster can't reach: name a cluster with KUBECONFIG=", c.name)
	}
	for _, folder := range c.subject.host {
		if _, err := os.Stat(folder); err != nil {
			return fmt.Errorf("the node pods mount %s, which the kernel of this machine lacks: name a cluster with KUBECONFIG=", folder)
		}
	}
	missing, err := env.RealNodesMissing(ctx)
	if err != nil {
		return err
	}
	if missing != "" {
		return fmt.Errorf("no pod can be started on a real node, so name a cluster with KUBECONFIG=: %s", missing)
	}
	c.say("Starting a devcluster with one real node.")
	c.cluster, err = env.Start(ctx, "--topology", "SingleReplica", "--real-nodes", "1", "--platform", c.subject.platform)
	if err != nil {
		return err
	}
	c.kubeconfig = c.cluster.Kubeconfig()
	address, err := c.prepareNode(ctx)
	if err != nil {
		return err
	}
	if err := c.loadImages(ctx, address); err != nil {
		return err
	}
	c.say("Installing the operator, and its driver.")
	install := c.installPayload
	if c.isEFS() {
		install = c.installEFS
	}
	if err := install(ctx); err != nil {
		return errors.Join(err, c.show(ctx))
	}
	c.say("The driver is available.")
	return nil
}

// prepareNode moves the node to the zone of the volumes, and returns the address of it at which the driver's pods meet.
func (c *certification) prepareNode(ctx context.Context) (string, error) {
	nodes := &corev1.NodeList{}
	if err := c.cluster.Client.List(ctx, nodes); err != nil {
		return "", err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		patch := env.Merge(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, corev1.LabelTopologyZone, c.place()))
		if err := c.cluster.Client.Patch(ctx, node, patch); err != nil {
			return "", err
		}
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				return net.JoinHostPort(address.Address, port), nil
			}
		}
	}
	return "", errors.New("the real node has no address")
}

// loadImages gives the node the images of the operators, of the driver and of the tests.
func (c *certification) loadImages(ctx context.Context, address string) error {
	binary, err := env.Binary("suite")
	if err != nil {
		return err
	}
	names, err := exec.CommandContext(ctx, binary, "-list-images").Output()
	if err != nil {
		return fmt.Errorf("images of the tests: %w", err)
	}
	tests, err := nodeimages.Tests(strings.Fields(string(names)))
	if err != nil {
		return err
	}
	installed := func() (nodeimages.Images, error) {
		return nodeimages.PlatformPayload(env.ClusterRelease, c.place(), c.subject.platform)
	}
	if c.isEFS() {
		installed = nodeimages.Bundled
	}
	others, err := installed()
	if err != nil {
		return err
	}
	driver, err := nodeimages.Keeping(c.subject.folder, c.place(), env.ClusterRelease, address)
	if err != nil {
		return err
	}
	archive := filepath.Join(c.cluster.Dir, "certify.tar")
	if err := nodeimages.Join(others, tests, driver).Write(archive); err != nil {
		return err
	}
	return c.cluster.LoadImages(ctx, archive)
}

// startSnapshots makes the kinds of snapshots, and runs the controller that a cluster has for them.
func (c *certification) startSnapshots(ctx context.Context) error {
	binary, err := env.Binary("real/snapshot-controller")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(binary), "crds", "snapshot.storage.k8s.io_*.yaml"))
	if err != nil {
		return err
	}
	wait := []string{"wait", "--for=condition=Established", "--timeout=60s"}
	for _, file := range files {
		if err := c.cluster.ApplyFile(ctx, file); err != nil {
			return err
		}
		wait = append(wait, "-f="+file)
	}
	if _, err := c.cluster.Kubectl(ctx, wait...); err != nil {
		return err
	}
	c.snapshots, err = env.RunExactly(binary, []string{"--kubeconfig=" + c.kubeconfig}, nil)
	return err
}

func (c *certification) installPayload(ctx context.Context) error {
	if err := c.startSnapshots(ctx); err != nil {
		return err
	}
	if err := c.cluster.ApplyRelease(ctx, env.Release{Version: env.ClusterRelease}); err != nil {
		return err
	}
	return env.AwaitFor(ctx, soon, "ClusterOperator storage is healthy", func() error {
		return errors.Join(c.cluster.Reached(ctx, env.ClusterRelease), c.registered(ctx))
	})
}

// installEFS deploys the operator of the bundle, creates the ClusterCSIDriver, and makes the class that the manifest names.
func (c *certification) installEFS(ctx context.Context) error {
	if err := fakeolm.Deploy(ctx, c.cluster, env.OperatorNamespace); err != nil {
		return err
	}
	if err := c.cluster.Client.Create(ctx, env.EFS(operatorv1.Managed)); err != nil {
		return err
	}
	class := "storageclass.yaml"
	if c.zone != "" {
		class = "storageclass-one-zone.yaml"
	}
	if err := c.cluster.ApplyFile(ctx, filepath.Join(c.root, "test/e2e/storage", class)); err != nil {
		return err
	}
	return env.AwaitFor(ctx, soon, "the driver settles", func() error {
		return errors.Join(c.cluster.Settled(ctx), c.registered(ctx))
	})
}

// registered returns an error unless the kubelet knows a driver.
func (c *certification) registered(ctx context.Context) error {
	nodes := &storagev1.CSINodeList{}
	if err := c.cluster.Client.List(ctx, nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Drivers) > 0 {
			return nil
		}
	}
	return errors.New("the kubelet has registered no driver")
}

// show returns what the pods wait for.
func (c *certification) show(ctx context.Context) error {
	var found []error
	for _, args := range [][]string{{"get", "pods", "-A"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
		output, err := c.cluster.Kubectl(ctx, args...)
		found = append(found, errors.New(env.LastLines(output)), err)
	}
	return errors.Join(found...)
}

func (c *certification) stop() error {
	if c.cluster == nil {
		return nil
	}
	if c.snapshots != nil {
		_ = c.snapshots.Stop()
	}
	return c.cluster.Stop(context.Background())
}
