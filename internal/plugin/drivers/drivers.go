// Package drivers implements the command "status". The command shows every CSI driver of a cluster on one line, and can wait until all drivers are
// available.
package drivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

const long = `Show every CSI driver of the cluster on one line: its state, version, node pods, roll-out, operator, and what the operator waits for.
With names, the command shows only these drivers, and --wait waits only for them.

With --wait, the command returns when all drivers with a ClusterCSIDriver are available and no roll-out is under way.
It does not wait for drivers that are Unmanaged or Removed.

With --watch, the command reads the cluster every two seconds, and prints the table again when something in it has changed. Ctrl-C ends it, with
exit code 0.

Exit codes: 0 success, and with --wait all drivers are available; 1 the API server did not answer; 3 with --wait, a driver waits for you
to act; 4 --timeout expired, or you interrupted --wait.`

const examples = `  # Show all drivers, one line each.
  oc storage status
  # Show one driver.
  oc storage status efs.csi.aws.com
  # Show whole messages.
  oc storage status -o wide
  # Print the table again at each change, until Ctrl-C.
  oc storage status --watch
  # Wait until all drivers are available.
  oc storage status --wait --timeout 5m`

// options are the flags of the command.
type options struct {
	wait, watch bool
	timeout     time.Duration
	// names are the drivers that the user named. Without names, the command shows all drivers.
	names []string
}

// command is one call of the command, with its flags.
type command struct {
	*plugin.Plugin
	*plugin.Cluster
	options
	// read means that method await has read the whole cluster at least once.
	read bool
}

// Command returns the command "status".
func Command(p *plugin.Plugin) *cobra.Command {
	var flags options
	c := plugin.ReadsFolders(&cobra.Command{
		Use: "status [DRIVER...]", Short: "Show the CSI drivers of the cluster, and what their operators wait for", Long: long, Args: cobra.ArbitraryArgs,
		Example: examples, ValidArgsFunction: p.CompleteNames("ClusterCSIDriver", "CSIDriver"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.wait && flags.watch {
				return plugin.Usage("--wait and --watch exclude each other: --wait ends when all drivers are available, --watch at Ctrl-C")
			}
			flags.names = args
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return (&command{Plugin: p, Cluster: cluster, options: flags}).run(cmd.Context())
		},
	})
	c.Flags().BoolVar(&flags.watch, "watch", false, "print the table again at each change, until Ctrl-C")
	c.Flags().BoolVar(&flags.wait, "wait", false, "wait until all drivers are available and no roll-out is under way")
	c.Flags().DurationVar(&flags.timeout, "timeout", 10*time.Minute, "with --wait, how long to wait; 0 waits forever")
	return c
}

// survey reads the cluster, and keeps the drivers that the user named. If the cluster lacks a named driver, survey returns an error. It returns no
// error if it could not list all drivers.
func (c *command) survey(ctx context.Context) (survey.Survey, error) {
	found, err := survey.Read(ctx, c.Cluster, c.Now())
	if err != nil || len(c.names) == 0 {
		return found, err
	}
	var all []string
	for _, driver := range found.Drivers {
		all = append(all, driver.Name)
	}
	if found.CSIDrivers.Known() && found.CRs.Known() && len(found.Failures) == 0 {
		for _, name := range c.names {
			if !slices.Contains(all, name) {
				return found, &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("the cluster has no driver %q: its drivers are %s",
					name, cmp.Or(strings.Join(all, ", "), "none"))}
			}
		}
	}
	found.Drivers = slices.DeleteFunc(found.Drivers, func(driver survey.Driver) bool { return !slices.Contains(c.names, driver.Name) })
	return found, nil
}

func (c *command) run(ctx context.Context) error {
	if c.watch {
		return c.Watch(ctx, func(ctx context.Context, p *plugin.Plugin) (plugin.View, error) {
			found, err := c.survey(ctx)
			if err != nil {
				return plugin.View{}, unanswered(err)
			}
			return plugin.View{}, (&command{Plugin: p, Cluster: c.Cluster}).print(found, nil)
		})
	}
	var found survey.Survey
	var err, waited error
	if c.wait {
		found, waited = c.await(ctx)
		var unfinished *plugin.ExitError
		if waited != nil && (!errors.As(waited, &unfinished) || !c.read) {
			return waited
		}
	} else if found, err = c.survey(ctx); err != nil {
		return unanswered(err)
	}
	if err := c.print(found, c.nodes(ctx, &found)); err != nil {
		return err
	}
	return waited
}

// nodes lists the nodes, which takes megabytes in a large cluster. So with --watch, the command does not call this method.
func (c *command) nodes(ctx context.Context, found *survey.Survey) []corev1.Node {
	if !slices.ContainsFunc(found.Drivers, func(driver survey.Driver) bool { return driver.Nodes != nil }) {
		return nil
	}
	list := &corev1.NodeList{}
	if _, err := c.TryList(ctx, list); err != nil {
		found.Failures = append(found.Failures, fmt.Errorf("list nodes: %w", err))
	}
	return list.Items
}

func (c *command) print(found survey.Survey, nodes []corev1.Node) error {
	report := Report{Drivers: rows(found), MissingRights: c.Missing()}
	for i := range report.Drivers {
		report.Drivers[i].addExcluded(found, nodes)
	}
	for _, failure := range found.Failures {
		report.NotRead = append(report.NotRead, failure.Error())
	}
	report.NotRead = append(report.NotRead, c.Gaps()...)
	if err := c.Print(report, table(report.Drivers, c.HasColours(), c.Output == plugin.Wide)); err != nil {
		return err
	}
	if c.IsTable() {
		c.notes(report, found.CSIDrivers.Known() && found.CRs.Known())
	}
	return nil
}

// notes prints what does not fit into the table. Parameter readable means that the command could list the drivers.
func (c *command) notes(report Report, readable bool) {
	say := func(format string, values ...any) { _, _ = fmt.Fprintf(c.Streams.Out, format+"\n", values...) }
	switch {
	case len(report.Drivers) > 0 || len(c.names) > 0 && readable:
	case !readable:
		say("You lack permission to list the drivers.")
	default:
		say("No CSI driver was found. To use EFS, create ClusterCSIDriver %s: docs/guide/install.md", awsefs.Name)
	}
	for _, failure := range report.NotRead {
		say("Not read: %s", failure)
	}
	if text := plugin.MissingText(report.MissingRights); text != "" {
		say("%s", text)
	}
}

func unanswered(err error) error {
	var named *plugin.ExitError
	if errors.As(err, &named) {
		return err
	}
	return fmt.Errorf("the API server of your kubeconfig does not answer; check the network, and run oc cluster-info: %w", err)
}
