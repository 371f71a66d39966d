// Command bench measures what the operator costs and how fast it is, on control planes of its own.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
)

// options are the flags.
type options struct {
	settings
	scenarios []scenario
	json      string
	// draw is a folder for plots of reports. Nothing is measured then.
	draw    string
	reports []string
	shared  []sharing
	vCenter *report.VCenterSize
	reader  *report.ReaderSize
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	options, err := parse(os.Args[1:])
	switch {
	case err == nil && options.draw != "":
		err = report.Draw(options.draw, options.reports)
	case err == nil:
		err = run(ctx, options)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var parsed options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	nodes := flags.String("nodes", "12,500/10000,500/0/10000,1000/10000/10000/10000",
		"`clusters` to measure on, each NODES[/OTHER PVs[/PVs OF EFS[/SharedVolumes]]]; 0 for none")
	flags.DurationVar(&parsed.idle, "idle", time.Minute, "how long to do nothing")
	flags.DurationVar(&parsed.limit, "limit", 2*time.Minute, "how long anything may take before it counts as failed")
	flags.DurationVar(&parsed.quiet, "quiet", 5*time.Second, "how long without a request counts as settled")
	flags.StringVar(&parsed.json, "json", "", "`file` for the raw numbers")
	flags.StringVar(&parsed.draw, "draw", "", "measure nothing, and draw plots of the reports that the arguments name into this `folder`")
	shared := flags.String("shared", "300,10000", "numbers of `SharedVolumes`: one control plane for each; 0 for none")
	rounds := flags.Int("shared-rounds", 3, "how often to measure up to 1000 SharedVolumes; more are measured once")
	vCenter := flags.String("vcenter", "200/2000", "size of the `vCenter` to ask, HOSTS/VMS; 0 for none")
	reader := flags.String("reader", "1000", "number of `processes` of a node with 100 mounts for aws-efs-node-health; 0 for none")
	if err := flags.Parse(args); err != nil {
		return parsed, err
	}
	parsed.reports = flags.Args()
	if flags.NArg() > 0 && parsed.draw == "" {
		return parsed, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if parsed.idle <= 0 || parsed.limit <= 0 || parsed.quiet <= 0 {
		return parsed, errors.New("-idle, -limit and -quiet must be more than 0")
	}
	var err error
	if parsed.scenarios, err = parseScenarios(*nodes); err != nil {
		return parsed, err
	}
	if parsed.shared, err = parseShared(*shared, *rounds); err != nil {
		return parsed, err
	}
	if parsed.vCenter, err = parseVCenter(*vCenter); err != nil {
		return parsed, err
	}
	if parsed.reader, err = parseReader(*reader); err != nil {
		return parsed, err
	}
	if len(parsed.scenarios) == 0 && len(parsed.shared) == 0 && parsed.vCenter == nil && parsed.reader == nil {
		return parsed, errors.New("there is nothing to measure: give -nodes, -shared, -vcenter or -reader")
	}
	return parsed, nil
}

// run measures, and reports what it could measure even if some of it failed.
func run(ctx context.Context, options options) error {
	program, err := describe()
	if err != nil {
		return err
	}
	found := report.Report{
		Date: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
		LimitSeconds: options.limit.Seconds(), QuietSeconds: options.quiet.Seconds(),
		Operators: []report.Program{program},
	}
	var failures []error
	for _, scenario := range options.scenarios {
		if ctx.Err() != nil {
			break
		}
		measured, kubernetes, err := scenario.run(ctx, options.settings)
		found.Kubernetes = kubernetes
		found.Scenarios = append(found.Scenarios, measured)
		failures = append(failures, err)
	}
	for _, sharing := range options.shared {
		if ctx.Err() != nil {
			break
		}
		measured, kubernetes, err := sharing.run(ctx, options.settings)
		found.Kubernetes = cmp.Or(kubernetes, found.Kubernetes)
		found.Shared = append(found.Shared, measured)
		failures = append(failures, err)
	}
	if options.vCenter != nil && ctx.Err() == nil {
		measured, err := askVCenter(ctx, *options.vCenter)
		found.VCenter = measured
		failures = append(failures, err)
	}
	if options.reader != nil && ctx.Err() == nil {
		measured, err := measureReader(ctx, *options.reader)
		found.Reader = measured
		failures = append(failures, err)
	}
	return errors.Join(errors.Join(failures...), found.WriteTable(os.Stdout), writeFile(options.json, found), found.OverBudget())
}

// kubernetesVersion is that of the control plane.
func kubernetesVersion(cluster *env.Cluster) (string, error) {
	api, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		return "", fmt.Errorf("discovery client: %w", err)
	}
	version, err := api.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("version of the control plane: %w", err)
	}
	return version.GitVersion, nil
}

// writeFile writes the JSON file, if one is wanted.
func writeFile(name string, found report.Report) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(found.WriteJSON(file), file.Close())
}
