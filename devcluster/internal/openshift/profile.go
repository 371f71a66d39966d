// Package openshift makes a plain control plane look like an OpenShift cluster. It adds the CRDs, the configuration, the namespaces and the nodes
// of such a cluster.
package openshift

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
)

// CredentialsMode says how the cluster provides credentials for its cloud.
type CredentialsMode string

const (
	// Mint means that the cluster makes new credentials for every request.
	Mint CredentialsMode = "Mint"
	// Manual means that the administrator creates the credentials.
	Manual CredentialsMode = "Manual"
	// STS is manual mode with an issuer of tokens that the cloud trusts. Pods exchange these tokens for credentials.
	STS CredentialsMode = "STS"
)

const (
	// ReleaseVersion is the version of OpenShift that the cluster reports.
	ReleaseVersion = "4.21.0"
	// MaxControlPlaneNodes is the largest number of control-plane nodes in a highly available cluster.
	MaxControlPlaneNodes = 3
)

// Profile describes the simulated cluster.
type Profile struct {
	// Name is the infrastructure name, such as "dev-x7k2p".
	Name            string                `json:"name"`
	Nodes           int                   `json:"nodes"`
	RealNodes       int                   `json:"realNodes,omitempty"`
	Topology        configv1.TopologyMode `json:"topology"`
	Platform        configv1.PlatformType `json:"platform"`
	Region          string                `json:"region"`
	CredentialsMode CredentialsMode       `json:"credentialsMode"`
	// FeatureGates are the feature gates of Kubernetes whose value is not the default.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// NewName draws an infrastructure name.
func NewName() string {
	return "dev-" + strings.ToLower(rand.Text()[:5])
}

// Validate returns the first fault of the profile. The error names the flag.
func (p Profile) Validate() error {
	if err := oneOf("--topology", p.Topology,
		configv1.HighlyAvailableTopologyMode, configv1.SingleReplicaTopologyMode, configv1.ExternalTopologyMode); err != nil {
		return err
	}
	if p.Platform == "" {
		return fmt.Errorf("--platform is empty: name a platform, such as AWS, or None")
	}
	if err := oneOf("--credentials-mode", p.CredentialsMode, Mint, Manual, STS); err != nil {
		return err
	}
	if p.Region == "" {
		return fmt.Errorf("--region is empty: name a region, such as us-east-1")
	}
	// The zone of a node is the region and a letter. The zone becomes the value of a label.
	if problems := validation.IsValidLabelValue(p.Region + "a"); len(problems) > 0 {
		return fmt.Errorf("--region %q can't be a label of a node (%s): name a region, such as us-east-1", p.Region, problems[0])
	}
	switch {
	case p.RealNodes < 0 || p.RealNodes > p.Nodes:
		return fmt.Errorf("--real-nodes is %d: it must be between 0 and the number of all nodes, %d", p.RealNodes, p.Nodes)
	case p.RealNodes > node.MaxNodes:
		return fmt.Errorf("--real-nodes is %d: one machine has addresses for %d", p.RealNodes, node.MaxNodes)
	case p.Nodes < 1:
		return fmt.Errorf("--nodes is %d: a cluster needs at least one node", p.Nodes)
	case p.Topology == configv1.SingleReplicaTopologyMode && p.Nodes != 1:
		return fmt.Errorf("--nodes is %d, but topology %s has exactly one node: omit --nodes, or choose another --topology",
			p.Nodes, p.Topology)
	case p.Topology == configv1.HighlyAvailableTopologyMode && p.Nodes < 2:
		return fmt.Errorf("--nodes is %d, but topology %s needs a control-plane node and a worker: give --nodes 2 or more, or --topology %s",
			p.Nodes, p.Topology, configv1.SingleReplicaTopologyMode)
	}
	return nil
}

// Warning returns a warning if OpenShift does not know the platform. Such a profile is allowed, because operators must also work on unknown
// platforms.
func (p Profile) Warning() string {
	if err := oneOf("--platform", p.Platform, platforms()...); err != nil {
		return fmt.Sprintf("--platform %s: OpenShift has no such platform; the cluster uses it anyway", p.Platform)
	}
	return ""
}

// ControlPlaneNodes returns the number of nodes of the control plane. A small highly available cluster keeps one worker, for pods that do not run on
// the control plane.
func (p Profile) ControlPlaneNodes() int {
	switch p.Topology {
	case configv1.ExternalTopologyMode:
		return 0
	case configv1.SingleReplicaTopologyMode:
		return 1
	default:
		return min(MaxControlPlaneNodes, p.Nodes-1)
	}
}

// Issuer returns the issuer of ServiceAccount tokens. A cluster in STS mode has an issuer of its own, because the cloud must trust the tokens.
func (p Profile) Issuer() string {
	if p.CredentialsMode == STS {
		return fmt.Sprintf("https://%s-oidc.s3.%s.amazonaws.com", p.Name, p.Region)
	}
	return "https://kubernetes.default.svc"
}

func platforms() []configv1.PlatformType {
	return []configv1.PlatformType{
		configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.ExternalPlatformType,
		configv1.GCPPlatformType, configv1.IBMCloudPlatformType, configv1.KubevirtPlatformType, configv1.LibvirtPlatformType,
		configv1.NonePlatformType, configv1.NutanixPlatformType, configv1.OpenStackPlatformType, configv1.OvirtPlatformType,
		configv1.PowerVSPlatformType, configv1.VSpherePlatformType,
	}
}

func oneOf[T ~string](flag string, got T, allowed ...T) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	names := make([]string, 0, len(allowed))
	for _, a := range allowed {
		names = append(names, string(a))
	}
	return fmt.Errorf("%s is %q: it must be one of %s", flag, got, strings.Join(names, ", "))
}
