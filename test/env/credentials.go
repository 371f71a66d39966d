package env

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CloudSecret is the name of the Secret with the credentials of the driver's controller, which the operator uses as well.
const CloudSecret = "aws-efs-cloud-credentials"

// KeySecret is a Secret with an access key, as an administrator makes it, or OpenShift in mint mode.
func KeySecret(name, accessKeyID, secretAccessKey string) *corev1.Secret {
	return secret(name, map[string]string{"aws_access_key_id": accessKeyID, "aws_secret_access_key": secretAccessKey})
}

// RoleSecret is a Secret with a role for which a pod exchanges its token, as OpenShift makes it on a cluster with STS.
func RoleSecret(name, role string) *corev1.Secret {
	const text = "[default]\nsts_regional_endpoints = regional\nrole_arn = %s\nweb_identity_token_file = %s\n"
	return secret(name, map[string]string{"credentials": fmt.Sprintf(text, role, "/var/run/secrets/openshift/serviceaccount/token")})
}

func secret(name string, data map[string]string) *corev1.Secret {
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		object.Data[key] = []byte(value)
	}
	return object
}

// InfraID is the infrastructure name of the cluster, by which its objects in AWS are tagged.
func (c *Cluster) InfraID(ctx context.Context) (string, error) {
	infrastructure := &configv1.Infrastructure{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, infrastructure); err != nil {
		return "", fmt.Errorf("infrastructure name: %w", err)
	}
	return infrastructure.Status.InfrastructureName, nil
}

// ResourceTags makes these the tags that the Infrastructure wants objects in AWS to have; nil for none.
func (c *Cluster) ResourceTags(ctx context.Context, tags map[string]string) error {
	var list []configv1.AWSResourceTag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, configv1.AWSResourceTag{Key: key, Value: tags[key]})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"platformStatus": map[string]any{"aws": map[string]any{"resourceTags": list}}}})
	if err != nil {
		return fmt.Errorf("resource tags: %w", err)
	}
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := c.Client.Status().Patch(ctx, infrastructure, Merge(string(patch))); err != nil {
		return fmt.Errorf("resource tags of the Infrastructure: %w", err)
	}
	return nil
}
