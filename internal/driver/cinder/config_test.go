package cinder

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/driver"
)

const canary = "s3cr3t"

// cloud returns the inputs of a cluster with changed ConfigMaps.
func cloud(change func(maps map[string]map[string]string), facts driver.CloudFacts, previous string) driver.DerivedInputs {
	inputs := driver.DerivedInputs{
		ConfigMaps: map[string]map[string]string{}, Cloud: facts,
		Secrets: map[string]map[string][]byte{credentials: {"clouds.yaml": []byte("clouds: {openstack: {auth: {auth_url: https://k, password: " + canary + "}}}")}},
	}
	if previous != "" {
		inputs.Previous = map[string][]byte{enableTopology: []byte(previous)}
	}
	if change != nil {
		change(inputs.ConfigMaps)
	}
	return inputs
}

func users(text, topology string) func(map[string]map[string]string) {
	return func(maps map[string]map[string]string) {
		maps[usersConfig] = map[string]string{usersConfigKey: text}
		if topology != "" {
			maps[usersConfig][enableTopology] = topology
		}
	}
}

func installers(text string) func(map[string]map[string]string) {
	return func(maps map[string]map[string]string) {
		maps["kube-cloud-config"] = map[string]string{"cloud.conf": text}
	}
}

func zones(compute, volume string) driver.CloudFacts {
	return driver.CloudFacts{Known: true, ComputeZones: strings.Fields(compute), VolumeZones: strings.Fields(volume)}
}

const global = "[Global]\nuse-clouds = true\nclouds-file = /etc/kubernetes/secret/clouds.yaml\ncloud = openstack\n"

func TestTheConfigurationIsTheUsersOrTheInstallers(t *testing.T) {
	const kept = "[BlockStorage]\nignore-volume-az = true\n"
	same := zones("nova", "nova")
	for name, tc := range map[string]struct {
		inputs           driver.DerivedInputs
		controller, node string
	}{
		"nobody's":        {cloud(nil, same, ""), global, ""},
		"the installer's": {cloud(installers("[Global]\nsecret-name = a\n[BlockStorage]\nignore-volume-az = true\n"), same, ""), kept + global, kept},
		"the user's": {cloud(func(maps map[string]map[string]string) {
			installers("[BlockStorage]\na = 1\n")(maps)
			users(kept, "")(maps)
		}, same, ""), kept + global, kept},
		"an empty one":     {cloud(func(maps map[string]map[string]string) { installers(kept)(maps); users("", "")(maps) }, same, ""), global, ""},
		"what is outdated": {cloud(installers("[BlockStorage]\ntrust-device-path = false\n"), same, ""), global, ""},
		"credentials": {
			cloud(installers("[Global]\npassword = "+canary+"\n[BlockStorage]\ntrust-device-path = /dev\nignore-volume-az = true\n"), same, ""), kept + global, kept,
		},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := build(tc.inputs)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{controllerConf: tc.controller, nodeConf: tc.node, enableTopology: "true"}
			got := map[string]string{}
			for key, value := range content {
				got[key] = string(value)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The user's setting takes precedence over the cloud's answer. A missing answer changes nothing.
func TestTopologyFollowsTheUserOrTheZones(t *testing.T) {
	unknown := driver.CloudFacts{}
	for name, tc := range map[string]struct {
		inputs driver.DerivedInputs
		want   string
	}{
		"the same zones":                      {cloud(nil, zones("a b", "a b"), ""), "true"},
		"more zones of volumes":               {cloud(nil, zones("a", "a b"), ""), "true"},
		"fewer zones of volumes":              {cloud(nil, zones("a b", "a"), "true"), "false"},
		"others":                              {cloud(nil, zones("nova", "cinder"), "true"), "false"},
		"as many, others":                     {cloud(nil, zones("a b", "a c"), ""), "false"},
		"the user says yes":                   {cloud(users("", "true"), zones("a", "b"), ""), "true"},
		"the user says no":                    {cloud(users("", "false"), zones("a", "a"), "true"), "false"},
		"the user says it before the cloud":   {cloud(users("", "True"), unknown, ""), "true"},
		"the cloud was asked before":          {cloud(nil, unknown, "true"), "true"},
		"the cloud was asked before, said no": {cloud(nil, unknown, "false"), "false"},
		"no zone is available":                {cloud(nil, zones("", ""), "true"), "true"},
		"no zone of volumes is available":     {cloud(nil, zones("a", ""), "true"), "true"},
		"no zone is there, and never was":     {cloud(nil, zones("", "a"), ""), "false"},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := build(tc.inputs)
			if err != nil || string(content[enableTopology]) != tc.want {
				t.Errorf("%s, %v; want %s", content[enableTopology], err, tc.want)
			}
		})
	}
}

func TestBeforeTheCloudHasAnsweredThereIsNothingToStartWith(t *testing.T) {
	if content, err := build(cloud(nil, driver.CloudFacts{}, "")); !errors.Is(err, driver.ErrCloudUnknown) || content != nil {
		t.Errorf("%v, %v", content, err)
	}
}

func TestWhatCanNotBeFollowedIsSaid(t *testing.T) {
	same := zones("nova", "nova")
	for want, inputs := range map[string]driver.DerivedInputs{
		"ConfigMap openshift-config/cinder-csi-config has no key config: add it": cloud(
			func(maps map[string]map[string]string) {
				maps[usersConfig] = map[string]string{"conf": "[BlockStorage]"}
			}, same, ""),
		"the ConfigMap openshift-config/cinder-csi-config can't be used: line 1 belongs to no section: correct it": cloud(users(canary, ""), same, ""),
		"the ConfigMap openshift-config-managed/kube-cloud-config can't be used: line 2 ends with":                 cloud(installers("[Global]\npassword="+canary+"\\"), same, ""),
		`key enable_topology of the ConfigMap openshift-config/cinder-csi-config must be "true" or "false"`:        cloud(users("", canary), same, ""),
		"key ca-bundle.pem of ConfigMap openshift-config-managed/kube-cloud-config has no CA certificate in PEM": cloud(
			func(maps map[string]map[string]string) {
				maps["kube-cloud-config"] = map[string]string{"ca-bundle.pem": canary}
			}, same, ""),
	} {
		_, err := build(inputs)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// What gcfg makes of each value was recorded from gopkg.in/gcfg.v1 v1.2.3 with the fields of the driver. A value that it can't read ends the driver.
func TestValuesThatTheDriverCanNotReadAreRefused(t *testing.T) {
	const number, boolean = "node-volume-attach-limit", "Rescan-On-Resize"
	for line, ends := range map[string]bool{
		number + " = 25": false, number + " = 0": false, number + " = -1": false, number + " = +5": false, number + " = 0x1F": false,
		number + " = 010": false, number + " = \"25\"": false, number + " = 25 ; c": false,
		number + " = ten": true, number + " = 1.5": true, number + " = 1e3": true, number + " = 1,2": true, number + " = 2 5": true, number: true,
		number + " = 9223372036854775808": true, number + " = true": true, number + " = 0X1F": true, number + " = +0x1F": true, number + " = +": true,
		boolean + " = TRUE": false, boolean + " = yes": false, boolean + " = off": false, boolean + " = 1": false, boolean: false,
		boolean + " = 2": true, boolean + " = t": true, boolean + " = y": true, boolean + " = enabled": true, boolean + " = true true": true,
		"ignore-volume-az = nova": true, "ignore-volume-microversion = 3.59": true, "some-new-key = a b": false,
	} {
		content, err := build(cloud(users("[BlockStorage]\n"+line+"\n", "true"), driver.CloudFacts{}, ""))
		if (err != nil) != ends || ends && content != nil {
			t.Errorf("%q: error %v, want one: %v", line, err, ends)
		}
	}
	_, err := build(cloud(users("[BlockStorage]\n"+number+" = "+canary+"\n", "true"), driver.CloudFacts{}, ""))
	const want = "the ConfigMap openshift-config/cinder-csi-config can't be used: the value of key node-volume-attach-limit in section BlockStorage " +
		"must be a whole number: correct it"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
