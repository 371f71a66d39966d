package awsefs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

// addMountIdentity gives credentials to the mount helper in pods that mount with option iam. The helper reads access keys from root's home directory,
// and a role from two variables. If the helper finds neither, it uses the instance's role. The helper ignores AWS_CONFIG_FILE and the keys in the
// environment. (Since v1.30; efs-utils v3.2.0, src/efs_utils_common/aws_credentials.py get_aws_profile and get_aws_security_credentials,
// constants.py.) The driver deletes directories through a mount with tls and iam (driver v3.4.1, pkg/driver/controller.go DeleteVolume).
func addMountIdentity(cfg driver.Config, pods driver.Pods) error {
	role := ""
	switch {
	case pods.Workload == driver.Controller && cfg.Settings[deleteRootDir] == "true":
		role = cfg.RoleARNs[controllerRole]
	case pods.Workload == driver.Node && cfg.Settings[nodeIAMMounts] == "true":
		role = cfg.RoleARNs[nodeRole]
	default:
		return nil
	}
	container, err := pods.Container(driverContainer)
	if err != nil {
		return err
	}
	const volume = "aws-credentials"
	if slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == volume }) {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/root/.aws", ReadOnly: true})
	}
	if role != "" {
		container.Env = append(container.Env, corev1.EnvVar{Name: "AWS_ROLE_ARN", Value: role},
			corev1.EnvVar{Name: "AWS_WEB_IDENTITY_TOKEN_FILE", Value: driver.TokenPath})
	}
	return nil
}

// allowMountsInEFS adds the IAM actions for mounts by the pods. To delete directories, the controller mounts with root access. The nodes mount with
// option iam. For the nodes, only the policy of the file system can allow root access.
func allowMountsInEFS(cfg driver.Config, request *cloudcredentialv1.CredentialsRequest) error {
	actions := []string{"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"}
	switch secret := request.Spec.SecretRef.Name; {
	case secret == controllerSecret && cfg.Settings[deleteRootDir] == "true":
		actions = append(actions, "elasticfilesystem:ClientRootAccess")
	case secret == nodeSecret && cfg.Settings[nodeIAMMounts] == "true":
	default:
		return nil
	}
	request.Spec.ProviderSpec.StatementEntries = append(request.Spec.ProviderSpec.StatementEntries, cloudcredentialv1.StatementEntry{
		Effect: "Allow", Action: actions, Resource: "*",
	})
	return nil
}
