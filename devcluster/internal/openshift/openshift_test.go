package openshift

import (
	"strings"
	"testing"
	"testing/fstest"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"
)

func profile(topology configv1.TopologyMode, nodes int) Profile {
	return Profile{Name: "dev-abcde", Nodes: nodes, Topology: topology, Platform: "AWS", Region: "us-east-1", CredentialsMode: Mint}
}

func TestProfileIsCheckedInTermsOfFlags(t *testing.T) {
	edited := func(edit func(*Profile)) Profile {
		p := profile(configv1.HighlyAvailableTopologyMode, 6)
		edit(&p)
		return p
	}
	for name, test := range map[string]struct {
		profile Profile
		want    string
	}{
		"highly available":           {profile(configv1.HighlyAvailableTopologyMode, 6), ""},
		"highly available, one node": {profile(configv1.HighlyAvailableTopologyMode, 1), "--topology SingleReplica"},
		"single":                     {profile(configv1.SingleReplicaTopologyMode, 1), ""},
		"single, many nodes":         {profile(configv1.SingleReplicaTopologyMode, 3), "--nodes is 3"},
		"external":                   {profile(configv1.ExternalTopologyMode, 2), ""},
		"no nodes":                   {profile(configv1.ExternalTopologyMode, 0), "--nodes is 0"},
		"real nodes":                 {edited(func(p *Profile) { p.RealNodes = 6 }), ""},
		"more real nodes than nodes": {edited(func(p *Profile) { p.RealNodes = 7 }), "--real-nodes is 7"},
		"too many real nodes":        {edited(func(p *Profile) { p.Nodes, p.RealNodes = 20, 16 }), "addresses for 15"},
		"unknown topology":           {profile("Flat", 6), "HighlyAvailable, SingleReplica, External"},
		"unknown platform":           {edited(func(p *Profile) { p.Platform = "Moon" }), ""},
		"no platform":                {edited(func(p *Profile) { p.Platform = "" }), "--platform is empty"},
		"no region":                  {edited(func(p *Profile) { p.Region = "" }), "--region"},
		"a region that is no label":  {edited(func(p *Profile) { p.Region = "us east" }), "--region"},
		"unknown mode":               {edited(func(p *Profile) { p.CredentialsMode = "Magic" }), "--credentials-mode"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.profile.Validate()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestTheFeatureGateListsTheGatesOfKubernetes(t *testing.T) {
	p := profile(configv1.HighlyAvailableTopologyMode, 4)
	p.FeatureGates = map[string]bool{"VolumeLimitScaling": true, "ContextualLogging": false}
	got := p.featureGate().Status.FeatureGates
	want := []configv1.FeatureGateDetails{{
		Version:  ReleaseVersion,
		Enabled:  []configv1.FeatureGateAttributes{{Name: "AWSEFSDriverVolumeMetrics"}, {Name: "VolumeAttributesClass"}, {Name: "VolumeLimitScaling"}},
		Disabled: []configv1.FeatureGateAttributes{{Name: "ContextualLogging"}, {Name: "VolumeGroupSnapshot"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTheLastNodesAreReal(t *testing.T) {
	p := profile(configv1.HighlyAvailableTopologyMode, 4)
	p.RealNodes = 2
	if got := strings.Join(p.RealNodeNames(), " "); got != "master-2 worker-0" {
		t.Errorf("got %s", got)
	}
	for i, object := range p.nodes() {
		node := object.(*corev1.Node)
		_, isReal := node.Labels[RealLabel]
		if isReal != (i >= 2) || isReal != (node.Status.Capacity == nil) || node.Spec.ProviderID != p.ProviderID(node.Name) {
			t.Errorf("node %s: labels %v, capacity %v, provider ID %s", node.Name, node.Labels, node.Status.Capacity, node.Spec.ProviderID)
		}
	}
}

func TestPlatformThatNobodyKnowsIsAllowedWithAWarning(t *testing.T) {
	p := profile(configv1.HighlyAvailableTopologyMode, 6)
	if got := p.Warning(); got != "" {
		t.Errorf("AWS: warned: %s", got)
	}
	p.Platform = "Moon"
	if got := p.Warning(); !strings.Contains(got, "--platform Moon") {
		t.Errorf("got %q", got)
	}
	data := `{"kind": "CustomResourceDefinition", "spec": {"names": {"kind": "Infrastructure"}, "versions": [{"schema": {"openAPIV3Schema":
		{"properties": {"status": {"properties": {"platform": {"enum": ["AWS"]}, "cpuPartitioning": {"enum": ["None"]}}}}}}}]}}`
	all, err := crds(fstest.MapFS{"crds/infrastructures.yaml": {Data: []byte(data)}})
	if err != nil {
		t.Fatal(err)
	}
	fields := all[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties
	if len(fields["platform"].Enum) != 0 || len(fields["cpuPartitioning"].Enum) != 1 {
		t.Errorf("fields are %+v", fields)
	}
}

func TestNodesHaveTheRolesOfTheTopology(t *testing.T) {
	const ha, single, external = configv1.HighlyAvailableTopologyMode, configv1.SingleReplicaTopologyMode, configv1.ExternalTopologyMode
	for name, test := range map[string]struct {
		profile Profile
		want    []string
	}{
		"highly available": {profile(ha, 5), []string{"master-0 M!", "master-1 M!", "master-2 M!", "worker-0 W", "worker-1 W"}},
		"small":            {profile(ha, 2), []string{"master-0 M!", "worker-0 W"}},
		"single":           {profile(single, 1), []string{"master-0 MW"}},
		"external":         {profile(external, 2), []string{"worker-0 W", "worker-1 W"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, object := range test.profile.nodes() {
				node := object.(*corev1.Node)
				text := node.Name + " "
				for label, letter := range map[string]string{masterLabel: "M", workerLabel: "W"} {
					if _, ok := node.Labels[label]; ok {
						text += letter
					}
				}
				got = append(got, strings.ReplaceAll(text, "WM", "MW")+strings.Repeat("!", len(node.Spec.Taints)))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNodesHaveDifferentAddresses(t *testing.T) {
	seen := map[string]bool{}
	for _, object := range profile(configv1.ExternalTopologyMode, 500).nodes() {
		address := object.(*corev1.Node).Status.Addresses[0].Address
		if seen[address] {
			t.Fatalf("%s is given twice", address)
		}
		seen[address] = true
	}
}

func TestOnlySTSHasAnIssuerOfItsOwn(t *testing.T) {
	p := profile(configv1.HighlyAvailableTopologyMode, 6)
	if got := p.authentication().Spec.ServiceAccountIssuer; got != "" {
		t.Errorf("mint: got issuer %q", got)
	}
	p.CredentialsMode = STS
	if got := p.authentication().Spec.ServiceAccountIssuer; got != p.Issuer() || !strings.Contains(got, p.Name) {
		t.Errorf("STS: got issuer %q, the tokens have %q", got, p.Issuer())
	}
}

func TestBinaryWithoutCRDsSaysHowToBuildIt(t *testing.T) {
	_, err := crds(fstest.MapFS{"crds/README.md": {}, "standins/credentialsrequests.yaml": {}})
	if err == nil || !strings.Contains(err.Error(), "make bin/devcluster") {
		t.Errorf("got %v", err)
	}
}

func TestCRDsAreDecodedStrictly(t *testing.T) {
	for name, data := range map[string]string{
		"unknown field": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nsurprise: true\n",
		"another kind":  "apiVersion: v1\nkind: Secret\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := crds(fstest.MapFS{"crds/bad.yaml": {Data: []byte(data)}}); err == nil || !strings.Contains(err.Error(), "crds/bad.yaml") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOwnCRDIsValid(t *testing.T) {
	data, err := crdFiles.ReadFile("standins/credentialsrequests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := crds(fstest.MapFS{"crds/own.yaml": {Data: data}})
	if err != nil || len(all) != 1 || all[0].Name != "credentialsrequests.cloudcredential.openshift.io" {
		t.Errorf("got %s (%v)", names(all), err)
	}
}
