package driver

import "errors"

// ClusterTag is the key of the tag with which a driver of AWS says that this cluster has made something; its value is "owned".
func ClusterTag(infraID string) string { return "kubernetes.io/cluster/" + infraID }

// NameRegion tells a container the region of its cloud by environment variables, in all workloads that have the container. Else it asks the
// metadata of its instance, which a pod can't reach with a hop limit of 1 or from the pod network. EFS' mount helper then fails each mount
// (efs-utils v3.2.0, src/efs_utils_common/metadata.py get_target_region; since v2.3.3). A region that is not known leaves the variables out.
func NameRegion(container string, variables ...string) Mutation {
	return MutatePods(func(cfg Config, pods Pods) error {
		var problems []error
		for _, variable := range variables {
			problems = append(problems, pods.AddVariable(container, variable, cfg.Region))
		}
		return errors.Join(problems...)
	})
}
