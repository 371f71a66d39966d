package share

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// completionTime is the longest time that the shell waits for IDs.
const completionTime = 3 * time.Second

// completeIDs completes --file-system and --access-point. The IDs come from objects that the user may read. These are the namespace's list of allowed
// shares, the SharedVolumes in the namespace, and the StorageClasses. The plugin does not query AWS, because the user of a namespace has no account
// there.
func completeIDs(p *plugin.Plugin, command *cobra.Command) {
	fileSystems := func(command *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return having(typed, slices.Sorted(maps.Keys(knownShares(command.Context(), p)))), cobra.ShellCompDirectiveNoFileComp
	}
	accessPoints := func(command *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		of, _ := command.Flags().GetString("file-system")
		found := map[string]bool{}
		for fileSystem, points := range knownShares(command.Context(), p) {
			if of == "" || of == fileSystem {
				maps.Copy(found, points)
			}
		}
		return having(typed, slices.Sorted(maps.Keys(found))), cobra.ShellCompDirectiveNoFileComp
	}
	// Both flags exist, and have no other completion.
	_ = command.RegisterFlagCompletionFunc("file-system", fileSystems)
	_ = command.RegisterFlagCompletionFunc("access-point", accessPoints)
}

func having(prefix string, all []string) []string {
	return slices.DeleteFunc(all, func(one string) bool { return !strings.HasPrefix(one, prefix) })
}

// knownShares returns file systems with their access points. A completion can't show an error, so knownShares leaves out objects that it can't read.
func knownShares(ctx context.Context, p *plugin.Plugin) map[string]map[string]bool {
	cluster, err := p.Connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	found := map[string]map[string]bool{}
	add := func(fileSystem, accessPoint string) {
		if !efs.IsFileSystem(fileSystem) {
			return
		}
		if found[fileSystem] == nil {
			found[fileSystem] = map[string]bool{}
		}
		if efs.IsAccessPoint(accessPoint) {
			found[fileSystem][accessPoint] = true
		}
	}
	namespace := &corev1.Namespace{}
	if err := cluster.Get(ctx, client.ObjectKey{Name: cluster.Namespace}, namespace); err == nil {
		for entry := range strings.SplitSeq(namespace.Annotations[efs.AllowedAnnotation], ",") {
			fileSystem, accessPoint, _ := strings.Cut(strings.TrimSpace(entry), "/")
			add(fileSystem, accessPoint)
		}
	}
	if shares, err := sharesIn(ctx, cluster, cluster.Namespace); err == nil {
		for _, one := range shares {
			add(one.FileSystem, one.AccessPoint)
		}
	}
	classes := &storagev1.StorageClassList{}
	if err := cluster.List(ctx, classes); err == nil {
		for _, class := range classes.Items {
			if class.Provisioner == efs.DriverName {
				add(class.Parameters["fileSystemId"], "")
			}
		}
	}
	return found
}
