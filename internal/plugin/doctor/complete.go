package doctor

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

// complete first completes a kind, and then the name of an object of this kind. It accepts "pvc data" and "pvc/data".
func complete(p *plugin.Plugin) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		kinds := []string{kindClaim, kindVolume, kindPod, kindClass, kindShared, kindNode}
		before, typedName, slash := strings.Cut(typed, "/")
		switch {
		case len(args) == 0 && !slash:
			var found []string
			for _, kind := range kinds {
				if strings.HasPrefix(kind, typed) {
					found = append(found, cobra.CompletionWithDesc(kind, "Check a "+titleOf(kind)))
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		case len(args) > 1 || len(args) == 1 && slash:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case slash:
			args = []string{before}
		default:
			typedName = typed
		}
		s, err := subjectOf([]string{args[0], "any"})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := p.Names(command.Context(), typedName, titleOf(s.kind))
		if slash {
			for i := range names {
				names[i] = before + "/" + names[i]
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
