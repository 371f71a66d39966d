package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

// On a real node all steps are taken. The repository's test driver stands in for the EFS driver: it keeps what pods write, and asks no AWS. It has a volume
// for each access point that a SharedVolume names.
func TestTheProofUsesVolumesOnARealNode(t *testing.T) {
	a := onRealNode(t)
	report := a.run(t, "-older", olderImage, "-image", env.WriterImage,
		"-tests", "oc get pods -n csi-operators-prove -o name")
	t.Log(report)
	for _, want := range []string{
		"| A volume of each mode | passed |", "a pod has written to its PVC and read |", "ReadWriteMany of efs-csi-operators-prove-one-zone |", "| New node pods under a pod that writes | passed |",
		"| Upgrade | passed |", "None is missing, and the longest pause was", "| Tests | passed |", "| Removal of the rest | passed |",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	a.nothingLeft(t)
}

// onRealNode is the account of a cluster with one real node, which has the images of loadImages and further ones. Only make soak starts it.
func onRealNode(t *testing.T, further ...func(*testing.T) nodeimages.Images) *account {
	t.Helper()
	env.OnlySoak(t)
	missing, err := env.RealNodesMissing(t.Context())
	env.Must(t, err)
	if missing != "" {
		t.Skip(missing)
	}
	a := open(t, "--topology", "SingleReplica", "--real-nodes", "1")
	var images []nodeimages.Images
	for _, some := range further {
		images = append(images, some(t))
	}
	env.Must(t, a.loadImages(t.Context(), t.TempDir(), images...))
	return a
}

// loadImages gives the node the images of both releases, and of the driver that keeps what pods write.
func (a *account) loadImages(ctx context.Context, folder string, further ...nodeimages.Images) error {
	nodes := &corev1.NodeList{}
	if err := a.cluster.Client.List(ctx, nodes); err != nil {
		return err
	}
	if len(nodes.Items) != 1 {
		return fmt.Errorf("the cluster has %d nodes, want 1", len(nodes.Items))
	}
	address := ""
	for _, one := range nodes.Items[0].Status.Addresses {
		if one.Type == corev1.NodeInternalIP {
			// No pod of the product has this port.
			address = net.JoinHostPort(one.Address, "19809")
		}
	}
	images, err := nodeimages.Bundled()
	if err != nil {
		return err
	}
	driver, err := nodeimages.Keeping("awsefs", nodes.Items[0].Labels[corev1.LabelTopologyZone], env.ClusterRelease, address)
	if err != nil {
		return err
	}
	images = nodeimages.Join(append(further, images, driver)...)
	current, older, err := releases()
	if err != nil {
		return err
	}
	for i := range older.Images {
		if made := images[current.Images[i].PullSpec()]; made != nil {
			images[older.Images[i].PullSpec()] = made
		}
	}
	archive := filepath.Join(folder, "images.tar")
	if err := images.Write(archive); err != nil {
		return err
	}
	return errors.Join(a.cluster.LoadImages(ctx, archive), os.Remove(archive))
}
