package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

// Main runs a program. SIGTERM and SIGINT cancel the context. If run returns an error other than flag.ErrHelp, the exit code is 1.
func Main(run func(ctx context.Context, args []string) error) {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// IgnoreCanceled returns the error unchanged, or nil if the error comes from the cancellation of ctx. A signal cancels ctx, and a signal while the
// program starts is not a failure.
func IgnoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
