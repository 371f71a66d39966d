package driver

import corev1 "k8s.io/api/core/v1"

// NameRegion tells a container the region of its cloud by environment variables, in all workloads that have the container. Else it asks the
// metadata of its instance, which a pod can't reach with a hop limit of 1 or from the pod network. EFS' mount helper then fails each mount
// (efs-utils v3.2.0, src/efs_utils_common/metadata.py get_target_region; since v2.3.3). A region that is not known leaves the variables out.
func NameRegion(container string, variables ...string) Mutation {
	return MutatePods(func(cfg Config, pods Pods) error {
		if cfg.Region == "" {
			return nil
		}
		found, err := pods.Container(container)
		if err != nil {
			return err
		}
		for _, variable := range variables {
			found.Env = append(found.Env, corev1.EnvVar{Name: variable, Value: cfg.Region})
		}
		return nil
	})
}
