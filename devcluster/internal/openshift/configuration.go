package openshift

import (
	"fmt"
	"maps"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const singleton = "cluster"

// configuration returns the cluster's objects of config.openshift.io, one of each kind, and the configuration for the cloud.
func (p Profile) configuration(url string) []client.Object {
	return append([]client.Object{
		p.infrastructure(url),
		&configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: singleton}},
		&configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: singleton}, Spec: configv1.APIServerSpec{
			Audit: configv1.Audit{Profile: configv1.DefaultAuditProfileType},
		}},
		p.authentication(),
		p.featureGate(),
		clusterVersion(),
	}, p.cloudConfiguration()...)
}

// cloudConfiguration returns the configuration that the installer writes for programs that call the cloud. Storage drivers read this configuration
// only on Azure. The fields come from openshift/installer, pkg/asset/manifests/azure/cloudproviderconfig.go.
func (p Profile) cloudConfiguration() []client.Object {
	if p.Platform != configv1.AzurePlatformType {
		return nil
	}
	const text = `{"cloud": "AzurePublicCloud", "tenantId": "fake-tenant", "aadClientId": "", "aadClientSecret": "",
 "useManagedIdentityExtension": true, "userAssignedIdentityID": "", "subscriptionId": "fake-subscription", "resourceGroup": "%[1]s-rg",
 "location": "%[2]s", "vnetName": "%[1]s-vnet", "vnetResourceGroup": "%[1]s-rg", "subnetName": "%[1]s-worker-subnet",
 "securityGroupName": "%[1]s-nsg", "vmType": "standard", "loadBalancerSku": "standard"}
`
	return []client.Object{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cloud-provider-config"},
		Data:       map[string]string{"config": fmt.Sprintf(text, p.Name, p.Region)},
	}}
}

func (p Profile) infrastructure(url string) *configv1.Infrastructure {
	status := configv1.InfrastructureStatus{
		InfrastructureName:     p.Name,
		Platform:               p.Platform, //nolint:staticcheck // Old readers look here.
		PlatformStatus:         &configv1.PlatformStatus{Type: p.Platform},
		APIServerURL:           url,
		APIServerInternalURL:   url,
		ControlPlaneTopology:   p.Topology,
		InfrastructureTopology: p.Topology,
		CPUPartitioning:        configv1.CPUPartitioningNone,
	}
	if p.Topology == configv1.ExternalTopologyMode {
		// The control plane is external, so this field describes only the workers.
		status.InfrastructureTopology = configv1.HighlyAvailableTopologyMode
		if p.Nodes == 1 {
			status.InfrastructureTopology = configv1.SingleReplicaTopologyMode
		}
	}
	switch p.Platform {
	case configv1.AWSPlatformType:
		status.PlatformStatus.AWS = &configv1.AWSPlatformStatus{Region: p.Region}
	case configv1.GCPPlatformType:
		status.PlatformStatus.GCP = &configv1.GCPPlatformStatus{Region: p.Region, ProjectID: p.Name}
	case configv1.AzurePlatformType:
		status.PlatformStatus.Azure = &configv1.AzurePlatformStatus{ResourceGroupName: p.Name + "-rg", CloudName: configv1.AzurePublicCloud}
	default:
	}
	return &configv1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{Name: singleton},
		Spec:       configv1.InfrastructureSpec{PlatformSpec: configv1.PlatformSpec{Type: p.Platform}},
		Status:     status,
	}
}

func (p Profile) authentication() *configv1.Authentication {
	authentication := &configv1.Authentication{ObjectMeta: metav1.ObjectMeta{Name: singleton}}
	if p.CredentialsMode == STS {
		authentication.Spec.ServiceAccountIssuer = p.Issuer()
	}
	return authentication
}

// featureGate returns the FeatureGate. The object lists the gates of storage operators, as in a cluster with the default feature set. It also lists
// the gates of the profile, as in a cluster with feature set CustomNoUpgrade.
func (p Profile) featureGate() *configv1.FeatureGate {
	gates := map[string]bool{"VolumeAttributesClass": true, "AWSEFSDriverVolumeMetrics": true, "VolumeGroupSnapshot": false}
	maps.Copy(gates, p.FeatureGates)
	release := configv1.FeatureGateDetails{Version: ReleaseVersion}
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		list := &release.Disabled
		if gates[name] {
			list = &release.Enabled
		}
		*list = append(*list, configv1.FeatureGateAttributes{Name: configv1.FeatureGateName(name)})
	}
	return &configv1.FeatureGate{
		ObjectMeta: metav1.ObjectMeta{Name: singleton},
		Status:     configv1.FeatureGateStatus{FeatureGates: []configv1.FeatureGateDetails{release}},
	}
}

func clusterVersion() *configv1.ClusterVersion {
	release := configv1.Release{
		Version: ReleaseVersion,
		Image:   fmt.Sprintf("registry.invalid/devcluster/release:%s", ReleaseVersion),
	}
	now := metav1.NewTime(time.Now())
	condition := func(kind configv1.ClusterStatusConditionType, status configv1.ConditionStatus) configv1.ClusterOperatorStatusCondition {
		return configv1.ClusterOperatorStatusCondition{Type: kind, Status: status, LastTransitionTime: now}
	}
	return &configv1.ClusterVersion{
		ObjectMeta: metav1.ObjectMeta{Name: "version"},
		Spec:       configv1.ClusterVersionSpec{ClusterID: configv1.ClusterID(uuid.NewUUID()), Channel: "stable-4.21"},
		Status: configv1.ClusterVersionStatus{
			Desired: release,
			History: []configv1.UpdateHistory{{
				State: configv1.CompletedUpdate, Version: release.Version, Image: release.Image,
				StartedTime: now, CompletionTime: &now, Verified: false,
			}},
			ObservedGeneration: 1,
			VersionHash:        "devcluster",
			Conditions: []configv1.ClusterOperatorStatusCondition{
				condition(configv1.OperatorAvailable, configv1.ConditionTrue),
				condition(configv1.OperatorProgressing, configv1.ConditionFalse),
				condition("Failing", configv1.ConditionFalse),
			},
		},
	}
}
