package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// pointsInEach is how many access points a file system has: half of what AWS allowed for long.
const pointsInEach = 500

// cloud is the stand-in for AWS with file systems, each mountable in all zones, and their access points.
type cloud struct {
	proxy  *fakeaws.Proxy
	points []point
	stop   func()

	// seen is how many requests there were when the operator last had sent one, as far as anybody has looked.
	seen int
	last time.Time
}

// point is an access point, by the IDs that a volume names.
type point struct{ fileSystem, accessPoint string }

// startCloud makes one with so many access points. The caller calls stop.
func startCloud(ctx context.Context, count int) (*cloud, error) {
	say("starting the stand-in for AWS, with %d access points", count)
	endpoint, stopMoto, err := fakeaws.Serve()
	if err != nil {
		return nil, err
	}
	proxy, stopProxy, err := fakeaws.Open(endpoint)
	if err != nil {
		stopMoto()
		return nil, err
	}
	made := &cloud{proxy: proxy, points: make([]point, count), stop: func() { stopProxy(); stopMoto() }}
	if err := made.fill(ctx, endpoint); err != nil {
		made.stop()
		return nil, fmt.Errorf("fill the stand-in for AWS: %w", err)
	}
	return made, nil
}

// fill asks moto itself: the proxy would count it.
func (c *cloud) fill(ctx context.Context, endpoint string) error {
	config := sdk.Config{
		Region: fakeaws.Region, BaseEndpoint: &endpoint, Credentials: fakeaws.Key(),
	}
	files, network := efs.NewFromConfig(config), ec2.NewFromConfig(config)
	subnets, err := network.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		Filters: []ec2types.Filter{{Name: sdk.String("default-for-az"), Values: []string{"true"}}},
	})
	if err != nil {
		return err
	}
	if len(subnets.Subnets) == 0 {
		return errors.New("it has no subnets of its own")
	}
	systems := make([]string, (len(c.points)+pointsInEach-1)/pointsInEach)
	for i := range systems {
		if systems[i], err = makeFileSystem(ctx, files, subnets.Subnets); err != nil {
			return err
		}
	}
	return inParallel(len(c.points), func(number int) error {
		system := systems[number%len(systems)]
		made, err := files.CreateAccessPoint(ctx, &efs.CreateAccessPointInput{
			ClientToken: sdk.String(fmt.Sprint("point-", number)), FileSystemId: &system,
		})
		if err == nil {
			c.points[number] = point{system, *made.AccessPointId}
		}
		return err
	})
}

func makeFileSystem(ctx context.Context, files *efs.Client, subnets []ec2types.Subnet) (string, error) {
	made, err := files.CreateFileSystem(ctx, &efs.CreateFileSystemInput{})
	if err != nil {
		return "", err
	}
	for _, subnet := range subnets {
		_, err := files.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: made.FileSystemId, SubnetId: subnet.SubnetId})
		if err != nil {
			return "", err
		}
	}
	return *made.FileSystemId, nil
}

// inEFS is a volume as the driver's provisioner makes it.
func (c *cloud) inEFS(number int) *corev1.PersistentVolume {
	fileSystem, accessPoint := c.ids(number)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pvc-%08x-0000-4000-8000-000000000000", number), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": env.EFS("").Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              "efs-sc",
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: env.EFS("").Name, VolumeHandle: fileSystem + "::" + accessPoint,
			}},
		},
	}
}

// asked is how many requests were sent to AWS.
func (c *cloud) asked() int {
	if c == nil {
		return 0
	}
	return len(c.proxy.Calls())
}

// silent reports whether nobody has asked AWS for so long.
func (c *cloud) silent(quiet time.Duration) bool {
	if now := c.asked(); c != nil && now != c.seen {
		c.seen, c.last = now, time.Now()
	}
	return c == nil || time.Since(c.last) > quiet
}

// ids are those of a file system and an access point: of AWS, if there is one, else of one that nobody has.
func (c *cloud) ids(number int) (fileSystem, accessPoint string) {
	if c == nil {
		return shareIDs(number)
	}
	at := c.points[number%len(c.points)]
	return at.fileSystem, at.accessPoint
}
