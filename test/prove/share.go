package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// shareName and oneZoneName are what "oc storage efs create" calls the file systems.
const shareName, oneZoneName = "prove", "prove-one-zone"

// share is a file system of this program, with its StorageClass in the cluster. Without a file system it is empty.
type share struct {
	create.Share
	class, manifest string
}

func (p *proof) makeShare(ctx context.Context) (seen string, err error) {
	p.share, seen, err = p.efsCreate(ctx, shareName)
	return seen, err
}

func (p *proof) makeOneZone(ctx context.Context) (seen string, err error) {
	if p.zone == "" {
		return "", skip("no node has a label with its zone")
	}
	p.oneZone, seen, err = p.efsCreate(ctx, oneZoneName, "--zone", p.zone)
	return seen, err
}

// efsArgs are the arguments of "oc storage efs create" that name the cluster and the file system.
func (p *proof) efsArgs(name string) []string {
	return []string{"storage", "efs", "create", "--infra-id", p.facts.infraID, "--account", p.account, "--region", p.facts.region, "--name", name}
}

func (p *proof) efsCreate(ctx context.Context, name string, more ...string) (share, string, error) {
	made := share{manifest: p.file(name + "-manifest.yaml")}
	class := p.file(name + "-class.yaml")
	args := append(p.efsArgs(name), "--storage-class", class, "--manifest", made.manifest, "-o", "json")
	text, err := p.oc(ctx, append(args, more...)...)
	if err != nil {
		return share{}, "", err
	}
	if err := json.Unmarshal([]byte(text), &made.Share); err != nil {
		return share{}, "", fmt.Errorf("oc storage efs create: %w", err)
	}
	made.class = made.StorageClassName()
	if _, err := p.oc(ctx, "apply", "-f", class); err != nil {
		return share{}, "", err
	}
	return made, fmt.Sprintf("oc storage efs create: a file system with %d mount targets, and StorageClass %s", len(made.MountTargets), made.class), nil
}

// accessPoint makes one for SharedVolumes. The deletion of the share deletes it, by its tag.
func (p *proof) accessPoint(ctx context.Context) (string, error) {
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(p.facts.region))
	if err != nil {
		return "", err
	}
	const user = 1000
	owner := efstypes.CreationInfo{OwnerUid: aws.Int64(user), OwnerGid: aws.Int64(user), Permissions: aws.String("0755")}
	made, err := efs.NewFromConfig(settings).CreateAccessPoint(ctx, &efs.CreateAccessPointInput{
		// AWS makes one only, even if an answer is lost.
		ClientToken: aws.String(shareName), FileSystemId: &p.share.FileSystem,
		PosixUser:     &efstypes.PosixUser{Uid: aws.Int64(user), Gid: aws.Int64(user)},
		RootDirectory: &efstypes.RootDirectory{Path: aws.String("/shared"), CreationInfo: &owner},
		Tags:          []efstypes.Tag{{Key: aws.String(efscleanup.ClusterTag(p.facts.infraID)), Value: aws.String("owned")}},
	})
	if err != nil {
		return "", err
	}
	return *made.AccessPointId, nil
}

// deleteShares deletes in AWS what this program has made there, also in an earlier run.
func (p *proof) deleteShares(ctx context.Context) (string, error) {
	var problems []error
	for _, name := range []string{shareName, oneZoneName} {
		_, err := p.oc(ctx, append(p.efsArgs(name), "--delete", "--wait", "--timeout", p.patience.String())...)
		problems = append(problems, err)
	}
	return "AWS lists no file system, mount target, access point and security group of these runs", errors.Join(problems...)
}
