// Package azure has what the drivers of Azure have in common: the configuration of the cloud, and the tags of the cluster.
package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

// Keys of the Secret that the cloud-credential-operator makes (cloud-credential-operator b187feee6, pkg/azure/actuator.go).
const (
	clientID           = "azure_client_id"
	clientSecret       = "azure_client_secret"
	tenantID           = "azure_tenant_id"
	federatedTokenFile = "azure_federated_token_file"
)

// Keys of the Secret that pods mount. The second key exists only on Azure Stack Hub.
const (
	cloudConf      = "cloud.conf"
	stackEndpoints = "azurestackcloud.json"
)

// cloudProviderConfig is the ConfigMap with the cloud configuration of the installer.
const cloudProviderConfig = "cloud-provider-config"

// PredecessorCondition is the condition with which OpenShift's operators report on the copied configuration. It is in the ClusterCSIDriver of every
// driver of Azure.
const PredecessorCondition = "ResourceSyncControllerDegraded"

// PredecessorCloudConfig is a copy of the cloud configuration. OpenShift's operators made the copy, and the pods of both drivers mounted it
// (openshift/csi-operator f7f9dc59, pkg/driver/azure-disk/azure_disk.go syncCloudConfig).
const PredecessorCloudConfig = "azure-cloud-config"

// Credentials returns the credentials of a driver of Azure: a service principal, or a workload identity.
func Credentials(request, secret, condition string) []driver.Credentials {
	return []driver.Credentials{{
		Asset: "controller.yaml", Request: request, Secret: secret, Condition: condition, Payload: true,
		Keys: [][]string{{clientID, clientSecret}, {clientID, tenantID, federatedTokenFile}},
	}}
}

// CloudConfig returns the Secret with the cloud configuration that a driver mounts. The configuration contains the identity from the driver's
// credentials.
func CloudConfig(name, credentials string) *driver.Derived {
	return &driver.Derived{
		Name: name, Workloads: []driver.Workload{driver.Controller, driver.Node},
		ConfigMaps: []driver.DerivedConfigMap{{ObjectKey: client.ObjectKey{Namespace: "openshift-config", Name: cloudProviderConfig}}},
		Build: func(inputs driver.DerivedInputs) (map[string][]byte, error) {
			return build(inputs.ConfigMaps[cloudProviderConfig], credentials, inputs.Secrets[credentials])
		},
	}
}

// build merges an identity into the cloud configuration, and drops every other identity in that configuration. The fields come from
// sigs.k8s.io/cloud-provider-azure, pkg/azclient/auth_conf.go at pkg/azclient v0.19.0.
func build(config map[string]string, name string, secret map[string][]byte) (map[string][]byte, error) {
	identity, err := identityIn(name, secret)
	if err != nil {
		return nil, err
	}
	const of = " of ConfigMap openshift-config/cloud-provider-config is not "
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(config["config"]), &fields); err != nil || fields == nil {
		// The error of the decoder could contain a part of a secret.
		return nil, errors.New("key config" + of + "a JSON object: correct it to the cloud configuration that the installer wrote")
	}
	var cloud string
	onHub := json.Unmarshal(fields["cloud"], &cloud) == nil && strings.EqualFold(cloud, string(configv1.AzureStackCloud))
	onHub = onHub || config["endpoints"] != ""
	if onHub && !json.Valid([]byte(config["endpoints"])) {
		return nil, errors.New("key endpoints" + of + "JSON: correct it. On Azure Stack Hub, this key has the addresses of the cloud")
	}
	for field, value := range identity {
		maps.DeleteFunc(fields, func(other string, _ json.RawMessage) bool { return strings.EqualFold(field, other) })
		if value != "" {
			fields[field], err = json.Marshal(value)
		}
	}
	merged, failure := json.Marshal(fields)
	content := map[string][]byte{cloudConf: merged}
	if onHub {
		content[stackEndpoints] = []byte(config["endpoints"])
	}
	return content, errors.Join(err, failure)
}

// identityIn returns the fields of an identity. build removes empty fields. The driver never uses the node's managed identity, because all
// pods of the node could use it, too.
func identityIn(name string, secret map[string][]byte) (map[string]any, error) {
	value := func(key string) string { return strings.TrimSpace(string(secret[key])) }
	fields := map[string]any{
		"aadClientId": value(clientID), "aadClientSecret": value(clientSecret), "aadFederatedTokenFile": "",
		"useManagedIdentityExtension": false, "useFederatedWorkloadIdentityExtension": false, "userAssignedIdentityID": "",
		"aadClientCertPath": "", "aadClientCertPassword": "",
	}
	switch {
	case value(clientID) == "":
		return nil, fmt.Errorf("key %s of Secret %s is empty: it must be the client ID of the driver's application", clientID, name)
	case value(federatedTokenFile) != "" && value(clientSecret) != "":
		return nil, fmt.Errorf("both %s and %s are in Secret %s: remove one, a driver has only one identity", clientSecret, federatedTokenFile, name)
	case value(federatedTokenFile) != "" && value(tenantID) == "":
		return nil, fmt.Errorf("key %s of Secret %s needs key %s, which the Secret lacks: add it", federatedTokenFile, name, tenantID)
	case value(federatedTokenFile) != "":
		fields["tenantId"], fields["aadFederatedTokenFile"] = value(tenantID), value(federatedTokenFile)
		fields["useFederatedWorkloadIdentityExtension"] = true
	case value(clientSecret) == "":
		return nil, fmt.Errorf("neither %s nor %s is in Secret %s: add one of them", clientSecret, federatedTokenFile, name)
	}
	return fields, nil
}

// OnStackHub reports whether the cloud is an Azure Stack Hub.
func OnStackHub(platform *configv1.PlatformStatus) bool {
	return platform != nil && platform.Azure != nil && platform.Azure.CloudName == configv1.AzureStackCloud
}

// FindEndpoints sets the path of the file with the endpoints of an Azure Stack Hub.
func FindEndpoints(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload == "" || !OnStackHub(cfg.Platform) {
		return nil
	}
	container, err := pods.Container(driver.Container)
	if err != nil {
		return err
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: "AZURE_ENVIRONMENT_FILEPATH", Value: "/etc/kubernetes/" + stackEndpoints})
	return nil
}

// AddTags adds the tags of the cluster to parameter "tags" of a class. The driver splits tags at commas unless another delimiter is set.
func AddTags(cfg driver.Config, parameters map[string]string) map[string]string {
	if len(cfg.Tags) == 0 {
		return parameters
	}
	tags := cfg.Tags
	if key, value, found := strings.Cut(parameters[tagsParameter], "="); found {
		tags = append(slices.Clone(tags), accept.Pair{Key: key, Value: value})
	}
	changed := map[string]string{delimiterParameter: delimiter, tagsParameter: list("").Text(tags)}
	for name, value := range parameters {
		if name != tagsParameter {
			changed[name] = value
		}
	}
	return changed
}
