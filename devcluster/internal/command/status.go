package command

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/csi-operators/csi-operators/devcluster/internal/cluster"
)

func newStatus(dir *string, streams Streams) *cobra.Command {
	format := ""
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the processes of the cluster; the exit code is 1 if one of them does not run",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if format != "" && format != "json" {
				return fmt.Errorf("-o is %q: set -o json, or omit -o", format)
			}
			state, err := cluster.Status(*dir)
			if err != nil {
				return err
			}
			if err := printStatus(streams.Out, state, format); err != nil {
				return fmt.Errorf("print the status: %w", err)
			}
			return state.Dead()
		},
	}
	command.Flags().StringVarP(&format, "output", "o", "", "json prints all fields")
	return command
}

func printStatus(out io.Writer, state *cluster.State, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(state)
	}
	phase := string(state.Phase)
	if state.Dead() != nil {
		phase = "not healthy"
	}
	if _, err := fmt.Fprintf(out, "%s (%s)\n", state.URL, phase); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "NAME\tPID\tSTATE\tLOG"); err != nil {
		return err
	}
	for _, process := range state.Processes {
		text := string(process.State)
		if process.Exit != "" {
			text += " (" + process.Exit + ")"
		}
		if _, err := fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", process.Name, process.PID, text, process.Log); err != nil {
			return err
		}
	}
	return table.Flush()
}
