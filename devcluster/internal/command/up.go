package command

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/program"
)

const defaultNodes = 6

// upFlags has the values of the flags of `up`, as the user gives them.
type upFlags struct {
	nodes           int
	realNodes       int
	topology        string
	platform        string
	region          string
	port            int
	credentialsMode string
	emulatedVersion string
	featureGates    string
	ownerPID        int
	programs        []string
	foreign         []string
}

func newUp(dir *string, streams Streams) *cobra.Command {
	flags := &upFlags{}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, print the line that makes kubectl use it, and leave it running",
		Long: `Start a cluster and leave it running.

Topologies:
  HighlyAvailable  3 control-plane nodes, the rest workers; with fewer than 4 nodes, one worker and the rest control-plane
  SingleReplica    one node that is both
    External         workers only, as with an external control plane`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options := flags.options(command.Flags().Changed("nodes"))
			var err error
			if options.Programs, err = program.Parse(flags.programs, flags.foreign); err != nil {
				return err
			}
			if options.Profile.FeatureGates, err = cluster.ParseFeatureGates(flags.featureGates); err != nil {
				return err
			}
			if warning := options.Profile.Warning(); warning != "" {
				_, _ = fmt.Fprintln(streams.Err, warning)
			}
			kubeconfig, err := cluster.Up(command.Context(), *dir, options, streams.Err)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Out, "export KUBECONFIG=%s\n", cluster.Quote(kubeconfig))
			return err
		},
	}
	flags.add(command.Flags())
	return command
}

func (f *upFlags) add(set *pflag.FlagSet) {
	set.IntVar(&f.nodes, "nodes", defaultNodes, "number of nodes, including control-plane nodes")
	set.IntVar(&f.realNodes, "real-nodes", 0,
		"how many of the nodes, the last ones, run containers (Linux, root); --nodes then defaults to this number and 3 fake control-plane nodes")
	set.StringVar(&f.topology, "topology", string(configv1.HighlyAvailableTopologyMode), "HighlyAvailable, SingleReplica or External")
	set.StringVar(&f.platform, "platform", string(configv1.AWSPlatformType), "platform as in Infrastructure: AWS, Azure, GCP, VSphere, None, ...")
	set.StringVar(&f.region, "region", "us-east-1", "region of the nodes")
	set.IntVar(&f.port, "port", 0, "port of the API server; 0 takes any free one")
	set.StringVar(&f.credentialsMode, "credentials-mode", string(openshift.Mint), "Mint, Manual, or STS (manual with an issuer that the cloud trusts)")
	set.StringVar(&f.emulatedVersion, "emulated-version", "", "feature gates and APIs of an earlier Kubernetes, such as 1.33; empty: the newest")
	set.StringVar(&f.featureGates, "feature-gates", "",
		"feature gates of Kubernetes, such as VolumeLimitScaling=true, separated by commas; for the control plane and for real nodes")
	set.StringArrayVar(&f.programs, program.OwnFlag, nil,
		"IMAGE=PATH: run this operator for each pod of that image, outside of any pod; can be given again")
	set.StringArrayVar(&f.foreign, program.ForeignFlag, nil,
		"IMAGE=PATH: like --program, for a program without the operators' flags: it gets the pod's arguments and $KUBECONFIG")
	set.IntVar(&f.ownerPID, "owner-pid", 0, "ID of a process: when that process ends, the cluster is taken down and its directory removed")
}

// options makes cluster options from the flags. The default number of nodes depends on the topology.
func (f *upFlags) options(nodesGiven bool) cluster.Options {
	nodes := f.nodes
	switch {
	case nodesGiven:
	case f.topology == string(configv1.SingleReplicaTopologyMode):
		nodes = 1
	case f.realNodes > 0 && f.topology == string(configv1.ExternalTopologyMode):
		nodes = f.realNodes
	case f.realNodes > 0:
		nodes = f.realNodes + openshift.MaxControlPlaneNodes
	}
	return cluster.Options{
		Port:     f.port,
		OwnerPID: f.ownerPID, EmulatedVersion: f.emulatedVersion,
		Profile: openshift.Profile{
			Name:            openshift.NewName(),
			Nodes:           nodes,
			RealNodes:       f.realNodes,
			Topology:        configv1.TopologyMode(f.topology),
			Platform:        configv1.PlatformType(f.platform),
			Region:          f.region,
			CredentialsMode: openshift.CredentialsMode(f.credentialsMode),
		},
	}
}
