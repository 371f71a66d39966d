// Command efs works on Amazon EFS itself, without a cluster: it deletes what a destroyed cluster owns there, and makes shares to
// test with.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/csi-operators/csi-operators/internal/aws"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

const usage = `Usage: efs cleanup --infra-id ID --account NUMBER --region REGION [flags]
       efs create --infra-id ID --account NUMBER --region REGION [flags]

cleanup  Deletes what a cluster owns in Amazon EFS: access points, file systems, and security groups of "efs create".
         Without --yes it only says what it would delete.
create   Makes a file system to test with in the cluster's VPC; with --delete, deletes it.

"efs cleanup -h" and "efs create -h" list the flags. Credentials, endpoints and proxies are those of the AWS SDK: AWS_PROFILE,
AWS_ENDPOINT_URL, AWS_USE_FIPS_ENDPOINT, HTTPS_PROXY and so on.

Exit codes: 0 nothing that the cluster owns is left, or the share can be used; 1 failed; 2 wrong usage, nothing was touched;
3 something that the cluster owns may not be deleted, and is left; 4 something will go, but is still there.
`

// Exit codes of the program; those of a cleanup are efscleanup's outcomes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, problems io.Writer) int {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	var code int
	var err error
	switch command {
	case "cleanup":
		code, err = cleanup(ctx, args[1:], out, problems)
	case "create":
		code, err = create(ctx, args[1:], out, problems)
	case "-h", "--help", "help":
		_, _ = fmt.Fprint(out, usage)
	default:
		_, _ = fmt.Fprint(problems, usage)
		err = wrongUsage("the first argument must be cleanup or create")
	}
	return exitCode(code, err, problems)
}

func exitCode(code int, err error, problems io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return code
	}
	_, _ = fmt.Fprintln(problems, "error:", err)
	var wrong *efscleanup.UsageError
	if errors.As(err, &wrong) {
		return exitUsage
	}
	return exitFailed
}

func wrongUsage(format string, args ...any) error {
	return &efscleanup.UsageError{Problem: fmt.Sprintf(format, args...)}
}

// parse reads a command line strictly.
func parse(flags *flag.FlagSet, args []string, problems io.Writer) error {
	flags.SetOutput(problems)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return flag.ErrHelp
	case err != nil:
		return wrongUsage("%v", err)
	case flags.NArg() > 0:
		return wrongUsage("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// common are the flags that both sub-commands have.
type common struct {
	infraID, account, region, output *string
	requestsPerMinute                *int
	patience, poll, maxBackoff       *time.Duration
}

// add adds the flags. The sub-commands say themselves what --timeout and --poll are for, and what -o is the format of.
func (c common) add(flags *flag.FlagSet, printed, timeout, poll string) {
	flags.StringVar(c.infraID, "infra-id", "",
		"whole infrastructure `ID` of the cluster: .status.infrastructureName of Infrastructure cluster, or infraID in metadata.json")
	flags.StringVar(c.account, "account", "", "`number` of the AWS account; credentials of another one are refused")
	flags.StringVar(c.region, "region", "", "AWS `region` of the cluster; that of the environment is not used")
	flags.DurationVar(c.patience, "timeout", efscleanup.DefaultPatience, timeout)
	flags.DurationVar(c.poll, "poll", efscleanup.DefaultPoll, poll)
	flags.IntVar(c.requestsPerMinute, "requests-per-minute", aws.DefaultRequestsPerMinute,
		"`number` of requests that AWS is sent at most, so that others of the account can work")
	flags.DurationVar(c.maxBackoff, "max-backoff", aws.DefaultMaxBackoff, "how `long` to pause at most before a request is repeated")
	flags.StringVar(c.output, "o", "table", "`format` of the "+printed+": table or json")
}

func (c common) check() error {
	switch {
	case *c.output != "table" && *c.output != "json":
		return wrongUsage("-o %s: must be table or json", *c.output)
	case *c.patience <= 0 || *c.poll <= 0 || *c.maxBackoff <= 0:
		return wrongUsage("--timeout, --poll and --max-backoff must be more than 0")
	case *c.requestsPerMinute < 1:
		return wrongUsage("--requests-per-minute %d: must be at least 1", *c.requestsPerMinute)
	}
	return nil
}

// printJSON prints a result for programs.
func printJSON(out io.Writer, what string, result any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(result); err != nil {
		return fmt.Errorf("print the %s: %w", what, err)
	}
	return nil
}
