package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// shareName and oneZoneName are what "oc storage efs create" calls the file systems.
const shareName, oneZoneName = "csi-operators-prove", "csi-operators-prove-one-zone"

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
	if err := p.createClass(ctx, class); err != nil {
		return share{}, "", err
	}
	return made, fmt.Sprintf("oc storage efs create: a file system, its mount targets (%d), and StorageClass %s", len(made.MountTargets), made.class), nil
}

// createClass creates the StorageClass of a file. Its label tells the clean-up that it is of this program.
func (p *proof) createClass(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	class := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &class.Object); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	class.SetLabels(map[string]string{managedBy: manager})
	if text, err = json.Marshal(class); err != nil {
		return err
	}
	return p.create(ctx, string(text))
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
		// No other access point of the account in the region may have this token (github.com/kubernetes-sigs/aws-efs-csi-driver, pull request 1725).
		ClientToken: &p.id, FileSystemId: &p.share.FileSystem,
		PosixUser:     &efstypes.PosixUser{Uid: aws.Int64(user), Gid: aws.Int64(user)},
		RootDirectory: &efstypes.RootDirectory{Path: aws.String("/shared"), CreationInfo: &owner},
		Tags:          []efstypes.Tag{{Key: aws.String(efscleanup.ClusterTag(p.facts.infraID)), Value: aws.String("owned")}},
	})
	// If an answer is lost, the client repeats the request, and AWS refuses to make another one (github.com/aws/aws-sdk, issue 163).
	if exists := new(efstypes.AccessPointAlreadyExists); errors.As(err, &exists) && exists.AccessPointId != nil {
		return *exists.AccessPointId, nil
	}
	if err != nil {
		return "", err
	}
	return *made.AccessPointId, nil
}

// listShare lists what AWS has of a share, and changes nothing.
func (p *proof) listShare(ctx context.Context, name string) (efscleanup.Report, error) {
	return efscleanup.Run(ctx, efscleanup.Options{InfraID: p.facts.infraID, Account: p.account, Region: p.facts.region, Share: name})
}

// deleteShares deletes in AWS what this program has made there, also in an earlier run. Without the Namespace, only the names of the shares say that
// they are of this program. Then a person has to ask for their deletion.
func (p *proof) deleteShares(ctx context.Context, hasNamespace bool) (string, error) {
	var names, objects, fileSystems []string
	for _, name := range []string{shareName, oneZoneName} {
		report, err := p.list(ctx, name)
		if err != nil {
			return "", err
		}
		if len(report.Objects) == 0 {
			continue
		}
		names = append(names, name)
		for _, one := range report.Objects {
			objects = append(objects, one.ID)
			if one.Kind == efscleanup.FileSystem {
				fileSystems = append(fileSystems, one.ID)
			}
		}
	}
	what := strings.Join(objects, ", ")
	switch {
	case len(names) > 0 && !hasNamespace && !p.cleanOnly:
		return "", fmt.Errorf("AWS has %s with the names of this program, but the cluster has no namespace %s, in which a run notes that it creates them: "+
			"delete them with CLEAN=1, unless they are in use", what, space)
	case len(names) > 0 && !hasNamespace:
		p.say("Deleting in AWS, by the names: %s.", what)
	}
	users, err := p.awaitUsers(ctx, func() (*users, error) { return p.usersOf(ctx, fileSystems) })
	if err != nil {
		return "", err
	}
	if len(users) > 0 {
		return "", fmt.Errorf("nothing was deleted in AWS, because the cluster uses %s: %s. Delete these, and run this command again with CLEAN=1",
			strings.Join(fileSystems, ", "), strings.Join(users, ", "))
	}
	var problems []error
	for _, name := range names {
		_, err := p.oc(ctx, append(p.efsArgs(name), "--delete", "--wait", "--timeout", p.patience.String())...)
		problems = append(problems, err)
	}
	return "AWS lists none of the file systems, mount targets, access points and security groups", errors.Join(problems...)
}
