// Command bench measures what operators cost and how fast they are: ours and, if one is given, a peer that follows the
// same ClusterCSIDriver. They run one after the other on the same control plane, which is the bench's own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/csi-operators/csi-operators/test/env"
)

// options are the flags.
type options struct {
	settings
	scenarios []Scenario
	json      string
	peer      string
	peerArgs  []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	options, err := parse(os.Args[1:])
	if err == nil {
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
	nodes := flags.String("nodes", "12,500", "numbers of `nodes`: one control plane for each")
	volumes := flags.String("volumes", "0,10000", "numbers of foreign PersistentVolumes, in the order of -nodes")
	flags.DurationVar(&parsed.idle, "idle", time.Minute, "how long to do nothing")
	flags.DurationVar(&parsed.limit, "limit", 2*time.Minute, "how long anything may take before it counts as failed")
	flags.DurationVar(&parsed.quiet, "quiet", 5*time.Second, "how long without a request counts as settled")
	flags.StringVar(&parsed.json, "json", "", "`file` for the raw numbers")
	flags.StringVar(&parsed.peer, "peer", "", "`binary` of another operator to measure beside ours")
	peerArgs := flags.String("peer-args", "", "more arguments for the peer, separated by spaces")
	if err := flags.Parse(args); err != nil {
		return parsed, err
	}
	if flags.NArg() > 0 {
		return parsed, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if parsed.idle <= 0 || parsed.limit <= 0 || parsed.quiet <= 0 {
		return parsed, errors.New("-idle, -limit and -quiet must be more than 0")
	}
	parsed.peerArgs = strings.Fields(*peerArgs)
	var err error
	parsed.scenarios, err = parseScenarios(*nodes, *volumes)
	return parsed, err
}

// run measures, and reports what it could measure even if some of it failed.
func run(ctx context.Context, options options) (failure error) {
	operators, err := contestants(options)
	if err != nil {
		return err
	}
	report := Report{
		Date: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(),
		LimitSeconds: options.limit.Seconds(), QuietSeconds: options.quiet.Seconds(),
	}
	for _, operator := range operators {
		program, err := describe(operator)
		if err != nil {
			return err
		}
		report.Operators = append(report.Operators, program)
	}
	for _, scenario := range options.scenarios {
		measured, kubernetes, err := scenario.run(ctx, operators, options.settings)
		report.Kubernetes = kubernetes
		report.Scenarios = append(report.Scenarios, measured)
		failure = errors.Join(failure, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failure, writeTable(os.Stdout, report), writeFile(options.json, report), report.overBudget())
}

func contestants(options options) ([]contestant, error) {
	own, err := ours()
	if err != nil || options.peer == "" {
		return []contestant{own}, err
	}
	file, err := filepath.Abs(options.peer)
	if err != nil {
		return nil, fmt.Errorf("the peer: %w", err)
	}
	return []contestant{own, peer(file, options.peerArgs)}, nil
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
func writeFile(name string, report Report) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(writeJSON(file, report), file.Close())
}
