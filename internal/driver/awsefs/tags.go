package awsefs

import (
	"fmt"
	"slices"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// DriverTag is the key of the tag that the driver sets on every access point. IAM policies rely on this tag.
const DriverTag = "efs.csi.aws.com/cluster"

// flagTags returns the value of the driver's flag --tags. When the installer destroys a cluster, it finds access points by the tag with the cluster's
// ID.
func flagTags(cfg driver.Config) string {
	tags := cfg.Tags
	if cfg.InfrastructureID != "" {
		tags = append(slices.Clone(tags), accept.Pair{Key: driver.ClusterTag(cfg.InfrastructureID), Value: "owned"})
	}
	return driver.Driver{Accepts: accepts()}.Accepted(cfg).List(accept.Tag).Text(tags)
}

// AccessPointTags returns the resource tags of the Infrastructure that the driver puts on access points.
func AccessPointTags(cfg driver.Config) map[string]string {
	tags := map[string]string{}
	for _, tag := range Driver().ResourceTags(cfg) {
		tags[tag.Key] = tag.Value
	}
	return tags
}

// check returns a message about each setting without effect.
func check(cfg driver.Config) []string {
	var problems []string
	if _, refused := UsesFIPSEndpoints(cfg); refused != "" {
		problems = append(problems, refused)
	}
	if id := cfg.Settings[iamClusterID]; id != "" && cfg.InfrastructureID != "" && id != cfg.InfrastructureID {
		problems = append(problems, fmt.Sprintf("%s=%s is ignored: the Infrastructure \"cluster\" has another infrastructureName, %s",
			iamClusterID, id, cfg.InfrastructureID))
	}
	if cfg.Settings[WatchMounts] == "true" && !watchesMounts(cfg) {
		problems = append(problems, WatchMounts+"=true has no effect: the cluster has no ServiceMonitors, or signs no certificates for Services, so "+
			"that Prometheus could not read the metrics of the nodes")
	}
	return problems
}
