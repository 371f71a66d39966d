package vsphere

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
)

const (
	// configSecret is the Secret that the operator creates. Pods mount its key cloudConf. Its key migrationURL is only for the operator.
	configSecret = "vsphere-csi-config-secret"
	cloudConf    = cloudconfig.ConfigKey
	migrationURL = "migration-datastore-url"
	// caFile is the file with the CA certificates that the driver trusts. The operator mounts the cluster's CA certificates there, if the cluster has
	// such certificates. Otherwise, the file has the CA certificates of the image.
	caFile = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
	// kubeCloudConfig has the cloud configuration that the installer or an administrator wrote, in key cloudConf (openshift/cluster-config-operator
	// 480a465, pkg/operator/kube_cloud_config/controller.go, asIsTransformer).
	kubeCloudConfig = "kube-cloud-config"
)

// The limits of the driver (kubernetes-sigs/vsphere-csi-driver bf8090256, pkg/common/config/config.go validateConfig).
const (
	mostVCenters, mostCategories, longestID = 5, 5, 64
)

// installersConfig returns the configuration of the cloud.
func installersConfig() driver.DerivedConfigMap {
	return driver.DerivedConfigMap{ObjectKey: client.ObjectKey{Namespace: driver.ManagedNamespace, Name: kubeCloudConfig}}
}

// cloudConfig returns the Secret with the configuration of two containers: the driver and the syncer.
func cloudConfig() *driver.Derived {
	return &driver.Derived{
		Name: configSecret, Workloads: []driver.Workload{driver.Controller}, ConfigMaps: []driver.DerivedConfigMap{installersConfig()},
		FromCloud: true, FromCluster: true, Build: build,
	}
}

// build makes the configuration. An error can contain the names of servers and keys, but contains no value of the Secret.
func build(inputs driver.DerivedInputs) (map[string][]byte, error) {
	text, found := inputs.ConfigMaps[kubeCloudConfig][cloudConf]
	from := fmt.Sprintf("key %s of ConfigMap %s", cloudConf, installersConfig())
	if !found {
		return nil, fmt.Errorf("%s, which lists the cluster's vCenters, is missing: correct its source, the ConfigMap of namespace "+
			"openshift-config that spec.cloudConfig.name of Infrastructure cluster names", from)
	}
	config, err := cloudconfig.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s can't be used: %s", from, whyOf(err))
	}
	if err := checkServers(config, inputs.Cluster); err != nil {
		return nil, fmt.Errorf("%s can't be used: %w", from, err)
	}
	topology := categories(inputs.Cluster.VSphere, configOf(inputs.Cluster.DriverConfig))
	if err := checkCategories(topology, len(config.VCenters)); err != nil {
		return nil, err
	}
	url, err := datastoreURL(inputs, len(config.VCenters))
	if err != nil {
		return nil, err
	}
	sections, err := vCenters(config, inputs.Secrets[credentials], url)
	if err != nil {
		return nil, err
	}
	sections = slices.Concat([]section{global(inputs.Cluster)}, sections, []section{labels(topology), snapshots(inputs.Cluster)})
	content := map[string][]byte{}
	for _, one := range sections {
		content[cloudConf] = append(content[cloudConf], one.String()...)
	}
	if url != "" {
		content[migrationURL] = []byte(url)
	}
	return content, nil
}

// whyOf returns the reason of an error, without its prefix.
func whyOf(err error) string {
	var own *cloudconfig.Error
	if errors.As(err, &own) {
		return own.Why
	}
	return err.Error()
}

func global(cluster driver.DerivedCluster) section {
	made := section{name: "Global"}
	made.set("cluster-id", cluster.InfrastructureID)
	// The vCenter shows the distribution beside each volume.
	made.set("cluster-distribution", "OpenShift")
	return made
}

func labels(topology []string) section {
	made := section{name: "Labels"}
	made.set("topology-categories", strings.Join(topology, ","))
	return made
}

func snapshots(cluster driver.DerivedCluster) section {
	made, config := section{name: "Snapshot"}, configOf(cluster.DriverConfig)
	for _, limit := range []struct {
		key   string
		value *uint32
	}{
		{"global-max-snapshots-per-block-volume", config.GlobalMaxSnapshotsPerBlockVolume},
		{"granular-max-snapshots-per-block-volume-vsan", config.GranularMaxSnapshotsPerBlockVolumeInVSAN},
		{"granular-max-snapshots-per-block-volume-vvol", config.GranularMaxSnapshotsPerBlockVolumeInVVOL},
	} {
		if limit.value != nil {
			made.set(limit.key, strconv.FormatUint(uint64(*limit.value), 10))
		}
	}
	return made
}

func vCenters(config cloudconfig.Config, secret map[string][]byte, url string) ([]section, error) {
	logins, err := cloudconfig.Logins(config, secret)
	if err != nil {
		return nil, fmt.Errorf("the credentials in Secret %s can't be used: %s", credentials, whyOf(err))
	}
	made := make([]section, 0, len(config.VCenters))
	for _, one := range config.VCenters {
		login := logins[one.Server]
		if problem := cloudconfig.UserProblem(login.User); problem != "" {
			return nil, fmt.Errorf("the user of vCenter %s in Secret %s %s; %s: correct its source, Secret vsphere-creds in namespace kube-system",
				one.Server, credentials, problem, cloudconfig.UserAdvice)
		}
		next := section{name: "VirtualCenter", subsection: one.Server}
		next.set("user", login.User)
		next.set("password", login.Password)
		if one.Port != 0 {
			next.set("port", strconv.Itoa(one.Port))
		}
		next.set("datacenters", strings.Join(one.Datacenters, ","))
		switch {
		case one.Insecure:
			next.set("insecure-flag", "true")
		case one.Thumbprint != "":
			// Do not set ca-file, because the driver would then ignore the thumbprint. Without ca-file, the driver also trusts the CAs in its image. The
			// operator mounts the cluster's CAs in place of the image's CAs.
			next.set("thumbprint", one.Thumbprint)
		default:
			next.set("ca-file", caFile)
		}
		next.set(migrationURL, url)
		made = append(made, next)
	}
	return made, nil
}

// checkServers checks the limits of the driver. Parse has checked the syntax.
func checkServers(config cloudconfig.Config, cluster driver.DerivedCluster) error {
	if len(config.VCenters) > mostVCenters {
		return fmt.Errorf("it names %d vCenters, but the driver supports at most %d: remove some", len(config.VCenters), mostVCenters)
	}
	if why := accepts().Refusal(accept.File, clusterID, cluster.InfrastructureID); why != "" {
		return fmt.Errorf("the driver does not accept infrastructureName %q of the Infrastructure cluster: it %s", cluster.InfrastructureID, why)
	}
	return nil
}

// checkCategories validates the categories of the topology.
func checkCategories(topology []string, servers int) error {
	const where = "spec.driverConfig.vSphere.topologyCategories of ClusterCSIDriver " + driverName
	if servers > 1 && len(topology) == 0 {
		return errors.New("with several vCenters, the driver starts only with a topology: add failure domains to Infrastructure " +
			"cluster, or " + where)
	}
	if len(topology) > mostCategories {
		return fmt.Errorf("%s has %d categories, but the driver supports at most %d: remove some", where, len(topology), mostCategories)
	}
	seen := map[string]bool{}
	for i, category := range topology {
		if why := accepts().Refusal(accept.File, topologyCategories, category); why != "" {
			return fmt.Errorf("category %d in %s %s: correct it", i+1, where, why)
		}
		if seen[category] {
			return fmt.Errorf("category %s appears twice in %s: remove one", category, where)
		}
		seen[category] = true
	}
	return nil
}

// datastoreURL returns the URL of the datastore of in-tree volumes. The URL is empty if there is no such datastore. With several vCenters, the URL is
// also empty, because the operator can't find out which vCenter has the in-tree volumes. Without an answer of the vCenter, the previous URL stays in
// effect.
func datastoreURL(inputs driver.DerivedInputs, servers int) (string, error) {
	if servers > 1 {
		return "", nil
	}
	before := string(inputs.Previous[migrationURL])
	if !inputs.Cloud.Known && before == "" && inputs.Previous[cloudConf] == nil {
		return "", driver.ErrCloudUnknown
	}
	url := cmp.Or(inputs.Cloud.DatastoreURL, before)
	if !accept.IsPlain(url) {
		return "", errors.New("the URL of the default datastore has a line break: rename the datastore")
	}
	return url, nil
}
