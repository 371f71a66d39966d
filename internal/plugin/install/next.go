package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/doctor"
	"github.com/csi-operators/csi-operators/internal/plugin/iam"
)

// again returns the command that continues this installation.
func again(wanted options) string {
	line := "oc storage install efs --watch"
	for _, one := range []struct{ flag, value string }{
		{"--role-arn", wanted.controllerRole}, {"--node-role-arn", wanted.nodeRole}, {"--approval", wanted.approval},
	} {
		if one.value != "" {
			line += " " + one.flag + " " + one.value
		}
	}
	if wanted.namespace != kube.DefaultNamespace {
		line += " --operator-namespace " + wanted.namespace
	}
	return line
}

// diagnose runs the command "doctor", and prints its output to stderr. It ignores the exit code of doctor, because the installation is unfinished in
// any case.
func diagnose(ctx context.Context, p *plugin.Plugin) {
	_, _ = fmt.Fprintln(p.Streams.ErrOut, "The driver is not available yet. \"oc storage doctor\" says:")
	quiet := *p
	quiet.Output, quiet.Streams.Out = plugin.Table, p.Streams.ErrOut
	command := doctor.Command(&quiet)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs([]string{})
	if err := command.ExecuteContext(ctx); err != nil && err.Error() != "" {
		_, _ = fmt.Fprintln(p.Streams.ErrOut, err)
	}
}

// writeDocuments writes the IAM documents of both roles, and prints the commands that create the roles.
func writeDocuments(p *plugin.Plugin, found seen, wanted options) error {
	if !found.usesSTS() {
		return &plugin.ExitError{Code: plugin.Wrong, Err: errors.New("spec.serviceAccountIssuer of the Authentication named cluster is empty, or you " +
			"lack permission to read it. If it is empty, the cluster does not use STS and needs no roles")}
	}
	documents := map[string]any{}
	for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
		policy, err := iam.PolicyOf(workload, wanted.settings)
		if err != nil {
			return err
		}
		trust, err := iam.TrustOf(iam.TrustOptions{
			Workload: workload, Account: wanted.account, Provider: found.issuer, Partition: wanted.partition, Namespace: wanted.namespace,
		})
		if err != nil {
			return err
		}
		documents[string(workload)+"-policy.json"], documents[string(workload)+"-trust-policy.json"] = policy, trust
	}
	if err := os.MkdirAll(wanted.documents, 0o750); err != nil {
		return fmt.Errorf("create the folder of the IAM documents: %w", err)
	}
	for name, document := range documents {
		text, err := json.MarshalIndent(document, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(wanted.documents, name), append(text, '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("write the IAM document %s: %w", name, err)
		}
	}
	rows := [][]string{{"Wrote the IAM documents. Create the roles, and install with their ARNs:"}}
	for _, workload := range []string{"controller", "node"} {
		file := "file://" + filepath.Join(wanted.documents, workload)
		rows = append(rows,
			[]string{fmt.Sprintf("  aws iam create-role --role-name efs-csi-%s --assume-role-policy-document %s-trust-policy.json", workload, file)},
			[]string{fmt.Sprintf("  aws iam put-role-policy --role-name efs-csi-%s --policy-name efs-csi --policy-document %s-policy.json", workload, file)})
	}
	role := "arn:" + wanted.partition + ":iam::" + wanted.account + ":role/efs-csi-"
	next := wanted
	next.controllerRole, next.nodeRole, next.approval = role+"controller", role+"node", cmp.Or(wanted.approval, manual)
	rows = append(rows, []string{"Then install the driver. With --approval Manual, you can extend the roles before each update:"},
		[]string{"  " + again(next)})
	return p.Print(documents, rows)
}
