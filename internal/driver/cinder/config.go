package cinder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/openstack"
)

// Keys of the Secret that pods mount. The configuration of node pods names no clouds file. The node service does not call the cloud, but it would not
// start if the configuration named a missing file (cloud-provider-openstack c453fb7c9, cmd/cinder-csi-plugin/main.go handle).
const (
	controllerConf = "cloud.conf"
	nodeConf       = "node.conf"
	enableTopology = "enable_topology"
)

// usersConfig is the administrator's ConfigMap. Key usersConfigKey of this ConfigMap has the configuration.
const (
	usersConfig    = "cinder-csi-config"
	usersConfigKey = "config"
)

// blockStorage is the only section of a configuration that the operator keeps (openshift/csi-operator f7f9dc59,
// pkg/openstack-cinder/config/configsync.go).
const blockStorage = "BlockStorage"

// cloudConfig returns the Secret with the configuration of the driver.
func cloudConfig() *driver.Derived {
	return &driver.Derived{
		Name: "openstack-cinder-csi-driver-cloud-config", Workloads: []driver.Workload{driver.Controller, driver.Node},
		ConfigMaps: []driver.DerivedConfigMap{
			{ObjectKey: client.ObjectKey{Namespace: "openshift-config", Name: usersConfig}, Optional: true}, openstack.InstallersConfig(),
		},
		FromCloud: true,
		Build:     build,
	}
}

// build makes the configuration from the administrator's ConfigMap, or else from the installer's ConfigMap.
func build(inputs driver.DerivedInputs) (map[string][]byte, error) {
	if err := openstack.CheckClouds(inputs, credentials); err != nil {
		return nil, err
	}
	certificates, err := openstack.CA(inputs, credentials)
	if err != nil {
		return nil, err
	}
	source, err := sourceOf(inputs)
	if err != nil {
		return nil, err
	}
	section, err := openstack.SectionOf(source.text, blockStorage)
	if err != nil {
		return nil, fmt.Errorf("the %s can't be used: %w: correct it", source.name, err)
	}
	if err := checkSection(section); err != nil {
		return nil, fmt.Errorf("the %s can't be used: the %w: correct it", source.name, err)
	}
	// Newer drivers do not accept the key trust-device-path.
	kept := section.Without("trust-device-path").Write(blockStorage)
	topology, err := source.hasTopology(inputs)
	if err != nil {
		return nil, err
	}
	global := openstack.Section{
		{Key: "use-clouds", Value: "true"}, {Key: "clouds-file", Value: "/etc/kubernetes/secret/" + openstack.CloudsYAML},
		{Key: "cloud", Value: openstack.CloudName},
	}
	content := map[string][]byte{nodeConf: []byte(kept), enableTopology: []byte(strconv.FormatBool(topology))}
	if certificates != "" {
		global = append(global, openstack.Pair{Key: "ca-file", Value: openstack.CAFile})
		content[driver.CloudCAKey] = []byte(certificates)
	}
	content[controllerConf] = []byte(kept + global.Write("Global"))
	return content, nil
}

// source is the input from which the operator makes the driver's configuration.
type source struct {
	// name is the name of the source in messages. text is the INI file. topology is the administrator's setting for zones. If topology is empty, the
	// operator derives the setting from the zones of the cloud.
	name, text, topology string
}

func sourceOf(inputs driver.DerivedInputs) (source, error) {
	if users := inputs.ConfigMaps[usersConfig]; users != nil {
		name := "ConfigMap openshift-config/" + usersConfig
		text, found := users[usersConfigKey]
		if !found {
			return source{}, fmt.Errorf("%s has no key %s: add it, or delete the ConfigMap", name, usersConfigKey)
		}
		return source{name, text, users[enableTopology]}, nil
	}
	text, all := openstack.InstallersConf(inputs)
	return source{"ConfigMap " + openstack.InstallersConfig().String(), text, all[enableTopology]}, nil
}

// hasTopology reports whether the driver provisions a volume in the zone of the first node that uses the volume. That requires a zone of Cinder for
// each zone of Nova. Until the cloud answers, the last value stays in effect.
func (s source) hasTopology(inputs driver.DerivedInputs) (bool, error) {
	if s.topology != "" {
		enabled, err := strconv.ParseBool(s.topology)
		if err != nil {
			return false, fmt.Errorf("key %s of the %s must be \"true\" or \"false\": correct the key, or remove it. Without the key, "+
				"the operator compares the zones of the cloud to decide", enableTopology, s.name)
		}
		return enabled, nil
	}
	facts := inputs.Cloud
	if !facts.Known || len(facts.ComputeZones) == 0 || len(facts.VolumeZones) == 0 {
		if before, err := strconv.ParseBool(string(inputs.Previous[enableTopology])); err == nil {
			return before, nil
		}
		if !facts.Known {
			return false, driver.ErrCloudUnknown
		}
		return false, nil
	}
	return !slices.ContainsFunc(facts.ComputeZones, func(zone string) bool { return !slices.Contains(facts.VolumeZones, zone) }), nil
}

// checkSection returns an error for a key with an invalid value. The error names the key, but not the value, which can be a misplaced secret.
func checkSection(section openstack.Section) error {
	for _, pair := range section {
		if why := accepts().Refusal(accept.File, blockStorage+"/"+strings.ToLower(pair.Key), pair.Value); why != "" {
			return fmt.Errorf("value of key %s in section %s %s", strings.ToLower(pair.Key), blockStorage, why)
		}
	}
	return nil
}
