// Package efs has two commands that change objects in Amazon EFS and need no cluster. Command cleanup deletes the EFS resources of a destroyed
// cluster. Command create makes shares for tests.
package efs

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/efs/create"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

const long = `Delete or create objects in Amazon EFS. The commands do not access the cluster.

Credentials, endpoints and proxies come from the settings of the AWS SDK: AWS_PROFILE, AWS_ENDPOINT_URL, AWS_USE_FIPS_ENDPOINT, HTTPS_PROXY and so on.

Exit codes: 0 nothing of the cluster is left, or the share is ready; 1 failed; 2 wrong usage, nothing was changed; 3 something of the cluster
remains, because the command must not delete it; 4 a deletion has not finished, AWS took longer than --timeout, or you interrupted the command.`

// Command returns the command "efs".
func Command(p *plugin.Plugin) *cobra.Command {
	return plugin.Group("efs", "Delete what a cluster owns in Amazon EFS, or create shares for tests", long, cleanupCommand(p), createCommand(p))
}

// exit adds the exit code of the command to an error.
func exit(err error) error {
	var wrong *efscleanup.UsageError
	var late *create.WaitError
	switch {
	case errors.As(err, &wrong):
		return &plugin.ExitError{Code: plugin.WrongUsage, Err: err}
	case errors.As(err, &late), errors.Is(err, context.Canceled):
		return &plugin.ExitError{Code: plugin.Unfinished, Err: err}
	default:
		return err
	}
}

// common are the flags that both commands have.
type common struct {
	infraID, account, region   *string
	requestsPerMinute          *int
	patience, poll, maxBackoff *time.Duration
}

// add adds the common flags to a command. Arguments "timeout" and "poll" are the help texts of flags --timeout and --poll.
func (c common) add(flags *pflag.FlagSet, timeout, poll string) {
	flags.StringVar(c.infraID, "infra-id", "",
		"whole infrastructure `ID` of the cluster: .status.infrastructureName of Infrastructure cluster, or infraID in metadata.json")
	flags.StringVar(c.account, "account", "", "`number` of the AWS account; the command refuses credentials of another account")
	flags.StringVar(c.region, "region", "", "AWS `region` of the cluster; the region of the environment is ignored")
	flags.DurationVar(c.patience, "timeout", efscleanup.DefaultPatience, timeout)
	flags.DurationVar(c.poll, "poll", efscleanup.DefaultPoll, poll)
	flags.IntVar(c.requestsPerMinute, "requests-per-minute", aws.DefaultRequestsPerMinute,
		"maximum `number` of requests to AWS in a minute; the whole account shares the limits of AWS")
	flags.DurationVar(c.maxBackoff, "max-backoff", aws.DefaultMaxBackoff, "longest pause before a request is repeated")
}

func (c common) check() error {
	switch {
	case *c.patience <= 0 || *c.poll <= 0 || *c.maxBackoff <= 0:
		return plugin.Usage("--timeout, --poll and --max-backoff must be more than 0")
	case *c.requestsPerMinute < 1:
		return plugin.Usage("--requests-per-minute %d: must be at least 1", *c.requestsPerMinute)
	}
	return nil
}
