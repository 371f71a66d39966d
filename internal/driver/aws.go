package driver

import "errors"

// ClusterTag returns the key of the tag on AWS resources that a driver creates for this cluster; its value is "owned".
func ClusterTag(infraID string) string { return "kubernetes.io/cluster/" + infraID }

// NameRegion sets environment variables of a container to the region, in the two workloads of the driver. A container without the variables
// asks the instance metadata. A pod can't reach the metadata from the pod network, or with a hop limit of 1. EFS' mount helper then fails each mount
// (efs-utils v3.2.0, src/efs_utils_common/metadata.py get_target_region; since v2.3.3). If the region is unknown, NameRegion sets no variables.
func NameRegion(container string, variables ...string) Mutation {
	return MutatePods(func(cfg Config, pods Pods) error {
		if pods.Workload == "" {
			return nil
		}
		var problems []error
		for _, variable := range variables {
			problems = append(problems, pods.AddVariable(container, variable, cfg.Region))
		}
		return errors.Join(problems...)
	})
}
