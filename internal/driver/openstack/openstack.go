// Package openstack has what the drivers of OpenStack have in common: how the cloud is reached, and what is checked of that.
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
	// CloudsYAML is the key of the Secret that the cloud-credential-operator makes (b187feee6, pkg/openstack/utils.go).
	CloudsYAML = "clouds.yaml"
	// CACert is the key of the cloud's CA certificates in the same Secret, which may lack it.
	CACert = "cacert"
	// CloudName is the cloud in clouds.yaml (the same file, OpenStackCloudName).
	CloudName = "openstack"
	// CAFolder is where pods have the CA certificates, in a file with the name driver.CloudCAKey. The cloud-credential-operator writes the path
	// into clouds.yaml (the same file, CACertFile).
	CAFolder = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config"
	// kubeCloudConfig has what the installer wrote about the cloud, under cloudConf, and the CA certificates (cluster-config-operator,
	// pkg/operator/kube_cloud_config/controller.go, asIsTransformer).
	kubeCloudConfig, cloudConf = "kube-cloud-config", "cloud.conf"
)

// PredecessorCloudConfig is the ConfigMap that OpenShift's operators copied the configuration to, for its CA certificates, in the namespaces of
// both drivers (openshift/csi-operator f7f9dc59, pkg/openstack-manila/util/const.go; cluster-storage-operator bb8d2fd1).
const PredecessorCloudConfig = "cloud-provider-config"

// CAFile is the path of the CA certificates in pods.
const CAFile = CAFolder + "/" + driver.CloudCAKey

// InstallersConfig is the ConfigMap with what the installer wrote about the cloud. A cluster may lack it.
func InstallersConfig() driver.DerivedConfigMap {
	return driver.DerivedConfigMap{ObjectKey: client.ObjectKey{Namespace: driver.ManagedNamespace, Name: kubeCloudConfig}, Optional: true}
}

// InstallersConf is the driver's part of InstallersConfig, empty if there is none, and what else is in there.
func InstallersConf(inputs driver.DerivedInputs) (conf string, all map[string]string) {
	all = inputs.ConfigMaps[kubeCloudConfig]
	return all[cloudConf], all
}

// Credentials are those of a driver. Keys of the Secret are files.
func Credentials(asset, request, secret, condition string) driver.Credentials {
	return driver.Credentials{
		Asset: asset, Request: request, Secret: secret, Condition: condition, Payload: true, Keys: [][]string{{CloudsYAML}},
	}
}

// Cloud is how the cloud of a driver is asked.
func Cloud(secret string) *driver.Cloud {
	return &driver.Cloud{Secret: secret, CA: InstallersConfig().ObjectKey}
}

// NameCluster puts the cluster's name into the metadata of volumes or shares, by a flag of the driver. By it they are found when the cluster is
// destroyed.
func NameCluster(flag string) driver.Mutation {
	return driver.MutatePods(func(cfg driver.Config, pods driver.Pods) error {
		if pods.Workload != driver.Controller {
			return nil
		}
		return pods.AddValue(flag, cfg.InfrastructureID)
	})
}

// CA are the CA certificates of the cloud in PEM; empty if it has none of its own. The cloud-credential-operator copies those of the installer's
// ConfigMap into the Secret, so that the ConfigMap is the newer one.
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
	return "", fmt.Errorf("key %s of %s has no CA certificate in PEM: correct the key, the driver trusts the cloud by it; "+
		"what is in namespace %s is made of the ConfigMap of openshift-config that Infrastructure cluster names in spec.cloudConfig",
		key, name, driver.ManagedNamespace)
}

// CheckClouds says what is wrong with the credentials of a Secret. The error tells nothing of its content.
func CheckClouds(inputs driver.DerivedInputs, secret string) error {
	var file struct {
		Clouds map[string]struct {
			Auth map[string]any `json:"auth"`
		} `json:"clouds"`
	}
	of := "key " + CloudsYAML + " of Secret " + secret
	const advice = ": make the Secret anew with what the cloud gives out as clouds.yaml"
	if err := yaml.Unmarshal(inputs.Secrets[secret][CloudsYAML], &file); err != nil {
		// The error of the decoder could tell a part of it.
		return errors.New(of + " is no YAML of the form of clouds.yaml" + advice)
	}
	cloud, found := file.Clouds[CloudName]
	switch {
	case !found:
		return fmt.Errorf("%s has no cloud %q%s, and call the cloud so", of, CloudName, advice)
	case cloud.Auth["auth_url"] == nil || cloud.Auth["auth_url"] == "":
		return fmt.Errorf("%s has no clouds.%s.auth.auth_url%s", of, CloudName, advice)
	}
	return nil
}
