// Package gcppd describes the GCP PD CSI driver, pd.csi.storage.gke.io.
package gcppd

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

//go:embed assets
var assets embed.FS

// Driver returns the GCP PD CSI driver.
func Driver() driver.Driver {
	return driver.Driver{
		Name: "pd.csi.storage.gke.io", Operator: "gcp-pd-csi-driver-operator", Platform: configv1.GCPPlatformType,
		Prefix: "gcp-pd-csi-driver", ShortPrefix: "gcp-pd", ConditionPrefix: "GCPPD",
		DaemonSet: "gcp-pd-csi-driver-node", Deployment: "gcp-pd-csi-driver-controller",
		Payload: &driver.Payload{Title: "GCP PD", Variable: "GCP_PD_DRIVER"},
		Assets:  assets,
		Metrics: map[driver.Workload]driver.Metrics{
			driver.Controller: {Name: "driver", Loopback: 8201, Port: 9201}, driver.Node: {Name: "driver", Loopback: 8206, Port: 9206},
		},
		// GCP needs minutes to attach or copy a disk.
		Sidecars: driver.BlockSidecars(driver.BlockOptions{
			Ports:       driver.BlockPorts{Controller: 10301, Node: 10300, Registrar: 10303, Metrics: 8202},
			Provisioner: []string{"--timeout=250s", "--controller-publish-readonly"},
			Attacher:    []string{"--timeout=250s"},
			Snapshotter: []string{"--timeout=300s"},
		}),
		Credentials: []driver.Credentials{{
			Asset: "controller.yaml", Request: "openshift-gcp-pd-csi-driver-operator", Secret: "gcp-pd-cloud-credentials",
			Workload: driver.Controller, Condition: "GCPPDCloudCredentials", Payload: true, Keys: [][]string{{"service_account.json"}},
		}},
		Wanted: wanted,
		// The driver defines this key (kubernetes-sigs/gcp-compute-persistent-disk-csi-driver v1.26.0, pkg/constants/constants.go StartupTaintKey).
		StartupTaint: "pd.csi.storage.gke.io/not-ready",
		Accepts:      accepts(),
		Mutations:    []driver.Mutation{driver.MutatePods(label), driver.Mutate(encrypt), driver.ReadNodes("get")},
		// The predecessor's controller was privileged (openshift/csi-operator f7f9dc59, pkg/driver/gcp-pd/gcp_pd.go). Our controller does not need this
		// binding.
		Obsolete:         driver.Obsolete{ClusterRoleBindings: []string{"gcp-pd-controller-privileged-binding"}},
		LegacyConditions: driver.PredecessorConditions("GCPPD"),
	}
}

// wanted reports whether the cluster gets an object. Regions whose names begin with u- are dedicated regions, and have only disk type
// hyperdisk-balanced. So they get only the StorageClass for this type. All other regions get the other StorageClasses.
func wanted(cfg driver.Config, object client.Object) bool {
	class, isClass := object.(*storagev1.StorageClass)
	return !isClass || strings.HasPrefix(cfg.Region, "u-") == (class.Name == "hyperdisk-balanced")
}

// label sets the labels and tags of all resources that the driver creates. When the installer destroys the cluster, it finds these resources by the
// label with the cluster's ID.
func label(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	labels := cfg.Labels
	if cfg.InfrastructureID != "" {
		labels = append(slices.Clone(labels), accept.Pair{Key: "kubernetes-io-cluster-" + cfg.InfrastructureID, Value: "owned"})
	}
	return errors.Join(pods.AddValue("--extra-labels", accepts().List(accept.Label).Text(labels)),
		pods.AddValue("--extra-tags", accepts().List(accept.Tag).Text(cfg.Tags)))
}

// encrypt copies the KMS key in the ClusterCSIDriver into the StorageClasses.
func encrypt(cfg driver.Config, class *storagev1.StorageClass) error {
	config := cfg.Spec.DriverConfig
	if config.DriverType != operatorv1.GCPDriverType || config.GCP == nil || config.GCP.KMSKey == nil {
		return nil
	}
	key := *config.GCP.KMSKey
	if key.Location == "" {
		key.Location = "global"
	}
	class.Parameters["disk-encryption-kms-key"] = fmt.Sprintf("projects/%s/locations/%s/keyRings/%s/cryptoKeys/%s",
		key.ProjectID, key.Location, key.KeyRing, key.Name)
	return nil
}
