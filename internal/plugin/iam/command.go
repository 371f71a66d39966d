package iam

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

const long = `Print the IAM documents of the AWS EFS CSI driver, as JSON.

The commands access neither the cluster nor AWS. "oc storage install efs --iam-documents" writes all documents of a cluster with STS.`

// Command returns the command "iam".
func Command(p *plugin.Plugin) *cobra.Command {
	return plugin.Group("iam", "Print the IAM documents of the EFS driver", long, policyCommand(p), trustCommand(p))
}

func policyCommand(p *plugin.Plugin) *cobra.Command {
	var settings map[string]string
	command := &cobra.Command{
		Use: "policy controller|node", Short: "Print the IAM policy of the controller's or the nodes' role",
		Long: "Print an IAM policy. Attach it to the IAM role or user of the controller, or to that of the nodes.",
		Example: "  # Print the policy of the controller's role.\n" +
			"  oc storage iam policy controller\n" +
			"  # Print the policy of the nodes' role, for pods that mount with an IAM identity.\n" +
			"  oc storage iam policy node --setting NODE_IAM_MOUNTS=true",
		Args: isWorkload, ValidArgs: workloads(),
		RunE: func(_ *cobra.Command, args []string) error {
			document, err := PolicyOf(driver.Workload(args[0]), settings)
			if err != nil {
				return err
			}
			return printDocument(p, document)
		},
	}
	command.Flags().StringToStringVar(&settings, "setting", nil, "a setting of the operator, such as `NODE_IAM_MOUNTS=true`; can be repeated")
	return command
}

func trustCommand(p *plugin.Plugin) *cobra.Command {
	var options TrustOptions
	command := &cobra.Command{
		Use: "trust-policy controller|node --account ID --oidc-provider ISSUER", Short: "Print the trust policy of such a role on a cluster with STS",
		Long: "Print the trust policy of the controller's or the nodes' role on a cluster with STS: which ServiceAccounts may assume it.",
		Example: "  # Print the trust policy of the controller's role.\n" +
			"  oc storage iam trust-policy controller --account 123456789012 --oidc-provider oidc.example.com/cluster",
		Args: isWorkload, ValidArgs: workloads(),
		RunE: func(command *cobra.Command, args []string) error {
			if err := plugin.RefuseNamespace(command); err != nil {
				return err
			}
			options.Workload = driver.Workload(args[0])
			document, err := TrustOf(options)
			if err != nil {
				return err
			}
			return printDocument(p, document)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Account, "account", "", "`ID` of the AWS account with the role, 12 digits")
	flags.StringVar(&options.Provider, "oidc-provider", "",
		"`issuer` of the cluster's ServiceAccount tokens: spec.serviceAccountIssuer of Authentication cluster, with or without https://")
	flags.StringVar(&options.Partition, "partition", "aws", "`partition` of AWS: "+strings.Join(plugin.Partitions(), ", "))
	flags.StringVar(&options.Namespace, "operator-namespace", kube.DefaultNamespace, "`namespace` of the operator and the driver")
	return command
}

func workloads() []string { return []string{string(driver.Controller), string(driver.Node)} }

func isWorkload(command *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] != string(driver.Controller) && args[0] != string(driver.Node) {
		return plugin.Usage("%s takes one argument: controller or node", command.CommandPath())
	}
	return nil
}

// printDocument prints JSON, which AWS needs. It prints YAML if the user asks for YAML.
func printDocument(p *plugin.Plugin, document any) error {
	if p.IsTable() {
		p.Output = plugin.JSON
	}
	return p.Print(document, nil)
}
