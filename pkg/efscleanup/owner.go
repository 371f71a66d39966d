package efscleanup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

const (
	// clusterTagPrefix begins the tag that installers and drivers put on what a cluster uses; the infrastructure ID follows.
	clusterTagPrefix = "kubernetes.io/cluster/"
	owned            = "owned"
	// ownerTag is what administrators may put on file systems that shall go with the cluster.
	ownerTag = "owner"
	// MarkerTag is on what "efs create" has made; its value is the name of the share.
	MarkerTag = "csi-operators/efs-create"
)

// ClusterTag is the key of the tag that has the value "owned" on what belongs to a cluster.
func ClusterTag(infraID string) string { return clusterTagPrefix + infraID }

// owner finds by tags whose an object is. Keys are compared as a whole, so that no ID is found in a longer one.
type owner struct {
	infraID  string
	ownerTag bool
}

func (o owner) owns(tags aws.Tags) bool {
	if value, tagged := tags[ClusterTag(o.infraID)]; tagged {
		// "shared" is what the cluster uses and leaves behind, whatever another tag says.
		return value == owned
	}
	return o.ownerTag && tags[ownerTag] == o.infraID
}

// problem says why an object may not be touched; empty if it may.
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

// problemOf is problem for a file system, which takes all of its access points with it.
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

// gone is true for the states in which AWS still lists what nobody can use any more.
func gone(state string) bool { return state == aws.StateDeleting || state == aws.StateDeleted }

// outside says that an object is in another account or region than the one that was named; empty if it is not. Every ARN has both: one that can't
// be read is no proof of the place.
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

// Refusal says why an object with these tags may not be deleted for a cluster; empty if it may.
func Refusal(infraID string, tags map[string]string) string {
	return owner{infraID: infraID}.problem(tags)
}
