package env

import (
	"context"
	"fmt"
	"os"
)

// RunShared starts a cluster that all tests of a package share, lets them run, and stops it. It returns the exit code of the package: that of
// run, or 1 if something else has failed.
func RunShared(run func(ctx context.Context, cluster *Cluster) (int, error), flags ...string) int {
	ctx := context.Background()
	cluster, err := Start(ctx, flags...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	code, err := run(ctx, cluster)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
