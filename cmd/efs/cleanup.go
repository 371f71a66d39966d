package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

type cleanupFlags struct {
	efscleanup.Options
	output string
}

// cleanup deletes what a cluster owns.
func cleanup(ctx context.Context, args []string, out, problems io.Writer) (int, error) {
	options, err := parseCleanup(args, problems)
	if err != nil {
		return 0, err
	}
	return clean(ctx, options, out, problems)
}

func parseCleanup(args []string, problems io.Writer) (cleanupFlags, error) {
	var options cleanupFlags
	flags := flag.NewFlagSet("efs cleanup", flag.ContinueOnError)
	shared := common{
		&options.InfraID, &options.Account, &options.Region, &options.output, &options.RequestsPerMinute,
		&options.Patience, &options.Poll, &options.MaxBackoff,
	}
	shared.add(flags, "report", "with --wait, how `long` to wait", "with --wait, how `long` to pause between two looks at AWS")
	flags.BoolVar(&options.OwnerTag, "owner-tag", false,
		"also delete what has the tag \"owner\" with the whole infrastructure ID as its value")
	flags.BoolVar(&options.Yes, "yes", false, "delete; without it, only say what would be deleted")
	flags.BoolVar(&options.Wait, "wait", false, "wait until all is gone; without it, do what AWS accepts now and exit with 4 if something is left to do")
	if err := parse(flags, args, problems); err != nil {
		return options, err
	}
	if err := shared.check(); err != nil {
		return options, err
	}
	if options.Wait && !options.Yes {
		return options, wrongUsage("--wait waits until all is deleted, and nothing is without --yes")
	}
	return options, nil
}

func clean(ctx context.Context, options cleanupFlags, out, problems io.Writer) (int, error) {
	bar := newProgress(problems, time.Now)
	if options.Yes {
		options.Progress = bar.step
	}
	report, err := efscleanup.Run(ctx, options.Options)
	bar.end()
	if err != nil && len(report.Objects) == 0 {
		return exitFailed, err
	}
	if printing := printReport(out, options.output, report); err == nil {
		err = printing
	}
	if err != nil {
		return exitFailed, err
	}
	return int(report.Outcome()), nil
}

func printReport(out io.Writer, format string, report efscleanup.Report) error {
	if format == "json" {
		return printJSON(out, "report", report)
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) }
	if len(report.Objects) > 0 {
		say("KIND\tID\tNAME\tIN\tSTATE\tREASON\n")
	}
	for _, object := range report.Objects {
		in := strings.TrimSpace(object.FileSystem + " " + object.Zone)
		say("%s\t%s\t%s\t%s\t%s\t%s\n", object.Kind, object.ID, object.Name, in, object.State, object.Reason)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	_, _ = fmt.Fprintln(out, summary(report))
	return nil
}

// summary says in a sentence what to do next.
func summary(report efscleanup.Report) string {
	whose := fmt.Sprintf("cluster %s in region %s of account %s", report.InfraID, report.Region, report.Account)
	refused := report.Count(efscleanup.Refused)
	switch report.Outcome() {
	case efscleanup.HasFailed:
		return fmt.Sprintf("%d objects of %s could not be deleted: see the reasons, and run it again.", report.Count(efscleanup.Failed), whose)
	case efscleanup.LeftAlone:
		return fmt.Sprintf("%d objects of %s may not be deleted, and are left: see the reasons. Nothing else of it is left.", refused, whose)
	case efscleanup.StillThere:
		if report.DryRun {
			return fmt.Sprintf("%d objects of %s would be deleted, with all data in them, and %d may not be. Nothing was changed; --yes deletes.",
				len(report.Objects)-refused, whose, refused)
		}
		return fmt.Sprintf("Something of %s is still being deleted: run it again, or with --wait.", whose)
	case efscleanup.Clean:
	}
	return fmt.Sprintf("Nothing of %s is left in EFS.", whose)
}
