package node

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// needs makes the Secrets and ConfigMaps that a pod would wait for, with something in each key that it names.
func needs(ctx context.Context, pod *corev1.Pod) error {
	issued, err := certificates(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	secrets, configs := wanted(pod)
	var problems []error
	add := func(kind, name, field string, keys []string) {
		object := env.NewObject("v1", kind, pod.Namespace, name)
		if err := client.IgnoreNotFound(suite.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)); err != nil {
			problems = append(problems, err)
			return
		}
		missing := content(keys)
		for key := range missing {
			if _, is, _ := unstructured.NestedString(object.Object, "data", key); is {
				delete(missing, key)
			}
		}
		object = env.NewObject("v1", kind, pod.Namespace, name)
		object.Object[field] = missing
		configuration, owner := client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test "+pod.GenerateName)
		problems = append(problems, suite.cluster.Client.Apply(ctx, configuration, owner, client.ForceOwnership))
	}
	for name, keys := range secrets {
		if !issued[name] {
			add("Secret", name, "stringData", keys)
		}
	}
	for name, keys := range configs {
		add("ConfigMap", name, "data", keys)
	}
	return errors.Join(problems...)
}

// certificates are the Secrets that the stand-in for service-ca-operator makes, as Services ask for them.
func certificates(ctx context.Context, namespace string) (map[string]bool, error) {
	services := &corev1.ServiceList{}
	if err := suite.cluster.Client.List(ctx, services, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, service := range services.Items {
		found[service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]] = true
	}
	return found, nil
}

// wanted are the keys of the Secrets and ConfigMaps without which a pod does not start.
func wanted(pod *corev1.Pod) (secrets, configs map[string][]string) {
	secrets, configs = map[string][]string{}, map[string][]string{}
	add := func(to map[string][]string, name string, optional *bool, keys ...string) {
		if name != "" && (optional == nil || !*optional) {
			to[name] = append(to[name], keys...)
		}
	}
	keys := func(items []corev1.KeyToPath) (found []string) {
		for _, item := range items {
			found = append(found, item.Key)
		}
		return found
	}
	for _, volume := range pod.Spec.Volumes {
		if secret := volume.Secret; secret != nil {
			add(secrets, secret.SecretName, secret.Optional, keys(secret.Items)...)
		}
		if config := volume.ConfigMap; config != nil {
			add(configs, config.Name, config.Optional, keys(config.Items)...)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if secret := source.Secret; secret != nil {
				add(secrets, secret.Name, secret.Optional, keys(secret.Items)...)
			}
			if config := source.ConfigMap; config != nil {
				add(configs, config.Name, config.Optional, keys(config.Items)...)
			}
		}
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, variable := range container.Env {
			if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
				add(secrets, from.SecretKeyRef.Name, from.SecretKeyRef.Optional, from.SecretKeyRef.Key)
			}
		}
		for _, source := range container.EnvFrom {
			if from := source.SecretRef; from != nil {
				add(secrets, from.Name, from.Optional, "KEY")
			}
		}
	}
	return secrets, configs
}

// content has something that AWS's SDK can read, as the file that it looks for.
func content(keys []string) map[string]any {
	found := map[string]any{"credentials": "[default]\naws_access_key_id = not-real\naws_secret_access_key = not-real\n"}
	for _, key := range keys {
		found[key] = "not real"
	}
	return found
}
