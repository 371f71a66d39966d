// Package gcppd is the GCP PD CSI driver, pd.csi.storage.gke.io.
package gcppd

import (
	"embed"
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
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
		// GCP takes minutes to attach a disk, or to copy one.
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
		Check: func(cfg driver.Config) []string {
			_, problems := tagsOf(cfg)
			return problems
		},
		Mutations: []driver.Mutation{driver.MutatePods(label), driver.Mutate(encrypt), driver.ReadNodes("get")},
		// Its controller was privileged once (openshift/csi-operator f7f9dc59, pkg/driver/gcp-pd/gcp_pd.go).
		Obsolete:         driver.Obsolete{ClusterRoleBindings: []string{"gcp-pd-controller-privileged-binding"}},
		LegacyConditions: driver.PredecessorConditions("GCPPD"),
	}
}

// wanted leaves out the StorageClasses of kinds of disks that the region does not have: dedicated ones have only the newest.
func wanted(cfg driver.Config, object client.Object) bool {
	class, isClass := object.(*storagev1.StorageClass)
	return !isClass || strings.HasPrefix(cfg.Region, "u-") == (class.Name == "hyperdisk-balanced")
}

// label tells the driver what to put on all that it makes. By the label with the cluster's ID it is found when the cluster is destroyed.
func label(cfg driver.Config, pods driver.Pods) error {
	if pods.Workload != driver.Controller {
		return nil
	}
	var labels []string
	if cfg.Platform != nil && cfg.Platform.GCP != nil {
		for _, label := range cfg.Platform.GCP.ResourceLabels {
			labels = append(labels, label.Key+"="+label.Value)
		}
	}
	if cfg.InfrastructureID != "" {
		labels = append(labels, "kubernetes-io-cluster-"+cfg.InfrastructureID+"=owned")
	}
	tags, _ := tagsOf(cfg)
	return pods.AddLists(map[string][]string{"--extra-labels": labels, "--extra-tags": tags})
}

// tagsOf divides the resource tags into those for the driver and a problem for each other one. The driver ends when it can't read its flags
// (kubernetes-sigs/gcp-compute-persistent-disk-csi-driver v1.26.4, pkg/convert/convert.go). Its patterns are those of OpenShift's API, but it
// splits tags at commas first.
func tagsOf(cfg driver.Config) (tags, problems []string) {
	if cfg.Platform == nil || cfg.Platform.GCP == nil {
		return nil, nil
	}
	for _, tag := range cfg.Platform.GCP.ResourceTags {
		text := tag.ParentID + "/" + tag.Key + "/" + tag.Value
		if strings.Contains(text, ",") {
			problems = append(problems, fmt.Sprintf("resource tag %q of the Infrastructure cluster is not put on disks: the driver's flag --extra-tags "+
				"separates tags by commas", text))
			continue
		}
		tags = append(tags, text)
	}
	return tags, problems
}

// encrypt names the key of the ClusterCSIDriver in the StorageClasses.
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
