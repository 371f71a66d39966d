// Package leftovers finds leftovers of drivers and operators. It deletes them after the user has confirmed the deletion once. Leftovers are volumes
// without PVCs, access points without volumes, and objects of predecessors.
package leftovers

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/migrate"
	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

const long = `List leftovers of drivers: PersistentVolumes without a claim, access points of EFS without a volume, and objects of other operators.

Without --delete, the command changes nothing. With it, the command asks once, and deletes the list. The data of a PersistentVolume stay in
the cloud, and so does the directory of an access point.

The command asks AWS only with --account, and refuses credentials of another account.

Exit codes: 0 nothing is left, or all was deleted; 1 something failed; 3 something is left.`

// cloud has the requests to AWS that the command needs.
type cloud interface {
	aws.Identifier
	AccessPoints(ctx context.Context, fileSystem string) ([]aws.AccessPoint, error)
	AccessPoint(ctx context.Context, id string) (aws.AccessPoint, error)
	DeleteAccessPoint(ctx context.Context, id string) error
}

// sources are functions that return the inputs other than the objects of the cluster. Tests replace them.
type sources struct {
	connect      func(ctx context.Context, region string) (cloud, error)
	predecessors func(ctx context.Context, cluster *plugin.Cluster) ([]migration.PlannedObject, error)
}

type options struct {
	remove, yes bool
	account     string
}

// Command returns the command "leftovers".
func Command(p *plugin.Plugin) *cobra.Command {
	return command(p, sources{
		connect: func(ctx context.Context, region string) (cloud, error) {
			return aws.New(ctx, aws.Options{Region: region})
		},
		predecessors: fromPlan,
	})
}

// fromPlan returns the objects that a migration would delete.
func fromPlan(ctx context.Context, cluster *plugin.Cluster) ([]migration.PlannedObject, error) {
	source, err := migrate.FromCluster(cluster, awsefs.Driver())
	if err != nil {
		return nil, err
	}
	plan, err := migrate.Plan(ctx, source, awsefs.Driver(), "")
	var found []migration.PlannedObject
	for _, object := range plan.Objects {
		if object.Action == migration.PlanDelete {
			found = append(found, object)
		}
	}
	return found, err
}

func command(p *plugin.Plugin, from sources) *cobra.Command {
	var wanted options
	made := &cobra.Command{
		Use: "leftovers", Short: "List or delete what drivers and their operators have left", Long: long, Args: plugin.NoArgs,
		Example: "  # List what is unused in the cluster.\n" +
			"  oc storage leftovers\n" +
			"  # List unused access points in AWS, too, and delete all listed objects after confirmation.\n" +
			"  oc storage leftovers --account 123456789012 --delete",
		RunE: func(command *cobra.Command, _ []string) error {
			if wanted.yes && !wanted.remove {
				return plugin.Usage("--yes needs --delete: without --delete, the command does not ask")
			}
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return run(command.Context(), p, cluster, from, wanted)
		},
	}
	made.Flags().BoolVar(&wanted.remove, "delete", false, "delete the listed objects, after asking once")
	made.Flags().BoolVar(&wanted.yes, "yes", false, "do not ask")
	made.Flags().StringVar(&wanted.account, "account", "", "`number` of the AWS account, to list its access points, too")
	return made
}

func run(ctx context.Context, p *plugin.Plugin, cluster *plugin.Cluster, from sources, wanted options) error {
	found, connected, err := observe(ctx, cluster, from, wanted.account)
	if err != nil {
		return err
	}
	plan := planOf(found)
	if err := p.Print(plan, plan.rows()); err != nil {
		return err
	}
	p.PrintMissing(cluster)
	todo := plan.deletable()
	switch {
	case len(plan.Items) == 0 && len(cluster.Missing()) > 0:
		// The user may lack permission to see some leftovers.
		return &plugin.ExitError{Code: plugin.Failed}
	case !wanted.remove && len(plan.Items) > 0:
		return &plugin.ExitError{Code: plugin.Wrong}
	case !wanted.remove || len(todo) == 0:
		return nil
	}
	if err := cluster.RequireRights("the deletion"); err != nil {
		return err
	}
	if err := p.Confirm(ctx, wanted.yes, questionOf(todo)); err != nil {
		return err
	}
	deleting := deleter{cluster: cluster, cloud: connected, infraID: found.infraID, drivers: found.drivers}
	deleting.used = func(ctx context.Context) (map[string]bool, error) {
		var now seen
		if err := now.readCluster(ctx, cluster); err != nil {
			return nil, err
		}
		if pvc := now.pending(); pvc != "" {
			return nil, fmt.Errorf("kept, because PersistentVolumeClaim %s now waits for a volume", pvc)
		}
		return now.used(), cluster.RequireRights("the deletion")
	}
	deleted, err := deleting.all(ctx, todo, p.Progress())
	_, _ = fmt.Fprintf(p.Streams.ErrOut, "Deleted %d of %d objects.\n", deleted, len(todo))
	return err
}

// observe lists the access points in AWS before it reads the cluster. So if an access point of the list is in use, its PersistentVolume already
// exists when observe reads the cluster.
func observe(ctx context.Context, c *plugin.Cluster, from sources, account string) (seen, cloud, error) {
	found := seen{drivers: map[string]bool{}}
	for _, one := range all.Drivers() {
		found.drivers[one.Name] = true
	}
	connected, err := found.askAWS(ctx, c, from, account)
	if err != nil {
		return found, nil, err
	}
	if err := found.readCluster(ctx, c); err != nil {
		return found, nil, err
	}
	if found.predecessors, err = from.predecessors(ctx, c); err != nil {
		found.notes = append(found.notes, fmt.Sprintf("Objects of predecessors are not listed: %v.", err))
	}
	return found, connected, nil
}

// readCluster reads PersistentVolumes and SharedVolumes. It also reads PVCs and StorageClasses, because a driver may be creating an access point for
// a PVC at this moment.
func (s *seen) readCluster(ctx context.Context, c *plugin.Cluster) error {
	volumes, pvcs, classes, shares := &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}, &storagev1.StorageClassList{},
		&v1alpha1.SharedVolumeList{}
	for _, list := range []client.ObjectList{pvcs, volumes, classes, shares} {
		if _, err := c.FindAll(ctx, list); err != nil {
			return err
		}
	}
	s.volumes, s.pvcs, s.classes, s.shares = volumes.Items, pvcs.Items, classes.Items, shares.Items
	return nil
}

// askAWS lists the access points.
func (s *seen) askAWS(ctx context.Context, c *plugin.Cluster, from sources, account string) (cloud, error) {
	if account == "" {
		s.notes = append(s.notes, "Access points are not listed: --account NUMBER lists them.")
		return nil, nil //nolint:nilnil // Without an account there is no cloud.
	}
	infrastructure, err := openshift.ReadInfrastructure(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("find the region of the cluster: %w", err)
	}
	if infrastructure == nil || infrastructure.Status.PlatformStatus == nil || infrastructure.Status.PlatformStatus.AWS == nil {
		return nil, plugin.Usage("--account %s: Infrastructure cluster does not say that this cluster is on AWS", account)
	}
	s.infraID = infrastructure.Status.InfrastructureName
	region := infrastructure.Status.PlatformStatus.AWS.Region
	for _, err := range []error{efscleanup.CheckInfraID(s.infraID), efscleanup.CheckPlace(account, region)} {
		if err != nil {
			return nil, plugin.Usage("%w", err)
		}
	}
	connected, err := from.connect(ctx, region)
	if err != nil {
		return nil, fmt.Errorf("connect to AWS: %w", err)
	}
	if err := efscleanup.CheckAccount(ctx, connected, account); err != nil {
		return nil, plugin.Usage("%w", err)
	}
	if s.points, err = connected.AccessPoints(ctx, ""); err != nil {
		return nil, fmt.Errorf("list access points: %w", err)
	}
	return connected, nil
}

func (p Plan) rows() [][]string {
	var rows [][]string
	if len(p.Items) == 0 {
		rows = append(rows, []string{"No leftovers were found."})
	} else {
		rows = append(rows, []string{"KIND", "NAME", "OF", "WHY", "KEPT"})
	}
	for _, item := range p.Items {
		rows = append(rows, []string{item.Kind, item.Name, item.Of, item.Why, item.Kept})
	}
	if deletable := len(p.deletable()); len(p.Items) > 0 {
		rows = append(rows, []string{""}, []string{
			fmt.Sprintf("--delete deletes %d of these %d objects. Nothing has been changed yet.", deletable, len(p.Items))})
	}
	for _, note := range p.Notes {
		rows = append(rows, []string{note})
	}
	return rows
}

// questionOf returns a question with the number of items to delete.
func questionOf(items []Item) string {
	volumes := 0
	for _, item := range items {
		if item.Kind == persistentVolume {
			volumes++
		}
	}
	return fmt.Sprintf("Delete %d PersistentVolumes, whose data stay in the cloud, and %d access points, whose directories stay?",
		volumes, len(items)-volumes)
}
