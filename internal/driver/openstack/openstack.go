// Package openstack has the code that several drivers of OpenStack share. This code configures how a driver reaches the cloud, and checks this
// configuration.
package openstack

import (
	"bytes"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
)

const (
	// CloudsYAML is the key with the credentials, in the Secret that the cloud-credential-operator makes (cloud-credential-operator b187feee6,
	// pkg/openstack/utils.go).
	CloudsYAML = "clouds.yaml"
	// CACert is the key with the cloud's CA certificates in the same Secret. The Secret can lack this key.
	CACert = "cacert"
	// CloudName is the name of the cloud in clouds.yaml (OpenStackCloudName in the same utils.go).
	CloudName = "openstack"
	// CAFolder is the folder of the CA certificates in pods. The name of the file in this folder is driver.CloudCAKey. The cloud-credential-operator
	// writes the path of the file into clouds.yaml (CACertFile in the same utils.go).
	CAFolder = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config"
	// kubeCloudConfig is the ConfigMap with the CA certificates and, in key cloudConf, the cloud configuration of the installer
	// (openshift/cluster-config-operator 480a465, pkg/operator/kube_cloud_config/controller.go, asIsTransformer).
	kubeCloudConfig, cloudConf = "kube-cloud-config", "cloud.conf"
)

// PredecessorCloudConfig is a copy of the cloud configuration in the namespaces of both drivers. OpenShift's operators made the copy, and their
// drivers' pods mounted its CA certificates (openshift/csi-operator f7f9dc59, pkg/openstack-manila/util/const.go; cluster-storage-operator bb8d2fd1).
const PredecessorCloudConfig = "cloud-provider-config"

// CAFile is the path of the CA certificates in pods.
const CAFile = CAFolder + "/" + driver.CloudCAKey

// InstallersConfig returns the ConfigMap with the cloud configuration of the installer. A cluster can lack this ConfigMap.
func InstallersConfig() driver.DerivedConfigMap {
	return driver.DerivedConfigMap{ObjectKey: client.ObjectKey{Namespace: driver.ManagedNamespace, Name: kubeCloudConfig}, Optional: true}
}

// InstallersConf returns the text in key cloudConf of the ConfigMap InstallersConfig, and all data of the ConfigMap. The text is empty if the
// ConfigMap or the key does not exist.
func InstallersConf(inputs driver.DerivedInputs) (conf string, all map[string]string) {
	all = inputs.ConfigMaps[kubeCloudConfig]
	return all[cloudConf], all
}

// Credentials returns the credentials of a driver. The keys of the Secret are the names of files, for instance clouds.yaml.
func Credentials(asset, request, secret, condition string) driver.Credentials {
	return driver.Credentials{
		Asset: asset, Request: request, Secret: secret, Condition: condition, Payload: true, Keys: [][]string{{CloudsYAML}},
	}
}

// Cloud returns how the poller reaches the cloud.
func Cloud(secret string) *driver.Cloud {
	return &driver.Cloud{Secret: secret, CA: InstallersConfig().ObjectKey}
}

// NameCluster makes the driver write the cluster's name into the metadata of volumes or shares. When the installer destroys the cluster, it finds the
// volumes and shares by this name.
func NameCluster(flag string) driver.Mutation {
	return driver.MutatePods(func(cfg driver.Config, pods driver.Pods) error {
		if pods.Workload != driver.Controller {
			return nil
		}
		return pods.AddValue(flag, cfg.InfrastructureID)
	})
}

// CA returns the CA certificates of the cloud in PEM. It returns an empty text if the cloud has no CA of its own. CA prefers the ConfigMap to the
// Secret, because the cloud-credential-operator copies the ConfigMap's certificates into the Secret.
func CA(inputs driver.DerivedInputs, secret string) (string, error) {
	name, certificates := "ConfigMap "+InstallersConfig().String(), inputs.ConfigMaps[kubeCloudConfig][driver.CloudCAKey]
	key := driver.CloudCAKey
	if len(bytes.TrimSpace([]byte(certificates))) == 0 {
		name, key, certificates = "Secret "+secret, CACert, string(inputs.Secrets[secret][CACert])
	}
	if len(bytes.TrimSpace([]byte(certificates))) == 0 {
		return "", nil
	}
	if made := driver.Certificates(certificates); made != "" {
		return made, nil
	}
	return "", fmt.Errorf("key %s of %s has no CA certificate in PEM: the driver needs one to verify the cloud; "+
		"write it into key %s of the ConfigMap of namespace openshift-config that spec.cloudConfig.name of Infrastructure cluster names",
		key, name, driver.CloudCAKey)
}

// CheckClouds validates the credentials of a Secret. The error contains nothing from the Secret.
func CheckClouds(inputs driver.DerivedInputs, secret string) error {
	var file struct {
		Clouds map[string]struct {
			Auth map[string]any `json:"auth"`
		} `json:"clouds"`
	}
	of := "key " + CloudsYAML + " of Secret " + secret
	const advice = ": recreate the Secret from the clouds.yaml of the cloud"
	if err := yaml.Unmarshal(inputs.Secrets[secret][CloudsYAML], &file); err != nil {
		// The decoder's error could contain a part of the Secret.
		return errors.New(of + " is not a valid clouds.yaml" + advice)
	}
	cloud, found := file.Clouds[CloudName]
	switch {
	case !found:
		return fmt.Errorf("%s has no entry clouds.%s%s, with %[2]s as the name of the cloud", of, CloudName, advice)
	case cloud.Auth["auth_url"] == nil || cloud.Auth["auth_url"] == "":
		return fmt.Errorf("%s has no clouds.%s.auth.auth_url%s", of, CloudName, advice)
	}
	return nil
}
