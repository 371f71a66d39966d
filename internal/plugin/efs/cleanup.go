package efs

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

const cleanupLong = `Delete what a cluster owns in Amazon EFS: access points, file systems, and security groups of "efs create".

Without --yes, the command only lists what it would delete.`

func cleanupCommand(p *plugin.Plugin) *cobra.Command {
	var options efscleanup.Options
	command := &cobra.Command{
		Use: "cleanup --infra-id ID --account NUMBER --region REGION", Short: "Delete what a cluster owns in Amazon EFS", Long: cleanupLong,
		Args: plugin.NoArgs,
		Example: "  # List what a destroyed cluster owns in EFS.\n" +
			"  oc storage efs cleanup --infra-id ci-abc12 --account 123456789012 --region us-east-1\n" +
			"  # Delete everything in this list.\n" +
			"  oc storage efs cleanup --infra-id ci-abc12 --account 123456789012 --region us-east-1 --yes --wait",
	}
	flags := command.Flags()
	shared := common{
		&options.InfraID, &options.Account, &options.Region, &options.RequestsPerMinute, &options.Patience, &options.Poll, &options.MaxBackoff,
	}
	shared.add(flags, "with --wait, how long to wait", "with --wait, how long to pause between two polls of AWS")
	flags.BoolVar(&options.OwnerTag, "owner-tag", false,
		"also delete objects whose tag \"owner\" is the whole infrastructure ID")
	flags.BoolVar(&options.Yes, "yes", false, "delete; without it, only list what would be deleted")
	flags.BoolVar(&options.Wait, "wait", false,
		"wait until everything is deleted; without it, delete what AWS allows now, and exit with 4 if something is left")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := shared.check(); err != nil {
			return err
		}
		if options.Wait && !options.Yes {
			return plugin.Usage("--wait needs --yes: without --yes, nothing is deleted")
		}
		return clean(command.Context(), p, options)
	}
	return command
}

func clean(ctx context.Context, p *plugin.Plugin, options efscleanup.Options) error {
	bar := p.Progress()
	if options.Yes {
		options.Progress = func(step efscleanup.Step) { bar.Step(stepOf(step)) }
	}
	report, err := efscleanup.Run(ctx, options)
	bar.End()
	if err != nil && len(report.Objects) == 0 {
		return exit(err)
	}
	if printing := printReport(p, report); err == nil {
		err = printing
	}
	if err != nil {
		return exit(err)
	}
	if code := int(report.Outcome()); code != 0 {
		return &plugin.ExitError{Code: code}
	}
	return nil
}

func stepOf(step efscleanup.Step) plugin.Step {
	object := step.Object
	made := plugin.Step{
		Done: step.Done, Total: step.Total, What: fmt.Sprintf("%s %s", object.Kind, object.ID), State: string(object.State),
		Problem: object.State == efscleanup.Refused || object.State == efscleanup.Failed,
	}
	if object.Reason != "" {
		made.State += ": " + object.Reason
	}
	return made
}

func printReport(p *plugin.Plugin, report efscleanup.Report) error {
	var rows [][]string
	if len(report.Objects) > 0 {
		rows = append(rows, []string{"KIND", "ID", "NAME", "IN", "STATE", "REASON"})
	}
	for _, object := range report.Objects {
		in := strings.TrimSpace(object.FileSystem + " " + object.Zone)
		rows = append(rows, []string{string(object.Kind), object.ID, object.Name, in, string(object.State), object.Reason})
	}
	if err := p.Print(report, rows); err != nil {
		return err
	}
	if p.IsTable() {
		_, _ = fmt.Fprintln(p.Streams.Out, summary(report))
	}
	return nil
}

// summary returns a sentence that says which objects are left, and what the user should do next.
func summary(report efscleanup.Report) string {
	whose := fmt.Sprintf("cluster %s in region %s of account %s", report.InfraID, report.Region, report.Account)
	refused := report.Count(efscleanup.Refused)
	switch report.Outcome() {
	case efscleanup.HasFailed:
		return fmt.Sprintf("%d objects of %s could not be deleted: see the reasons, and run the command again.", report.Count(efscleanup.Failed), whose)
	case efscleanup.LeftAlone:
		return fmt.Sprintf("%d objects of %s remain, because this command must not delete them: see the reasons. Nothing else is left.", refused, whose)
	case efscleanup.StillThere:
		if report.DryRun {
			return fmt.Sprintf("%d objects of %s would be deleted, with all data in them; the command must not delete %d others. "+
				"Nothing was changed: to delete, add --yes.", len(report.Objects)-refused, whose, refused)
		}
		return fmt.Sprintf("AWS is still deleting objects of %s: run the command again, or run it with --wait.", whose)
	case efscleanup.Clean:
	}
	return fmt.Sprintf("Nothing of %s is left in EFS.", whose)
}
