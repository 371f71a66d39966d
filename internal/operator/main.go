package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

// Main is all that the main of a program does. The context ends with SIGTERM or SIGINT; flag.ErrHelp is no failure.
func Main(run func(ctx context.Context, args []string) error) {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Ended returns what start has returned, or nil if that comes of the end of the context: ending a program before it has begun is
// what was asked for.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
