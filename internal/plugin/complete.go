package plugin

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
)

const (
	// completionTime is the longest time that the shell waits for names of objects.
	completionTime = 3 * time.Second
	// mostNames is the largest number of objects of one kind that a completion reads.
	mostNames = 500
)

// kindsToComplete returns the kinds whose names Names completes. A value is true if the objects of that kind are in namespaces.
func kindsToComplete() map[schema.GroupVersionKind]bool {
	return map[schema.GroupVersionKind]bool{
		corev1.SchemeGroupVersion.WithKind("Namespace"):             false,
		corev1.SchemeGroupVersion.WithKind("Node"):                  false,
		corev1.SchemeGroupVersion.WithKind("PersistentVolume"):      false,
		storagev1.SchemeGroupVersion.WithKind("CSIDriver"):          false,
		storagev1.SchemeGroupVersion.WithKind("StorageClass"):       false,
		operatorv1.SchemeGroupVersion.WithKind("ClusterCSIDriver"):  false,
		corev1.SchemeGroupVersion.WithKind("Pod"):                   true,
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"): true,
		v1alpha1.GroupVersion().WithKind("SharedVolume"):            true,
	}
}

// Names returns the names of all objects of these kinds that begin with what the user typed, in the namespace of the flags. If a request fails, the
// result lacks the names of that kind, because a completion can't show an error.
func (p *Plugin) Names(ctx context.Context, typed string, kinds ...string) []string {
	cluster, err := p.Connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	found := map[string]bool{}
	for kind, namespaced := range kindsToComplete() {
		if !slices.Contains(kinds, kind.Kind) {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		options := []client.ListOption{client.Limit(mostNames)}
		if namespaced {
			options = append(options, client.InNamespace(cluster.Namespace))
		}
		if err := cluster.List(ctx, list, options...); err != nil {
			continue
		}
		for i := range list.Items {
			if name := list.Items[i].Name; strings.HasPrefix(name, typed) {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// CompleteName completes one argument, the name of an object of these kinds.
func (p *Plugin) CompleteName(kinds ...string) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.Names(command.Context(), typed, kinds...), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteNames completes any number of arguments, each the name of an object of these kinds. It does not suggest the same name twice.
func (p *Plugin) CompleteNames(kinds ...string) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		names := slices.DeleteFunc(p.Names(command.Context(), typed, kinds...), func(name string) bool { return slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag completes a flag's value with names of objects.
func (p *Plugin) completeFlag(kind string) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return p.Names(command.Context(), typed, kind), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeConfig completes a flag's value with names from the kubeconfig.
func (p *Plugin) completeConfig(names func(clientcmdapi.Config) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		config, err := p.Flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := slices.DeleteFunc(names(config), func(name string) bool { return !strings.HasPrefix(name, typed) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// Partitions returns the names of the partitions of AWS (aws-sdk-go-v2 v1.47.7, internal/endpoints/awsrulesfn/partitions.json).
func Partitions() []string {
	return []string{"aws", "aws-cn", "aws-eusc", "aws-iso", "aws-iso-b", "aws-iso-e", "aws-iso-f", "aws-us-gov"}
}

// completeFlags decides how the shell completes the values of flags. For kubectl's own flags, the name of the flag decides. For all other flags, the
// placeholder in the flag's usage text decides, for instance `namespace`. The shell completes file names only for flags whose value is a file or a
// folder.
func (p *Plugin) completeFlags(root *cobra.Command) error {
	formats := cobra.FixedCompletions([]string{JSON, Table, Wide, YAML}, cobra.ShellCompDirectiveNoFileComp)
	for flag, complete := range map[string]cobra.CompletionFunc{
		"namespace": p.completeFlag("Namespace"),
		"output":    formats,
		"context":   p.completeConfig(func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) }),
		"cluster":   p.completeConfig(func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) }),
		"user":      p.completeConfig(func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) }),
	} {
		if err := root.RegisterFlagCompletionFunc(flag, complete); err != nil {
			return err //nolint:wrapcheck // It names the flag.
		}
	}
	byPlaceholder := map[string]cobra.CompletionFunc{
		"namespace": p.completeFlag("Namespace"), "node": p.completeFlag("Node"),
		"partition": cobra.FixedCompletions(Partitions(), cobra.ShellCompDirectiveNoFileComp),
	}
	return eachCommand(root, func(command *cobra.Command) error {
		if command.ValidArgsFunction == nil && command.ValidArgs == nil && command.HasParent() {
			command.ValidArgsFunction = cobra.NoFileCompletions
		}
		var failed error
		command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			placeholder, _ := pflag.UnquoteUsage(flag)
			_, taken := command.GetFlagCompletionFunc(flag.Name)
			if failed != nil || taken || placeholder == "file" || placeholder == "folder" || flag.Value.Type() == "bool" {
				return
			}
			complete, known := byPlaceholder[placeholder]
			if !known {
				complete = cobra.NoFileCompletions
			}
			failed = command.RegisterFlagCompletionFunc(flag.Name, complete)
		})
		return failed //nolint:wrapcheck // It names the flag.
	})
}

// eachCommand visits a command and all of its subcommands.
func eachCommand(command *cobra.Command, visit func(*cobra.Command) error) error {
	if err := visit(command); err != nil {
		return err
	}
	for _, below := range command.Commands() {
		if err := eachCommand(below, visit); err != nil {
			return err
		}
	}
	return nil
}
