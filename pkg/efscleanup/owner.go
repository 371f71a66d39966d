package efscleanup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

const (
	// clusterTagPrefix is the beginning of the key of the tag that installers and drivers set on a cluster's objects. The rest of the key is the
	// infrastructure ID.
	clusterTagPrefix = "kubernetes.io/cluster/"
	owned            = "owned"
	// ownerTag is the key of a tag with which administrators can mark file systems. Such a file system is deleted with the cluster.
	ownerTag = "owner"
	// MarkerTag is the key of a tag that "efs create" sets on its objects. The tag's value is the name of the share.
	MarkerTag = "csi-operators/efs-create"
)

// ClusterTag returns the key of the tag on a cluster's objects. The tag's value is "owned" if the cluster owns the object.
func ClusterTag(infraID string) string { return clusterTagPrefix + infraID }

// CreationToken returns the token of the file system that "efs create" creates for a share. AWS never changes the token of a file system, and
// no other file system of the account has it. Two shares never have the same token, because neither the infrastructure ID nor the name contains a
// slash.
func CreationToken(infraID, share string) string { return infraID + "/" + share }

// GroupName returns the name of the security group that "efs create" creates for a share. AWS refuses names that begin with sg-, so the name has a
// prefix. AWS never changes the name of a security group.
func GroupName(infraID, share string) string { return "efs/" + CreationToken(infraID, share) }

// owner recognizes the objects of a cluster by their tags. It compares whole keys, so an ID never matches a longer ID.
type owner struct {
	infraID  string
	ownerTag bool
}

func (o owner) owns(tags aws.Tags) bool {
	if value, tagged := tags[ClusterTag(o.infraID)]; tagged {
		// "shared" objects stay when the cluster is deleted, even if they have the owner tag.
		return value == owned
	}
	return o.ownerTag && tags[ownerTag] == o.infraID
}

// problem returns why Run must not delete an object. If Run may delete the object, the result is empty.
func (o owner) problem(tags aws.Tags) string {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if strings.HasPrefix(key, clusterTagPrefix) && key != ClusterTag(o.infraID) {
			return fmt.Sprintf("it has the tag %s=%s of another cluster", key, tags[key])
		}
	}
	if !o.owns(tags) {
		return fmt.Sprintf("it does not have the tag %s=%s", ClusterTag(o.infraID), owned)
	}
	return ""
}

// problemOf does the same as problem for a file system. It also checks the access points of the file system, which a deletion would affect.
func (o owner) problemOf(fileSystem aws.FileSystem, points []aws.AccessPoint) string {
	if problem := o.problem(fileSystem.Tags); problem != "" {
		return problem
	}
	for _, point := range points {
		if point.FileSystem != fileSystem.ID || gone(point.State) {
			continue
		}
		if problem := o.problem(point.Tags); problem != "" {
			return holds(point.ID, problem)
		}
	}
	return ""
}

func holds(accessPoint, problem string) string {
	return fmt.Sprintf("it contains access point %s, which must not be deleted: %s", accessPoint, problem)
}

// gone reports whether the state of an object, which AWS still lists, is deleting or deleted.
func gone(state string) bool { return state == aws.StateDeleting || state == aws.StateDeleted }

// outside returns a problem if an object is not in the given account and region. Every ARN of EFS contains both, so an ARN that can't be parsed
// is also a problem.
func outside(arn, account, region string) string {
	parts := strings.SplitN(arn, ":", 6)
	switch {
	case len(parts) != 6 || parts[0] != "arn" || parts[5] == "":
		return fmt.Sprintf("AWS answers with the ARN %q, which names neither region nor account: check the endpoint in the AWS configuration", arn)
	case parts[3] != region || parts[4] != account:
		return fmt.Sprintf("AWS answers with %s, which is not in region %s of account %s: check the endpoint in the AWS configuration",
			arn, region, account)
	default:
		return ""
	}
}

// Refusal returns why an object with these tags must not be deleted with the cluster. If it may be deleted, the result is empty.
func Refusal(infraID string, tags map[string]string) string {
	return owner{infraID: infraID}.problem(tags)
}
