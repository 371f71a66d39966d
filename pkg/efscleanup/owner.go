package efscleanup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

const (
	// clusterTagPrefix and the infrastructure ID are the key of the tag that installers and drivers set on a cluster's objects.
	clusterTagPrefix = "kubernetes.io/cluster/"
	owned            = "owned"
	// ownerTag is a tag by which administrators may mark file systems for deletion with the cluster.
	ownerTag = "owner"
	// MarkerTag is the tag of objects from "efs create"; its value is the name of the share.
	MarkerTag = "csi-operators/efs-create"
)

// ClusterTag returns the key of the tag that marks the objects of a cluster, with value "owned".
func ClusterTag(infraID string) string { return clusterTagPrefix + infraID }

// owner identifies the objects of a cluster by their tags. It compares whole keys, so that an ID never matches a longer one.
type owner struct {
	infraID  string
	ownerTag bool
}

func (o owner) owns(tags aws.Tags) bool {
	if value, tagged := tags[ClusterTag(o.infraID)]; tagged {
		// "shared" objects outlive the cluster, even with the owner tag.
		return value == owned
	}
	return o.ownerTag && tags[ownerTag] == o.infraID
}

// problem returns why an object may not be deleted; empty if it may.
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

// problemOf is problem for a file system, whose deletion affects all of its access points.
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
	return fmt.Sprintf("it contains access point %s, which may not be deleted: %s", accessPoint, problem)
}

// gone reports whether AWS has deleted, or is deleting, an object that it still lists.
func gone(state string) bool { return state == aws.StateDeleting || state == aws.StateDeleted }

// outside returns a problem if an object is not in the given account and region. Every ARN of EFS has both, so an unreadable one is a problem, too.
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

// Refusal returns why an object with these tags may not be deleted for a cluster; empty if it may.
func Refusal(infraID string, tags map[string]string) string {
	return owner{infraID: infraID}.problem(tags)
}
