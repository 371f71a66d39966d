// Package share has the commands about SharedVolumes. A SharedVolume gives developers a PVC for an access point of EFS, within the limits that
// administrators set.
package share

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

const long = `Create PVCs for access points of EFS file systems, show which access points a namespace may use, and revoke them.

For a SharedVolume, the operator creates a PVC in the same namespace. Pods use that PVC.`

// Command returns the command "share".
func Command(p *plugin.Plugin) *cobra.Command {
	return plugin.Group("share", "Create, list, explain and revoke SharedVolumes", long,
		createCommand(p), listCommand(p), explainCommand(p), revokeCommand(p))
}

// checkIDs checks that IDs have the form of AWS's IDs, as the API server does.
func checkIDs(fileSystem, accessPoint string) error {
	switch {
	case !efs.IsFileSystem(fileSystem):
		return plugin.Usage("--file-system %q: must be the ID of a file system, such as fs-0123456789abcdef0", fileSystem)
	case !efs.IsAccessPoint(accessPoint):
		return plugin.Usage("--access-point %q: must be the ID of an access point, such as fsap-0123456789abcdef0", accessPoint)
	}
	return nil
}

type createOptions struct {
	fileSystem, accessPoint string
	wait                    bool
	timeout                 time.Duration
}

func createCommand(p *plugin.Plugin) *cobra.Command {
	var options createOptions
	command := &cobra.Command{
		Use: "create NAME --file-system ID --access-point ID", Short: "Create a SharedVolume", Args: plugin.OneArg("the name of the SharedVolume"),
		Long: "Create a SharedVolume, for which the operator creates a PVC. A second run changes nothing.",
		Example: "  # Get a PVC for an access point, and wait until pods can mount it.\n" +
			"  oc storage share create reports --file-system fs-0123456789abcdef0 --access-point fsap-0123456789abcdef0 --wait -n my-project",
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkIDs(options.fileSystem, options.accessPoint); err != nil {
				return err
			}
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return create(command.Context(), p, cluster, args[0], options)
		},
	}
	command.Flags().StringVar(&options.fileSystem, "file-system", "", "`ID` of the file system")
	command.Flags().StringVar(&options.accessPoint, "access-point", "", "`ID` of an access point of the file system in --file-system")
	completeIDs(p, command)
	command.Flags().BoolVar(&options.wait, "wait", false, "wait until pods can mount the PVC")
	command.Flags().DurationVar(&options.timeout, "timeout", 2*time.Minute, "with --wait, how long to wait")
	return command
}

func create(ctx context.Context, p *plugin.Plugin, c *plugin.Cluster, name string, options createOptions) error {
	wanted := &v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: options.fileSystem, AccessPointID: options.accessPoint},
	}
	where := whereOf(wanted)
	key, present := client.ObjectKeyFromObject(wanted), &v1alpha1.SharedVolume{}
	there, err := c.Find(ctx, key, present)
	switch {
	case err != nil:
		return err
	case there && present.Spec != wanted.Spec:
		return &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("%s exists for access point %s of file system %s, and its IDs can't be changed: "+
			"choose another name", where, present.Spec.AccessPointID, present.Spec.FileSystemID)}
	case there && present.DeletionTimestamp != nil:
		return &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("%s is being deleted: wait until it is deleted, or choose another name", where)}
	case !there:
		if err := createError(c.Create(ctx, wanted), where); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(p.Streams.ErrOut, "created %s\n", where)
	}
	if options.wait {
		if present, err = await(ctx, p, c, key, options.timeout); err != nil {
			return err
		}
		wanted = present
	} else if there {
		wanted = present
	}
	made := shareOf(wanted)
	return p.Print(made, [][]string{{createdText(made)}})
}

func whereOf(sv *v1alpha1.SharedVolume) string {
	return fmt.Sprintf("SharedVolume %s in namespace %s", sv.Name, sv.Namespace)
}

// mountablePolls is the number of polls in which a Ready share is allowed to lack condition Mountable. If the operator can ask AWS, it sets this
// condition in the first status.
const mountablePolls = 5

// await waits until pods can mount the share.
func await(ctx context.Context, p *plugin.Plugin, c *plugin.Cluster, key client.ObjectKey, timeout time.Duration) (*v1alpha1.SharedVolume, error) {
	now, unasked := &v1alpha1.SharedVolume{}, 0
	now.Namespace, now.Name = key.Namespace, key.Name
	where := whereOf(now)
	err := p.Until(ctx, timeout, "pods can mount "+where, func(ctx context.Context) (bool, error) {
		now = &v1alpha1.SharedVolume{}
		if err := c.Get(ctx, key, now); err != nil {
			return false, fmt.Errorf("read %s: %w", where, err)
		}
		if problem := problemOf(now); problem != "" {
			return false, &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("pods can't mount %s: %s", where, problem)}
		}
		switch {
		case now.Status.Phase != v1alpha1.Ready:
			return false, nil
		case meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionMountable):
			return true, nil
		}
		unasked++
		return unasked == mountablePolls, nil
	})
	if err == nil && unasked == mountablePolls {
		plugin.PrintLine(p.Streams.ErrOut, "The operator has not checked file system %s in AWS: a wrong ID shows only when a pod mounts it. "+
			"\"oc storage doctor\" says why.", now.Spec.FileSystemID)
	}
	return now, err
}

// problemOf returns a problem that prevents mounts of the share, and that does not end unless a person acts. If no such problem is known, the result
// is empty.
func problemOf(sv *v1alpha1.SharedVolume) string {
	switch {
	case sv.DeletionTimestamp != nil:
		return "it is being deleted"
	case sv.Status.Phase == v1alpha1.Failed:
		return sv.Status.Message
	case sv.Status.Phase != v1alpha1.Ready:
		return ""
	}
	for _, kind := range []string{v1alpha1.ConditionDriverInstalled, v1alpha1.ConditionMountable} {
		if meta.IsStatusConditionFalse(sv.Status.Conditions, kind) {
			return meta.FindStatusCondition(sv.Status.Conditions, kind).Message
		}
	}
	return ""
}

// createError adds advice to the error of a refused creation.
func createError(err error, where string) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("%s was not created: the cluster serves no SharedVolumes, or has no such namespace. "+
			"\"oc storage install efs\" installs the operator that serves them: %w", where, err)}
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("%s was refused; \"oc storage share explain\" shows what the namespace may use: %w",
			where, err)}
	default:
		return fmt.Errorf("create %s: %w", where, err)
	}
}

func createdText(made Share) string {
	if made.PVC == "" {
		return fmt.Sprintf("SharedVolume %s has no PVC yet. \"oc storage share list\" shows its state.", made.Name)
	}
	return fmt.Sprintf("Pods in namespace %s can use PersistentVolumeClaim %s.", made.Namespace, made.PVC)
}

func revokeCommand(p *plugin.Plugin) *cobra.Command {
	yes := false
	command := &cobra.Command{
		Use: "revoke NAME", Short: "Delete a SharedVolume, and list the pods that still use it", Args: plugin.OneArg("the name of the SharedVolume"),
		Long: "Delete a SharedVolume, and list the pods that still use it. The operator deletes its PVC when the last of these pods stops. " +
			"The data stay.",
		ValidArgsFunction: p.CompleteName("SharedVolume"),
		Example: "  # List the pods that use SharedVolume \"reports\". Delete it after confirmation.\n" +
			"  oc storage share revoke reports -n my-project",
		RunE: func(command *cobra.Command, args []string) error {
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return revoke(command.Context(), p, cluster, args[0], yes)
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return command
}

func revoke(ctx context.Context, p *plugin.Plugin, c *plugin.Cluster, name string, yes bool) error {
	object := &v1alpha1.SharedVolume{}
	there, err := c.Find(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, object)
	if err != nil {
		return err
	}
	if err := c.RequireRights("the revocation"); err != nil {
		return err
	}
	if !there {
		return &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("SharedVolume %s does not exist in namespace %s: set another namespace with -n",
			name, c.Namespace)}
	}
	var users []volume.User
	if pvc := object.Status.ClaimRef.Name; pvc != "" {
		used := map[client.ObjectKey]bool{{Namespace: c.Namespace, Name: pvc}: true}
		if users, err = volume.UsersOf(ctx, c.Lenient(), used); err != nil {
			return err
		}
		if err := c.RequireRights("the revocation"); err != nil {
			return err
		}
	}
	if err := p.Confirm(ctx, yes, revokeText(shareOf(object), volume.Pods(users))+" Revoke it?"); err != nil {
		return err
	}
	uid := object.UID
	if err := c.Delete(ctx, object, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete SharedVolume %s in namespace %s: %w", name, c.Namespace, err)
	}
	text := fmt.Sprintf("SharedVolume %s is deleted.", name)
	if len(users) > 0 {
		text += fmt.Sprintf(" %d pods keep their access until they stop; new pods can't use the volume.", len(users))
	}
	_, _ = fmt.Fprintln(p.Streams.Out, text)
	return nil
}

// revokeText says which access point the share uses, and which pods keep their access until they stop.
func revokeText(share Share, pods []string) string {
	text := fmt.Sprintf("SharedVolume %s uses access point %s of file system %s; the data stay.", share.Name, share.AccessPoint, share.FileSystem)
	if len(pods) == 0 {
		return text + " No pod uses it."
	}
	return text + fmt.Sprintf(" %d pods use it, and keep their access until they stop: %s.", len(pods), strings.Join(pods, ", "))
}
