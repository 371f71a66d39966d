package awsefs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// DriverTag is what the driver puts on every access point; IAM policies rely on it.
const DriverTag = "efs.csi.aws.com/cluster"

// flagTags is the value of the driver's flag --tags: key:value, separated by spaces, sorted. The tag with the cluster's ID lets
// what the driver made be found when the cluster is destroyed (seed "Container Storage Interface Driver", Cluster Un-installation).
func flagTags(cfg driver.Config) string {
	tags := AccessPointTags(cfg.InfrastructureID, cfg.ResourceTags)
	if cfg.InfrastructureID != "" {
		tags[ClusterTag(cfg.InfrastructureID)] = "owned"
	}
	escape := strings.NewReplacer(":", `\:`)
	list := make([]string, 0, len(tags))
	for key, value := range tags {
		list = append(list, escape.Replace(key)+":"+escape.Replace(value))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// AccessPointTags are the resource tags of the Infrastructure that access points can have.
func AccessPointTags(infraID string, wanted []configv1.AWSResourceTag) map[string]string {
	tags := map[string]string{}
	for _, tag := range wanted {
		if refusedTag(infraID, tag) == "" {
			tags[tag.Key] = tag.Value
		}
	}
	return tags
}

// ClusterTag is the key of the tag with which the driver says that this cluster has made an access point; its value is "owned".
func ClusterTag(infraID string) string { return "kubernetes.io/cluster/" + infraID }

// check lists what the driver can't follow: FIPS endpoints that AWS lacks, and resource tags that can't be put on access points.
func check(cfg driver.Config) []string {
	var problems []string
	if _, refused := UsesFIPSEndpoints(cfg); refused != "" {
		problems = append(problems, refused)
	}
	if id := cfg.Settings[iamClusterID]; id != "" && cfg.InfrastructureID != "" && id != cfg.InfrastructureID {
		problems = append(problems, fmt.Sprintf("%s=%s is not followed: the Infrastructure cluster has infrastructureName %s",
			iamClusterID, id, cfg.InfrastructureID))
	}
	for _, tag := range cfg.ResourceTags {
		if why := refusedTag(cfg.InfrastructureID, tag); why != "" {
			problems = append(problems, fmt.Sprintf("resource tag %q=%q of the Infrastructure cluster is not put on access points: %s",
				tag.Key, tag.Value, why))
		}
	}
	slices.Sort(problems)
	return problems
}

// refusedTag says why a tag can't be used, or nothing. One wrong tag would make every volume fail.
func refusedTag(infraID string, tag configv1.AWSResourceTag) string {
	// The limits and characters of EFS, https://docs.aws.amazon.com/efs/latest/ug/API_Tag.html.
	allowed := regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)
	switch {
	case tag.Key == "" || utf8.RuneCountInString(tag.Key) > 128 || utf8.RuneCountInString(tag.Value) > 256:
		return "AWS allows keys of 1 to 128 and values of up to 256 characters"
	case !allowed.MatchString(tag.Key) || !allowed.MatchString(tag.Value):
		return "AWS allows letters, digits, spaces and _ . : / = + - @ only"
	case strings.HasPrefix(strings.ToLower(tag.Key), "aws:"):
		return "AWS reserves keys that begin with aws:"
	case tag.Key == DriverTag || tag.Key == ClusterTag(infraID):
		return "the driver sets this key itself"
	case strings.Contains(tag.Key+tag.Value, " "):
		return "the driver's flag --tags separates tags by spaces, and drivers before 2.2 have no way to write one; use another character"
	case strings.ContainsFunc(tag.Key+tag.Value, func(r rune) bool { return r >= utf8.RuneSelf }):
		// splitToList compares the last byte of a rune (kubernetes-sigs/aws-efs-csi-driver v3.4.1, pkg/driver/driver.go).
		return "the driver's flag --tags takes some letters outside of ASCII for separators; use others"
	default:
		return ""
	}
}
