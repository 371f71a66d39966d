package plugin

import (
	"strings"

	"github.com/spf13/cobra"
)

// Group returns a command that only has subcommands. The command fails if the user names no known subcommand. Cobra alone would print the help and
// report success.
func Group(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: name, Short: short, Long: long}
	group.AddCommand(commands...)
	group.Args = cobra.ArbitraryArgs
	// Without this setting, Cobra would report an unknown flag after a wrong subcommand, instead of the wrong subcommand.
	group.FParseErrWhitelist.UnknownFlags = true
	group.RunE = func(command *cobra.Command, args []string) error {
		names := make([]string, 0, len(commands))
		for _, one := range commands {
			names = append(names, one.Name())
		}
		if len(args) == 0 {
			return Usage("%s needs a command: %s; see -h", command.CommandPath(), strings.Join(names, ", "))
		}
		return Usage("unknown command %q for %q: the commands are %s; see -h%s", args[0], command.CommandPath(), strings.Join(names, ", "),
			meant(command, args[0]))
	}
	return group
}

// NoArgs refuses arguments as wrong usage.
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("unexpected argument %q", args[0])
	}
	return nil
}

// RefuseNamespace returns an error if the user sets --namespace on a command that works in the operator's namespace. Such a command has flag
// --operator-namespace instead.
func RefuseNamespace(command *cobra.Command) error {
	if command.Flags().Changed("namespace") {
		return Usage("--namespace has no effect on %s: --operator-namespace sets the namespace of the operator and the driver", command.CommandPath())
	}
	return nil
}

// OneArg requires exactly one argument. Parameter "what" describes that argument in the error.
func OneArg(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage("%s takes one argument, %s, not %d", command.CommandPath(), what, len(args))
		}
		return nil
	}
}
