package plugin

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// called is the plugin's name in the source text of examples and messages.
const called = "oc storage"

// arrangeHelp removes the flags of oc and kubectl from the help of every command. Subcommand "options" lists these flags. arrangeHelp also
// replaces the program's name in examples with the name that the user types.
func (p *Plugin) arrangeHelp(root *cobra.Command, name string) error {
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, flag := range []string{"namespace", "output"} {
		common.AddFlag(root.PersistentFlags().Lookup(flag))
	}
	root.SetUsageTemplate(strings.NewReplacer(
		"{{if .HasAvailableLocalFlags}}", "{{if and .HasParent .HasAvailableLocalFlags}}",
		"{{if .HasAvailableInheritedFlags}}", "{{if true}}",
		"{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
		strings.TrimRight(common.FlagUsages(), "\n")+"\n\nUse \""+name+" options\" for the flags of oc and kubectl, such as --context.",
	).Replace(root.UsageTemplate()))
	root.AddCommand(&cobra.Command{
		Use: "options", Short: "List the flags that all commands have", Args: NoArgs,
		Long:    "List the flags that all commands of this plugin have. Flags of oc, such as --context, have the same meaning here as in oc and kubectl.",
		Example: "  # Which flags choose the cluster and the user?\n  oc storage options",
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "All commands have these flags:\n\n%s", root.PersistentFlags().FlagUsages())
			if err != nil {
				return fmt.Errorf("print the flags: %w", err)
			}
			return nil
		},
	})
	return eachCommand(root, func(command *cobra.Command) error {
		command.Example = strings.ReplaceAll(command.Example, called, name)
		return nil
	})
}

// meant returns a question that suggests the command that the user probably meant. If no command has a similar name, the result is empty.
func meant(parent *cobra.Command, typed string) string {
	parent.SuggestionsMinimumDistance = 2
	near := parent.SuggestionsFor(typed)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(`; did you mean "%s"?`, strings.Join(near, `" or "`))
}
