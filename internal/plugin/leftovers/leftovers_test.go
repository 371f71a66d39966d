package leftovers

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

const (
	account = "123456789012"
	infra   = "dev-x7k2p"
)

// cannedCloud is a fake EFS with access points.
type cannedCloud struct {
	account string
	points  []aws.AccessPoint
	now     map[string]aws.AccessPoint
	deleted []string
	broken  error
}

// Identity returns the fake's identity.
func (c *cannedCloud) Identity(context.Context) (aws.Identity, error) {
	return aws.Identity{Account: c.account, ARN: "arn"}, nil
}

// AccessPoints returns the fake's access points.
func (c *cannedCloud) AccessPoints(context.Context, string) ([]aws.AccessPoint, error) {
	return c.points, c.broken
}

// AccessPoint returns the current access point.
func (c *cannedCloud) AccessPoint(_ context.Context, id string) (aws.AccessPoint, error) {
	return c.now[id], c.broken
}

// DeleteAccessPoint records the deletion.
func (c *cannedCloud) DeleteAccessPoint(_ context.Context, id string) error {
	c.deleted = append(c.deleted, id)
	return nil
}

func tags(more ...string) aws.Tags {
	made := aws.Tags{driver.ClusterTag(infra): "owned", awsefs.DriverTag: "true"}
	for _, key := range more {
		made[key] = "owned"
	}
	return made
}

func point(id string, tags aws.Tags) aws.AccessPoint {
	return aws.AccessPoint{ID: id, FileSystem: "fs-1234cdef", State: "available", Tags: tags}
}

func newCloud() *cannedCloud {
	free, kept := point("fsap-aaaaaaaa", tags()), point("fsap-bbbbbbbb", tags())
	byHand := tags()
	delete(byHand, awsefs.DriverTag)
	gone := point("fsap-99999999", tags())
	gone.State = aws.StateDeleting
	return &cannedCloud{account: account, now: map[string]aws.AccessPoint{free.ID: free, kept.ID: kept}, points: []aws.AccessPoint{
		free, kept, gone, point("fsap-01234567", tags()), point("fsap-cccccccc", tags("kubernetes.io/cluster/other-a1b2c")),
		point("fsap-dddddddd", nil), point("fsap-eeeeeeee", byHand), point("fsap-76543210", tags()),
	}}
}

func pv(name, driver string, phase corev1.PersistentVolumePhase, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	made.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "fs-1234cdef::fsap-01234567"}
	made.Spec.PersistentVolumeReclaimPolicy, made.Status.Phase = policy, phase
	made.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "my-project", Name: "data"}
	return made
}

func objects() []client.Object {
	aws := &configv1.AWSPlatformStatus{Region: "us-east-1"}
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.InfrastructureStatus{
		InfrastructureName: infra, PlatformStatus: &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: aws},
	}}
	share := &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "sv1"}}
	share.Spec.AccessPointID = "fsap-76543210"
	return []client.Object{
		infrastructure, share,
		pv("released", "efs.csi.aws.com", corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain),
		pv("failed", "ebs.csi.aws.com", corev1.VolumeFailed, corev1.PersistentVolumeReclaimRetain),
		pv("going", "ebs.csi.aws.com", corev1.VolumeReleased, corev1.PersistentVolumeReclaimDelete),
		pv("bound", "efs.csi.aws.com", corev1.VolumeBound, corev1.PersistentVolumeReclaimRetain),
		pv("third-party", "nfs.example.com", corev1.VolumeReleased, corev1.PersistentVolumeReclaimRetain),
	}
}

func with(cloudOf *cannedCloud, left []migration.PlannedObject, problem error) func(*plugin.Plugin) *cobra.Command {
	return func(p *plugin.Plugin) *cobra.Command {
		return command(p, sources{
			connect: func(context.Context, string) (cloud, error) { return cloudOf, nil },
			predecessors: func(context.Context, *plugin.Cluster) ([]migration.PlannedObject, error) {
				return left, problem
			},
		})
	}
}

func TestWhatIsLeftIsListedAndNothingIsChanged(t *testing.T) {
	cluster, aws := plugintest.Cluster(t, objects()...), newCloud()
	left := []migration.PlannedObject{{Kind: "ServiceAccount", Namespace: "drivers", Name: "efs-csi-sa"}}
	golden.CompareText(t, "list.txt", plugintest.Run(t, cluster, "", with(aws, left, nil), "leftovers", "--account", account).Text())
	golden.CompareText(t, "list.json", plugintest.Run(t, cluster, "", with(aws, left, nil), "leftovers", "--account", account, "-o", "json").Text())
	golden.CompareText(t, "list-cluster.txt", plugintest.Run(t, cluster, "", with(aws, nil, errors.New("no right")), "leftovers").Text())
	golden.CompareText(t, "list-nothing.txt", plugintest.Run(t, plugintest.Cluster(t), "", with(aws, nil, nil), "leftovers").Text())
	if len(cluster.Writes) > 0 || len(aws.deleted) > 0 {
		t.Errorf("it writes %q and deletes %q", cluster.Writes, aws.deleted)
	}
}

// While EFS creates an access point, no volume names it yet.
func TestAnAccessPointStaysWhileAClaimWaits(t *testing.T) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: awsefs.Name}
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new"}}
	pvc.Spec.StorageClassName, pvc.Status.Phase = new("efs-sc"), corev1.ClaimPending
	plan := planOf(seen{
		infraID: infra, points: []aws.AccessPoint{point("fsap-aaaaaaaa", tags())}, classes: []storagev1.StorageClass{*class},
		pvcs: []corev1.PersistentVolumeClaim{*pvc},
	})
	want := "PersistentVolumeClaim a/new waits for a volume, and may get this one"
	if len(plan.Items) != 1 || plan.Items[0].Kept != want || len(plan.deletable()) > 0 {
		t.Errorf("%+v", plan)
	}
}

func TestWhatIsListedIsDeletedAfterOneQuestion(t *testing.T) {
	cluster, cloud := plugintest.Cluster(t, objects()...), newCloud()
	line := []string{"leftovers", "--delete", "--account", account}
	golden.CompareText(t, "delete-no.txt", plugintest.Run(t, cluster, "no\n", with(cloud, nil, nil), line...).Text())
	if len(cluster.Writes) > 0 || len(cloud.deleted) > 0 {
		t.Errorf("without a yes it writes %q and deletes %q", cluster.Writes, cloud.deleted)
	}
	// It has another owner by now.
	cloud.now["fsap-bbbbbbbb"] = point("fsap-bbbbbbbb", tags("kubernetes.io/cluster/other-a1b2c"))
	golden.CompareText(t, "delete.txt", plugintest.Run(t, cluster, "yes\n", with(cloud, nil, nil), line...).Text())
	if diff := cmp.Diff([]string{"delete PersistentVolume failed", "delete PersistentVolume released"}, cluster.Writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"fsap-aaaaaaaa"}, cloud.deleted); diff != "" {
		t.Errorf("access points (-want +got):\n%s", diff)
	}
}

func TestWhatHasChangedSinceItWasListedStays(t *testing.T) {
	again := pv("released", "efs.csi.aws.com", corev1.VolumeBound, corev1.PersistentVolumeReclaimRetain)
	cluster := plugintest.Cluster(t, again)
	d := deleter{cluster: cluster, drivers: map[string]bool{"efs.csi.aws.com": true}}
	d.used = func(context.Context) (map[string]bool, error) { return nil, nil }
	err := d.one(t.Context(), Item{Kind: persistentVolume, Name: "released", uid: "released"}, nil, nil)
	if err == nil || err.Error() != "kept, because it changed after it was listed: run the command again" || len(cluster.Writes) > 0 {
		t.Errorf("%v, %q", err, cluster.Writes)
	}
	if err := d.one(t.Context(), Item{Kind: persistentVolume, Name: "gone"}, nil, nil); err != nil {
		t.Errorf("what is gone is no failure: %v", err)
	}
	waits := errors.New("it stays: a claim waits")
	if err := d.one(t.Context(), Item{Kind: accessPoint, Name: "fsap-1"}, nil, waits); !errors.Is(err, waits) {
		t.Error(err)
	}
	err = d.one(t.Context(), Item{Kind: accessPoint, Name: "fsap-1"}, map[string]bool{"fsap-1": true}, nil)
	if err == nil || err.Error() != "kept, because it came into use after it was listed" {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	deleted, err := d.all(ended, []Item{{Kind: persistentVolume, Name: "released"}}, plugintest.Plugin(t, cluster, "").Progress())
	if deleted != 0 || err == nil || err.Error() != "interrupted after 0 of 1 deletions: run the command again" {
		t.Errorf("%d, %v", deleted, err)
	}
}

func TestNothingIsDeletedByWhoMayNotSeeEverything(t *testing.T) {
	cluster := plugintest.Cluster(t, objects()...)
	cluster.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "sharedvolumes"}, "", errors.New("no right")), "list SharedVolume")
	golden.CompareText(t, "delete-no-right.txt", plugintest.Run(t, cluster, "", with(newCloud(), nil, nil), "leftovers", "--delete", "--yes").Text())
	if len(cluster.Writes) > 0 {
		t.Errorf("it writes %q", cluster.Writes)
	}
}

func TestNothingSeenIsNotNothingLeft(t *testing.T) {
	cluster := plugintest.Cluster(t)
	cluster.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, "", errors.New("no right")), "list PersistentVolume")
	golden.CompareText(t, "list-blind.txt", plugintest.Run(t, cluster, "", with(newCloud(), nil, nil), "leftovers").Text())
}

func TestAWSIsAskedOnlyForTheRightAccount(t *testing.T) {
	other, broken := newCloud(), newCloud()
	other.account, broken.broken = "210987654321", errors.New("throttled")
	cluster := plugintest.Cluster(t, objects()...)
	for want, tc := range map[string]struct {
		objects []client.Object
		cloud   *cannedCloud
		line    []string
		code    int
	}{
		"--yes needs --delete: without --delete, the command does not ask":                                   {objects(), other, []string{"--yes"}, 2},
		"the credentials (arn) belong to AWS account 210987654321, not to 123456789012: nothing was changed": {objects(), other, []string{"--account", account}, 2},
		`AWS account "1": an account has 12 digits`:                                                          {objects(), other, []string{"--account", "1"}, 2},
		"list access points: throttled":                                                                      {objects(), broken, []string{"--account", account}, 1},
		"--account 123456789012: Infrastructure cluster does not say that this cluster is on AWS":            {nil, other, []string{"--account", account}, 2},
	} {
		cluster.Objects = tc.objects
		got := plugintest.Run(t, cluster, "", with(tc.cloud, nil, nil), append([]string{"leftovers"}, tc.line...)...)
		if got.Err == nil || got.Err.Error() != want || got.Code != tc.code {
			t.Errorf("%q: %s", tc.line, got.Text())
		}
	}
}
