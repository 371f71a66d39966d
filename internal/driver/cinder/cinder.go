// Package cinder describes the OpenStack Cinder CSI driver, cinder.csi.openstack.org.
package cinder

import (
	"embed"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/openstack"
)

//go:embed assets
var assets embed.FS

const credentials = "openstack-cloud-credentials"

// Driver returns the Cinder CSI driver. Names, ports and limits come from openshift/csi-operator f7f9dc59,
// pkg/driver/openstack-cinder/openstack_cinder.go.
func Driver() driver.Driver {
	access := openstack.Credentials("controller.yaml", "openstack-cinder-csi-driver-operator", credentials, "OpenStackCinderCloudCredentials")
	// The driver reads the Secret only when it starts. So a change of the credentials must restart the controller. The derived Secret contains nothing
	// of this Secret, so that a rotation does not restart node pods.
	access.Workload = driver.Controller
	cloud := openstack.Cloud(credentials)
	cloud.Zones = true
	return driver.Driver{
		Name: "cinder.csi.openstack.org", Operator: "openstack-cinder-csi-driver-operator", Platform: configv1.OpenStackPlatformType,
		Prefix: "openstack-cinder-csi-driver", ShortPrefix: "openstack-cinder", ConditionPrefix: "OpenStackCinder",
		DaemonSet: "openstack-cinder-csi-driver-node", Deployment: "openstack-cinder-csi-driver-controller",
		Payload: &driver.Payload{Title: "OpenStack Cinder", Variable: "OPENSTACK_CINDER_DRIVER"},
		Assets:  assets,
		Metrics: map[driver.Workload]driver.Metrics{driver.Controller: {Name: "driver", Loopback: 8202, Port: 9202}},
		Sidecars: driver.BlockSidecars(driver.BlockOptions{
			Ports:       driver.BlockPorts{Controller: 10301, Node: 10300, Registrar: 10304, Metrics: 8203},
			Provisioner: []string{"--timeout=3m"},
			Attacher:    []string{"--timeout=3m"},
			// The timeout is that of OpenShift's operator (openshift/csi-operator f7f9dc59, assets/overlays/openstack-cinder/generated/standalone).
			ProbeTimeout: "10s",
		}),
		Credentials: []driver.Credentials{access},
		Derived:     cloudConfig(),
		Cloud:       cloud,
		// The driver itself knows no such taint (kubernetes/cloud-provider-openstack c453fb7c9).
		StartupTaint: "cinder.csi.openstack.org/agent-not-ready",
		Accepts:      accepts(),
		// A StorageClass can name a Secret that chooses one of several clouds (cloud-provider-openstack c453fb7c9, pkg/csi/cinder/controllerserver.go
		// CreateVolume). The rendered configuration has only one cloud.
		NamedSecrets: &driver.NamedSecrets{
			Advice: "The driver needs no such Secret, because the operator configures only one cloud: " +
				"docs/guide/driver-openstack-cinder.md#secrets-that-a-storageclass-names",
		},
		Mutations: []driver.Mutation{openstack.NameCluster("--cluster")},
		// The predecessor's pods mounted these ConfigMaps (openshift/csi-operator f7f9dc59, pkg/openstack-cinder/util/const.go).
		Obsolete: driver.Obsolete{ConfigMaps: []string{"cloud-conf", openstack.PredecessorCloudConfig}},
		LegacyConditions: append(driver.PredecessorConditions("OpenStackCinder"), "ConfigSyncDegraded",
			"OpenStackCinderDriverConditionalStaticResourcesControllerDegraded"),
	}
}
