// Package plugin has what the commands of "oc storage" share: access to the cluster, output, questions, progress and exit codes.
// cmd/oc-storage joins the commands, one folder each.
//
// A command reads the cluster into one value. Then pure functions decide, and the command acts and prints. Cluster.Find and FindAll record the
// permissions that the user lacks. A command that changes something first makes a plan, and asks the user once (Confirm). The code that makes the
// plan has no client that can write.
package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"
)

// Formats of the output.
const (
	Table = "table"
	// Wide is a table with more columns than Table, and with whole messages.
	Wide = "wide"
	JSON = "json"
	YAML = "yaml"
)

// Plugin has the settings and the state that all commands share.
type Plugin struct {
	Streams genericiooptions.IOStreams
	// Flags are kubectl's common flags: kubeconfig, context, namespace, impersonation, and so on.
	Flags *genericclioptions.ConfigFlags
	// NoColour and Terminal are the variables NO_COLOR and TERM.
	NoColour, Terminal string
	// Output is one of the output formats above.
	Output string
	Now    func() time.Time
	// Poll is the time between two checks of a wait.
	Poll time.Duration
	// Stopped, if set, is closed at the second Ctrl-C. Then a command that is still cleaning up after the first Ctrl-C ends at once.
	Stopped <-chan struct{}
	// From, if set, is a folder or an archive that Connect opens instead of connecting to a cluster.
	From string
	// readers are the commands that work with From. Each entry is a command's path without the root command, such as " doctor".
	readers []string
	// Cluster, if set, is what Connect returns. If Cluster is nil, Connect makes a client from Flags.
	Cluster *Cluster
}

// New makes a Plugin whose output escapes control characters.
func New(streams genericiooptions.IOStreams) *Plugin {
	streams.Out, streams.ErrOut = &screen{Writer: streams.Out}, &screen{Writer: streams.ErrOut}
	return &Plugin{Streams: streams, Flags: genericclioptions.NewConfigFlags(true), Output: Table, Now: time.Now, Poll: 2 * time.Second}
}

// Root returns the root command. Parameter name is what the user types, "oc storage" or "kubectl storage".
func (p *Plugin) Root(name, version string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: "storage", Short: "See, check and set up the CSI drivers of a cluster", Long: long, Version: version,
		SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			if !slices.Contains([]string{Table, Wide, JSON, YAML}, p.Output) {
				return Usage("--output %q: must be table, wide, json or yaml", p.Output)
			}
			return p.checkFrom(command)
		},
	}
	// Cobra's completion scripts are for a program "storage", which does not exist. Releases have completion programs for oc and kubectl.
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(p.Streams.In)
	root.SetOut(p.Streams.Out)
	root.SetErr(p.Streams.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage("%w", err) })
	p.Flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVarP(&p.Output, "output", "o", p.Output, "`format`: table, wide, json or yaml")
	root.PersistentFlags().StringVar(&p.From, "from", "",
		"`folder` of \"oc adm must-gather\", or archive of \"oc storage collect\", to read instead of a cluster")
	root.AddCommand(commands...)
	p.linkPages(version)
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(root *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usage("unknown command %q for %q: -h lists the commands%s", args[0], name, meant(root, args[0]))
		}
		return root.Help()
	}
	// These two functions fail only if their code names a flag that does not exist.
	if err := errors.Join(p.arrangeHelp(root, name), p.completeFlags(root)); err != nil {
		root.RunE = func(*cobra.Command, []string) error { return err }
	}
	return root
}

const long = `See, check and set up the CSI drivers of a cluster.

All commands use your own permissions. The output ends with the permissions that you lack.

Exit codes: 0 success; 1 the API server or the cloud did not answer, or you lack a permission that the result depends on;
2 wrong usage, nothing was done; 3 the command found a problem and printed it; 4 not done yet: run the command again.`

// IsTable reports whether the output is a table for people.
func (p *Plugin) IsTable() bool { return p.Output == Table || p.Output == Wide }

// HasColours reports whether the output has colours. It has colours if it is a terminal and the user has not forbidden them.
func (p *Plugin) HasColours() bool {
	return isTerminal(p.Streams.Out) && allowsColours(p.NoColour, p.Terminal)
}

// allowsColours reports whether the environment allows colours: NO_COLOR (https://no-color.org) is empty, and TERM is not "dumb".
func allowsColours(forbidden, terminal string) bool { return forbidden == "" && terminal != "dumb" }

// ShowsProgress reports whether stderr is a terminal, on which a progress bar can overwrite itself.
func (p *Plugin) ShowsProgress() bool {
	return isTerminal(p.Streams.ErrOut) && p.Terminal != "dumb"
}

func isTerminal(stream io.Writer) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// Print writes a result in the format that the user wants. Parameter rows has the lines of the table, with the header first.
func (p *Plugin) Print(result any, rows [][]string) error {
	var err error
	result = withEmptyLists(result)
	switch p.Output {
	case JSON:
		encoder := json.NewEncoder(p.Streams.Out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(result)
	case YAML:
		var text []byte
		if text, err = yaml.Marshal(result); err == nil {
			_, err = p.Streams.Out.Write(text)
		}
	default:
		err = writeTable(p.Streams.Out, rows)
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

func writeTable(out io.Writer, rows [][]string) error {
	var aligned bytes.Buffer
	table := tabwriter.NewWriter(&aligned, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		// Keep empty cells at the end, so that the columns of all rows align.
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Printable(cell)
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("align the table: %w", err)
	}
	for line := range strings.Lines(aligned.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err //nolint:wrapcheck // Print says what failed.
		}
	}
	return nil
}
