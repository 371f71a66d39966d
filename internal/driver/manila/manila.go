// Package manila describes the OpenStack Manila CSI driver, manila.csi.openstack.org.
package manila

import (
	"embed"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/openstack"
)

//go:embed assets
var assets embed.FS

const (
	driverName  = "manila.csi.openstack.org"
	namespace   = "openshift-manila-csi-driver"
	credentials = "manila-cloud-credentials"
	// secrets is the name of the Secret in the parameters of the StorageClasses.
	secrets = "csi-manila-secrets"
	// fsGroupPolicy is the variable with CSIDriver.spec.fsGroupPolicy.
	fsGroupPolicy = "CSI_FSGROUP_POLICY"
)

// Driver returns the Manila CSI driver. Names, ports and limits come from openshift/csi-operator f7f9dc59,
// pkg/driver/openstack-manila/openstack_manila.go.
func Driver() driver.Driver {
	cloud := openstack.Cloud(credentials)
	cloud.ShareTypes = true
	pods := func(component string) map[string]string {
		return map[string]string{"app": "openstack-manila-csi", "component": component}
	}
	return driver.Driver{
		Name: driverName, Operator: "manila-csi-driver-operator", Platform: configv1.OpenStackPlatformType, Namespace: namespace,
		Prefix: "manila-csi-driver", ShortPrefix: "openstack-manila", ConditionPrefix: "OpenStackManila",
		DaemonSet: "openstack-manila-csi-nodeplugin", Deployment: "openstack-manila-csi-controllerplugin",
		// Node pods forward mounts to the pods of the other DaemonSet, and become ready only if these pods run.
		DaemonSets: []string{"csi-nodeplugin-nfsplugin"},
		Selectors:  map[driver.Workload]map[string]string{driver.Controller: pods("controllerplugin"), driver.Node: pods("nodeplugin")},
		Payload: &driver.Payload{
			Title: "OpenStack Manila", Variable: "MANILA_DRIVER", Condition: "Manila", Image: "csi-driver-manila",
		},
		Assets: assets,
		// There is no attacher, because nodes mount shares without attaching them (CSIDriver.spec.attachRequired is false). There is no topology, because
		// nodes in all zones reach each share.
		Sidecars: driver.FileSidecars(driver.BlockOptions{
			Ports:       driver.BlockPorts{Controller: 10306, Node: 10305, Registrar: 10307, Metrics: 8213},
			Provisioner: []string{"--timeout=120s"},
			Resizer:     []string{"--timeout=240s", "--handle-volume-inuse-error=false"},
			// The timeout is that of OpenShift's operator (openshift/csi-operator f7f9dc59, assets/overlays/openstack-manila/generated/standalone).
			ProbeTimeout: "10s",
		}),
		Credentials:  []driver.Credentials{openstack.Credentials("driver.yaml", "manila-csi-drivers", credentials, "OpenStackManilaCloudCredentials")},
		Derived:      cloudConfig(),
		Cloud:        cloud,
		CloudClasses: &driver.CloudClasses{IsMade: isMade, Make: classes},
		Disabled:     nothingToDrive,
		Settings:     []driver.Setting{{Variable: fsGroupPolicy, Default: string(storagev1.NoneFSGroupPolicy), Check: checkPolicy}},
		// The driver itself knows no such taint (kubernetes/cloud-provider-openstack c453fb7c9).
		StartupTaint: "manila.csi.openstack.org/agent-not-ready",
		Accepts:      accepts(),
		NamedSecrets: &driver.NamedSecrets{
			Granted: secrets,
			Advice:  "Bind a Role for exactly these Secrets to its ServiceAccount: docs/guide/driver-openstack-manila.md#secrets-that-a-storageclass-names",
		},
		Mutations:        []driver.Mutation{openstack.NameCluster("--cluster-id"), driver.Mutate(setPolicy)},
		Obsolete:         driver.Obsolete{ConfigMaps: []string{openstack.PredecessorCloudConfig}},
		LegacyConditions: append(driver.PredecessorConditions("OpenStackManila"), legacyConditions()...),
	}
}

// legacyConditions returns obsolete conditions of OpenShift's operator. That operator set conditions for its copy of the certificates, and for the
// second DaemonSet. It set other conditions when it mistook an outage for a cloud without Manila.
func legacyConditions() []string {
	types := []string{
		"ResourceSyncControllerDegraded", "ManilaDriverConditionalStaticResourcesControllerDegraded", "CSIControllerDisabled",
	}
	for _, kind := range []string{"Available", "Progressing", "Degraded"} {
		types = append(types, "NFSDriverNodeServiceController"+kind)
	}
	return types
}

// nothingToDrive returns why the cloud does not need the driver. It returns an empty text if the cloud needs the driver, or has not answered.
func nothingToDrive(cfg driver.Config) string {
	switch {
	case !cfg.Cloud.Known:
		return ""
	case cfg.Cloud.NoService:
		return "the service catalogue of the cloud has no Manila (type shared-file-system), so the driver has nothing to do"
	case len(cfg.Cloud.ShareTypes) == 0:
		return "Manila shows no share types to the project of the cluster: the operator installs the driver when Manila shows a share type"
	default:
		return ""
	}
}

func checkPolicy(value string) error {
	switch storagev1.FSGroupPolicy(value) {
	case storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
		return nil
	default:
		return fmt.Errorf("must be %s, %s or %s", storagev1.NoneFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
}

func setPolicy(cfg driver.Config, object *storagev1.CSIDriver) error {
	policy := storagev1.FSGroupPolicy(cfg.Settings[fsGroupPolicy])
	object.Spec.FSGroupPolicy = &policy
	return nil
}

// cloudConfig returns the Secret that the StorageClasses name. Sidecars and kubelets pass its content to the driver. The content has the paths of the
// credentials in the driver's pods (cloud-provider-openstack c453fb7c9, pkg/client/client.go AuthOpts). It also has the CA certificates of the cloud,
// which the pods mount.
func cloudConfig() *driver.Derived {
	return &driver.Derived{
		Name: secrets, Workloads: []driver.Workload{driver.Controller, driver.Node},
		ConfigMaps: []driver.DerivedConfigMap{openstack.InstallersConfig()},
		Build: func(inputs driver.DerivedInputs) (map[string][]byte, error) {
			if err := openstack.CheckClouds(inputs, credentials); err != nil {
				return nil, err
			}
			certificates, err := openstack.CA(inputs, credentials)
			if err != nil {
				return nil, err
			}
			content := map[string][]byte{
				"os-cloud": []byte(openstack.CloudName), "os-useClouds": []byte("true"), "os-cloudsFile": []byte("/etc/openstack/" + openstack.CloudsYAML),
			}
			if certificates != "" {
				content[driver.CloudCAKey], content["os-certAuthorityPath"] = []byte(certificates), []byte(openstack.CAFile)
			}
			return content, nil
		},
	}
}
