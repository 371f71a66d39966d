package install

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

const uninstallLong = `Uninstall the AWS EFS CSI driver: print what blocks it, delete the ClusterCSIDriver, wait, and print what is left.

The command deletes no PersistentVolume and no data. While pods use volumes, it does nothing.

Exit codes: 0 the driver is uninstalled; 3 pods use volumes; 4 not done yet.`

// UninstallCommand returns the command "uninstall".
func UninstallCommand(p *plugin.Plugin) *cobra.Command {
	return plugin.Group("uninstall", "Uninstall an optional CSI driver", uninstallLong, uninstallEFS(p))
}

type uninstallOptions struct {
	namespace string
	yes       bool
	timeout   time.Duration
}

func uninstallEFS(p *plugin.Plugin) *cobra.Command {
	var wanted uninstallOptions
	made := &cobra.Command{
		Use: "efs", Short: "Uninstall the AWS EFS CSI driver", Long: uninstallLong, Args: plugin.NoArgs,
		Example: "  # What blocks the removal? Remove the driver after confirmation, and list what is left.\n" +
			"  oc storage uninstall efs",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := plugin.RefuseNamespace(command); err != nil {
				return err
			}
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return uninstall(command.Context(), p, cluster, wanted)
		},
	}
	made.Flags().StringVar(&wanted.namespace, "operator-namespace", kube.DefaultNamespace, "`namespace` of the operator and the driver")
	made.Flags().BoolVar(&wanted.yes, "yes", false, "do not ask")
	made.Flags().DurationVar(&wanted.timeout, "timeout", 10*time.Minute, "how long to wait")
	return made
}

// Remains lists the pods that block an uninstallation, and the objects that remain after it.
type Remains struct {
	// Users are the pods that use volumes of the driver. The command does not uninstall the driver while such pods exist.
	Users []string `json:"users"`
	// Volumes are the PersistentVolumes of the driver, which the command does not delete.
	Volumes []string `json:"volumes"`
	// Others are DaemonSets of other owners that run the driver, as namespace/name.
	Others []string `json:"others,omitempty"`
	// Subscription and CSV are the operator's objects, which the command does not delete. They are empty if they do not exist.
	Subscription string `json:"subscription,omitempty"`
	CSV          string `json:"csv,omitempty"`
	// Left has the remaining objects that OLM or an administrator has applied for the operator, and the operator's Lease.
	Left []Left `json:"left,omitempty"`
}

// pluginsOf returns the DaemonSets that run the driver.
func pluginsOf(ctx context.Context, c *plugin.Cluster) ([]string, error) {
	found := seen{denied: map[string]bool{}}
	err := found.findPlugins(ctx, c)
	return found.plugins, err
}

func remainsOf(ctx context.Context, c *plugin.Cluster, namespace string) (Remains, error) {
	volumes, err := volume.OfDriver(ctx, c.Lenient(), awsefs.Name)
	if err != nil {
		return Remains{}, err
	}
	users, err := volumes.Users(ctx, c.Lenient())
	if err != nil {
		return Remains{}, err
	}
	found := Remains{Users: volume.Pods(users), Volumes: volumes.Names}
	if found.Others, err = pluginsOf(ctx, c); err != nil {
		return found, err
	}
	subscription := &unstructured.Unstructured{}
	subscription.SetGroupVersionKind(subscriptionKind())
	there, err := c.Find(ctx, client.ObjectKey{Namespace: namespace, Name: awsefs.Operator}, subscription)
	if there {
		found.Subscription = namespace + "/" + awsefs.Operator
		found.CSV, _, _ = unstructured.NestedString(subscription.Object, "status", "installedCSV")
	}
	return found, err
}

func uninstall(ctx context.Context, p *plugin.Plugin, c *plugin.Cluster, wanted uninstallOptions) error {
	remains, err := remainsOf(ctx, c, wanted.namespace)
	if err != nil {
		return err
	}
	cr := &operatorv1.ClusterCSIDriver{}
	there, err := c.Find(ctx, client.ObjectKey{Name: awsefs.Name}, cr)
	if err != nil {
		return err
	}
	if err := c.RequireRights("the uninstallation"); err != nil {
		return err
	}
	if there {
		if len(remains.Users) > 0 {
			return &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("nothing was done: %d pods use volumes of the driver, and would hang without it: %s"+
				". Stop them first", len(remains.Users), strings.Join(remains.Users, ", "))}
		}
		if err := p.Confirm(ctx, wanted.yes, fmt.Sprintf("Delete ClusterCSIDriver %s, and with it the driver? %d PersistentVolumes and their data "+
			"stay.", awsefs.Name, len(remains.Volumes))); err != nil {
			return err
		}
		if err := remove(ctx, p, c, cr, wanted.timeout); err != nil {
			return err
		}
	}
	// By now, the operator has deleted its own DaemonSet, so the list has only DaemonSets of other owners.
	if remains.Others, err = pluginsOf(ctx, c); err != nil {
		return err
	}
	if remains.Left, err = leftOf(ctx, c, wanted.namespace); err != nil {
		return err
	}
	if err := p.Print(remains, remains.rows()); err != nil {
		return err
	}
	p.PrintMissing(c)
	return nil
}

// remove deletes exactly this ClusterCSIDriver, by its UID, and waits until it no longer exists.
func remove(ctx context.Context, p *plugin.Plugin, c *plugin.Cluster, cr *operatorv1.ClusterCSIDriver, timeout time.Duration) error {
	if cr.DeletionTimestamp == nil {
		uid := cr.UID
		if err := c.Delete(ctx, cr, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete ClusterCSIDriver %s: %w", cr.Name, err)
		}
	}
	bar := p.Progress()
	defer bar.End()
	return p.Until(ctx, timeout, "ClusterCSIDriver "+cr.Name+" is deleted", func(ctx context.Context) (bool, error) {
		now := &operatorv1.ClusterCSIDriver{}
		answer, err := c.TryGet(ctx, client.ObjectKey{Name: cr.Name}, now)
		if err != nil {
			return false, err
		}
		if !answer.Known() {
			return false, fmt.Errorf("you no longer have permission to read ClusterCSIDriver %s, so the command can't tell when it is deleted", cr.Name)
		}
		there := answer == plugin.Present
		step := plugin.Step{Total: 1, What: "the operator removes the driver", State: removalMessage(now)}
		if !there {
			step.Done, step.What, step.State = 1, "the driver is uninstalled", ""
		}
		bar.Step(step)
		return !there, nil
	})
}

// removalMessage returns a text from condition Progressing that says what the operator waits for.
func removalMessage(cr *operatorv1.ClusterCSIDriver) string {
	condition := status.Find(cr.Status.Conditions, status.Progressing)
	if condition == nil {
		return ""
	}
	return cmp.Or(condition.Message, condition.Reason)
}

// rows returns the lines of the output: the objects that remain, and the commands that delete them.
func (r Remains) rows() [][]string {
	rows := [][]string{{"The operator's driver is uninstalled. This remains:"}}
	for _, other := range r.Others {
		rows = append(rows, []string{"  DaemonSet " + other + ", which runs the driver for another owner"})
	}
	if r.Subscription != "" {
		namespace, name, _ := strings.Cut(r.Subscription, "/")
		rows = append(rows, []string{"  the operator: " + plugin.ToCopy("oc -n %s delete subscriptions.operators.coreos.com %s", namespace, name)})
		if r.CSV != "" {
			rows = append(rows, []string{"  its ClusterServiceVersion: " + plugin.ToCopy("oc -n %s delete clusterserviceversion %s", namespace, r.CSV)})
		}
	}
	if len(r.Volumes) > 0 {
		rows = append(rows, []string{
			fmt.Sprintf("  %d PersistentVolumes: \"oc storage leftovers\" lists PersistentVolumes without a claim", len(r.Volumes))})
	}
	for _, one := range r.Left {
		rows = append(rows, []string{"  " + one.Object + ": " + one.Command})
	}
	if len(rows) == 1 {
		return [][]string{{"The operator's driver is uninstalled, and nothing is left."}}
	}
	return rows
}
