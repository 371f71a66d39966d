package awsefs

import (
	"path"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

// The mount helper of efs-utils v3.2.0 takes keys from ~/.aws/credentials, else a role and a token from two variables, else the role of the
// instance. What a pod may do in EFS must be asked for by the identity that it mounts with.
func TestPodsThatMountWithIAMHaveTheirIdentityAndItsRights(t *testing.T) {
	const role, mount, root = "arn:aws:iam::123456789012:role/efs", "ClientMount ClientWrite", "ClientMount ClientWrite ClientRootAccess"
	for name, tc := range map[string]struct {
		change           func(*driver.Config)
		controller, node string
		// rights are the client actions in the two CredentialsRequests.
		rights string
	}{
		"default":      {func(*driver.Config) {}, "instance", "instance", "; "},
		"default, STS": {sts("ROLEARN", "NODE_ROLEARN"), "instance", "instance", "; "},
		"keys":         {both, "keys", "keys", root + "; " + mount},
		"STS": {func(cfg *driver.Config) {
			both(cfg)
			cfg.RoleARNs["ROLEARN"], cfg.RoleARNs["NODE_ROLEARN"] = role+"-controller", role+"-node"
		}, "keys, else " + role + "-controller", "keys, else " + role + "-node", root + "; " + mount},
		"directories only":             {set(deleteRootDir, "true"), "keys", "instance", root + "; "},
		"nodes only":                   {set(nodeIAMMounts, "true"), "instance", "keys", "; " + mount},
		"keys that nodes may not have": {withoutNodeSecret(both), "keys", "instance", root + "; " + mount},
	} {
		t.Run(name, func(t *testing.T) {
			identities, rights := map[bool]string{}, map[string]string{}
			for _, object := range render(t, config(t, tc.change)) {
				if pod := podOf(object); pod != nil {
					_, isNode := object.(*appsv1.DaemonSet)
					identities[isNode] = identityOf(t, *pod)
				}
				if request, ok := object.(*cloudcredentialv1.CredentialsRequest); ok {
					rights[request.Spec.SecretRef.Name] = clientActions(request)
				}
			}
			if identities[false] != tc.controller || identities[true] != tc.node {
				t.Errorf("the controller mounts with %q, the nodes with %q, want %q and %q", identities[false], identities[true], tc.controller, tc.node)
			}
			if got := rights[controllerSecret] + "; " + rights[nodeSecret]; got != tc.rights {
				t.Errorf("they may %q, want %q", got, tc.rights)
			}
		})
	}
}

// If pods mount with an identity, the keys must be in a file, or a condition reports it.
func TestASecretOfTwoKeysServesNoMounts(t *testing.T) {
	keys := []string{"aws_access_key_id", "aws_secret_access_key"}
	for _, credentials := range Driver().Credentials {
		usual, asked, assumed := config(t, func(*driver.Config) {}), config(t, both), config(t, both)
		assumed.RoleARNs = map[string]string{"ROLEARN": "arn", "NODE_ROLEARN": "arn"}
		if credentials.LacksFile(usual, keys) || !credentials.LacksFile(asked, keys) || credentials.LacksFile(assumed, keys) ||
			credentials.LacksFile(asked, append(keys, driver.CredentialsFile)) {
			t.Errorf("%s", credentials.Secret)
		}
	}
}

func both(cfg *driver.Config) {
	cfg.Settings[deleteRootDir], cfg.Settings[nodeIAMMounts] = "true", "true"
}

// identityOf returns where the mount helper finds credentials in the driver's container.
func identityOf(t *testing.T, pod corev1.PodSpec) string {
	t.Helper()
	container, found := pod.Containers[0], []string{}
	files := map[string]bool{}
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Volumes {
			switch {
			case volume.Name != mount.Name:
			case volume.Secret != nil && mount.MountPath == "/root/.aws":
				if !mount.ReadOnly || mount.SubPath != "" {
					t.Errorf("mount %+v: it must be read-only, and follow the Secret", mount)
				}
				found = append(found, "keys")
			case volume.Projected != nil:
				files[path.Join(mount.MountPath, volume.Projected.Sources[0].ServiceAccountToken.Path)] = true
			}
		}
	}
	variables := map[string]string{}
	for _, variable := range container.Env {
		variables[variable.Name] = variable.Value
	}
	if role := variables["AWS_ROLE_ARN"]; role != "" && files[variables["AWS_WEB_IDENTITY_TOKEN_FILE"]] {
		found = append(found, role)
	}
	if len(found) == 0 {
		return "instance"
	}
	return strings.Join(found, ", else ")
}

// clientActions returns the mount actions in a CredentialsRequest.
func clientActions(request *cloudcredentialv1.CredentialsRequest) string {
	var found []string
	for _, entry := range request.Spec.ProviderSpec.StatementEntries {
		for _, action := range entry.Action {
			if client, isClient := strings.CutPrefix(action, "elasticfilesystem:Client"); isClient {
				found = append(found, "Client"+client)
			}
		}
	}
	return strings.Join(found, " ")
}
