package plugin

import (
	"strings"

	"github.com/spf13/cobra"
)

// Group is a command that only has commands below it. Cobra would print its help and succeed whatever the arguments are.
func Group(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: name, Short: short, Long: long}
	group.AddCommand(commands...)
	group.Args = cobra.ArbitraryArgs
	// Flags behind a wrong name are none of the group's.
	group.FParseErrWhitelist.UnknownFlags = true
	group.RunE = func(command *cobra.Command, args []string) error {
		names := make([]string, 0, len(commands))
		for _, one := range commands {
			names = append(names, one.Name())
		}
		if len(args) == 0 {
			return Usage("%s wants a command: %s; -h tells more", command.CommandPath(), strings.Join(names, ", "))
		}
		return Usage("%s %s: there is no such command, but %s; -h tells more", command.CommandPath(), args[0], strings.Join(names, ", "))
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

// OneArg wants one argument, which What says.
func OneArg(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usage("%s wants one argument, %s, not %d", command.CommandPath(), what, len(args))
		}
		return nil
	}
}
