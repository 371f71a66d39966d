// Command aws-efs-node-health tells, on one node, whether the mounts of AWS EFS work. It changes nothing and touches no mount: see
// internal/controller/efshealth/mounts, and docs/decisions/0069-mounts-are-watched-and-not-healed.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/csi-operators/csi-operators/internal/controller/efshealth/mounts"
)

const usage = `Usage: aws-efs-node-health start|once [flags]

start  Reads the node at intervals, and serves metrics.
once   Reads the node twice, prints the metrics, and ends.

Flags:
`

// memory is the soft memory limit of Go's runtime, in bytes. With a smaller limit, the runtime would collect garbage all the time.
const memory = 8 << 20

type options struct {
	command, proc, states, cgroups, listen string
	interval                               time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("aws-efs-node-health", flag.ContinueOnError)
	flags.StringVar(&o.proc, "proc", "/proc", "`folder` with the node's procfs")
	flags.StringVar(&o.states, "states", "/var/run/efs", "`folder` with the state files of efs-utils")
	flags.StringVar(&o.cgroups, "cgroups", "/sys/fs/cgroup", "`folder` with the node's cgroups")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8214", "`address` for /metrics and /healthz, without TLS: use a loopback address")
	flags.DurationVar(&o.interval, "interval", 15*time.Second, "`time` between two readings")
	flags.Usage = func() {
		_, _ = io.WriteString(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if len(args) > 0 {
		o.command, args = args[0], args[1:]
	}
	if o.command == "-h" || o.command == "--help" {
		flags.Usage()
		return o, flag.ErrHelp
	}
	if o.command != "start" && o.command != "once" {
		flags.Usage()
		return o, fmt.Errorf("command %q: must be start or once", o.command)
	}
	if err := flags.Parse(args); err != nil {
		return o, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.interval < time.Second {
		return o, fmt.Errorf("-interval is %s: must be at least 1s", o.interval)
	}
	return o, nil
}

func run(ctx context.Context, out io.Writer, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(memory)
	source := mounts.Source{Proc: os.DirFS(o.proc), States: os.DirFS(o.states), Cgroups: os.DirFS(o.cgroups)}
	if o.command == "once" {
		return once(ctx, out, source, o.interval)
	}
	return start(ctx, source, o)
}

// once reads the state of the mounts twice, because most problems show only in the difference between two readings.
func once(ctx context.Context, out io.Writer, source mounts.Source, interval time.Duration) error {
	var tracker mounts.Tracker
	var status mounts.Status
	timer := time.NewTimer(0)
	defer timer.Stop()
	for range 2 {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		reading, err := source.Read(time.Now())
		if err != nil {
			return err
		}
		status = mounts.Status{Report: tracker.Next(reading), Known: true, Read: status.Read + 1}
		timer.Reset(interval)
	}
	return mounts.WriteMetrics(out, status, time.Now())
}

func start(ctx context.Context, source mounts.Source, o options) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.listen, err)
	}
	watcher := &mounts.Watcher{Read: source.Read, Now: time.Now, Changed: report}
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	go watcher.Run(ctx, ticker.C)
	server := &http.Server{Handler: handler(watcher), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics on %s: %w", o.listen, err)
	}
	return nil
}

// handler serves metrics and the health check. The health check always succeeds, even if a reading hangs in the kernel, because a restart would not
// end the reading.
func handler(watcher *mounts.Watcher) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if err := mounts.WriteMetrics(w, watcher.Status(), time.Now()); err != nil {
			slog.Info("A client did not take the metrics", "error", err)
		}
	})
	return mux
}

// report logs what is wrong, each time that it changes.
func report(report mounts.Report, err error) {
	const most = 20
	if err != nil {
		slog.Error("Could not read the node", "error", err)
		return
	}
	if len(report.Problems) == 0 {
		slog.Info("All mounts work", "mounts", report.Mounts)
	}
	for i, problem := range report.Problems {
		if i == most {
			slog.Warn("Further problems are not logged", "problems", len(report.Problems)-most)
			return
		}
		slog.Warn("A mount has a problem", "problem", problem.Kind, "volume", problem.Mount.Volume, "podUID", problem.Mount.Pod,
			"seconds", int(problem.Age.Seconds()))
	}
}
