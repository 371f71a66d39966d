package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
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
	users, err := p.usersOf(ctx, fileSystems)
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

// usersOf returns the PersistentVolumes of file systems that belong to PVCs of others or to none, and the pods of this program that may still have one mounted.
func (p *proof) usersOf(ctx context.Context, fileSystems []string) ([]string, error) {
	if len(fileSystems) == 0 {
		return nil, nil
	}
	volumes := &corev1.PersistentVolumeList{}
	if _, err := p.get(ctx, volumes, "persistentvolumes"); err != nil {
		return nil, err
	}
	var users []string
	own := map[client.ObjectKey]bool{}
	for i := range volumes.Items {
		one, claim := &volumes.Items[i], volumes.Items[i].Spec.ClaimRef
		if !slices.ContainsFunc(fileSystems, func(id string) bool { return isOn(one, id) }) {
			continue
		}
		if user := userOf(one); user != "" {
			users = append(users, user)
			continue
		}
		own[client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}] = true
	}
	pods := &corev1.PodList{}
	if _, err := p.get(ctx, pods, "-n", space, "pods"); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; volume.UsesVolumes(pod) && len(volume.Among(own, pod)) > 0 {
			users = append(users, fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name))
		}
	}
	return users, nil
}

// userOf names a PersistentVolume and its PVC, unless that is a PVC of this program.
func userOf(one *corev1.PersistentVolume) string {
	switch claim := one.Spec.ClaimRef; {
	case claim == nil:
		return "PersistentVolume " + one.Name
	case claim.Namespace != space:
		return fmt.Sprintf("PersistentVolume %s of PVC %s/%s", one.Name, claim.Namespace, claim.Name)
	}
	return ""
}

// isOn reports whether a PersistentVolume is on a file system: by the driver, or as NFS by the name of the file system in DNS.
func isOn(one *corev1.PersistentVolume, fileSystem string) bool {
	if one.Spec.NFS != nil {
		// The name of a zone may come before it.
		return slices.Contains(strings.Split(one.Spec.NFS.Server, "."), fileSystem)
	}
	if volume.DriverOf(one) != awsefs.Name {
		return false
	}
	// A handle is the ID of the file system, and then perhaps a path and an access point after colons.
	id, _, _ := strings.Cut(one.Spec.CSI.VolumeHandle, ":")
	return id == fileSystem
}
