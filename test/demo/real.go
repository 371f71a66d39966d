package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeolm"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// fakeNodes is how many nodes a cluster has that are all fake.
const fakeNodes = 6

// chooseReal decides whether the nodes are real: as asked, or as the machine can. All of them are real, or none.
func (d *demo) chooseReal(ctx context.Context, asked string) error {
	if !slices.Contains([]string{"", "0", "1"}, asked) {
		return fmt.Errorf("-real is %q: it must be 0, 1 or empty", asked)
	}
	if asked == "0" {
		return nil
	}
	missing, err := d.missing(ctx)
	switch {
	case err != nil:
		return err
	case missing == "":
		d.real = true
		d.say("Pods are real. No cloud is there: a local folder takes the place of a file system, and docs/contribute/devcluster.md lists all stand-ins.")
	case asked == "1":
		return fmt.Errorf("-real 1: %s", missing)
	default:
		d.say("Pods are fake: %s", missing)
	}
	return nil
}

// missing says why the pods of the platform can't be real; empty if they can.
func (d *demo) missing(ctx context.Context) (string, error) {
	for _, entry := range catalogue.All() {
		if string(entry.Platform) == d.platform && (!entry.Builtin || hasCloud(d.platform)) {
			return "the cloud or the driver operators of " + d.platform + " are programs of this machine, which real pods can't reach", nil
		}
	}
	if folder := lacksForAzure(); d.platform == string(configv1.AzurePlatformType) && folder != "" {
		return "this machine has no " + folder + ", which the node pods of Azure mount", nil
	}
	missing, err := env.RealNodesMissing(ctx)
	return strings.TrimPrefix(missing, "devcluster: "), err
}

// lacksForAzure is a folder of the kernel that Azure's node pods mount and this machine lacks, so that its kubelet refuses them; else empty.
func lacksForAzure() string {
	for _, folder := range []string{"/sys/class/scsi_host", "/sys/bus/scsi/devices"} {
		if _, err := os.Stat(folder); err != nil {
			return folder
		}
	}
	return ""
}

// realNodes are the flags of a cluster whose nodes are all real.
func (d *demo) realNodes() []string { return []string{"--real-nodes", fmt.Sprint(d.nodes)} }

// loadImages gives the nodes images by the names that pods have for them.
func (d *demo) loadImages(ctx context.Context, images nodeimages.Images, err error) error {
	if err != nil {
		return fmt.Errorf("images for the nodes: %w", err)
	}
	folder, remove, err := env.Folder("csi-operators-demo-images-")
	if err != nil {
		return fmt.Errorf("folder for images: %w", err)
	}
	defer remove()
	archive := filepath.Join(folder, "images.tar")
	if err := images.Write(archive); err != nil {
		return fmt.Errorf("images for the nodes: %w", err)
	}
	d.say("Loading the images, built without a container engine, into the nodes.")
	return d.cluster.LoadImages(ctx, archive)
}

// deployEFS installs the operator as OLM does from its bundle, and waits until its pod is ready.
func (d *demo) deployEFS(ctx context.Context) error {
	images, err := nodeimages.Bundled()
	if err := d.loadImages(ctx, images, err); err != nil {
		return err
	}
	if err := d.cluster.StartAllNFS(ctx); err != nil {
		return err
	}
	d.say("Installing the operator from its bundle, as OLM does.")
	if err := fakeolm.Deploy(ctx, d.cluster, env.OperatorNamespace); err != nil {
		return fmt.Errorf("install the bundle: %w", err)
	}
	root, err := env.Root()
	if err != nil {
		return err
	}
	limits, err := filepath.Glob(filepath.Join(root, "config/limits/*.yaml"))
	if err != nil || len(limits) == 0 {
		return fmt.Errorf("no manifests in config/limits (%w)", err)
	}
	for _, file := range limits {
		if err := d.cluster.ApplyFile(ctx, file); err != nil {
			return err
		}
	}
	return env.Await(ctx, "operator ready", func() error {
		deployment := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: env.OperatorNamespace, Name: env.OperatorName}
		if err := d.cluster.Client.Get(ctx, key, deployment); err != nil {
			return fmt.Errorf("read the operator's Deployment: %w", err)
		}
		if deployment.Status.ReadyReplicas == 0 {
			return errors.New("no pod of the operator is ready")
		}
		return nil
	})
}
