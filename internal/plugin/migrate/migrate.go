// Package migrate has the commands about a migration of the EFS driver from another operator. The commands only read a cluster, or a must-gather
// folder.
package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

const long = `Show how the operator migrates the AWS EFS CSI driver from another operator, and how far the migration is.

The commands change nothing. The operator starts the migration when ClusterCSIDriver efs.csi.aws.com is created.`

// Command returns the command "migrate".
func Command(p *plugin.Plugin) *cobra.Command {
	return plugin.Group("migrate", "Show the migration of the EFS driver from another operator", long, planCommand(p), statusCommand(p))
}

type options struct {
	namespace string
}

func (o *options) add(command *cobra.Command) {
	command.Flags().StringVar(&o.namespace, "operator-namespace", "",
		"`namespace` where the operator is, or will be, installed; default: where it is installed, else the namespace of the predecessor's DaemonSet")
}

func planCommand(p *plugin.Plugin) *cobra.Command {
	var wanted options
	command := &cobra.Command{
		Use: "plan", Short: "List what the migration does with each object and each node", Args: plugin.NoArgs,
		Long: "List what the migration does with each object and each node, and which pods a node waits for.\n\n" +
			"It also lists what the new driver refuses, or treats in another way than the driver of the predecessor.\n\n" +
			"Exit codes: 0 nothing blocks the migration; 3 something blocks it, or the new driver refuses a value that is in use. A " +
			"PersistentVolume is in use if a PersistentVolumeClaim is bound to it. A StorageClass is in use if a PersistentVolume names it, or if it " +
			"is the default.",
		Example: "  # What would a migration do with each object and each node?\n" +
			"  oc storage migrate plan\n" +
			"  # Plan the migration of another cluster, from its must-gather.\n" +
			"  oc storage migrate plan --from must-gather.local.1234",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := plugin.RefuseNamespace(command); err != nil {
				return err
			}
			plan, _, err := planOf(command.Context(), p, wanted)
			if err != nil {
				return err
			}
			if p.IsTable() {
				err = printPlan(p.Streams.Out, plan)
			} else {
				err = p.Print(plan, nil)
			}
			refused := slices.ContainsFunc(plan.Changes, func(one migration.PlannedChange) bool { return one.Refused && !one.Unused })
			if err == nil && (plan.Blocker != "" || len(plan.Problems) > 0 || refused) {
				return &plugin.ExitError{Code: plugin.Wrong}
			}
			return err
		},
	}
	wanted.add(command)
	return plugin.ReadsFolders(command)
}

// planOf makes the plan. Result "installed" is true if the ClusterCSIDriver exists in the cluster or folder.
func planOf(ctx context.Context, p *plugin.Plugin, wanted options) (plan migration.Plan, installed bool, err error) {
	d := awsefs.Driver()
	var source Source
	if p.From != "" {
		source, installed, err = fromFolder(ctx, p.From, d, func(text string) { _, _ = fmt.Fprintln(p.Streams.ErrOut, "warning:", text) })
	} else {
		var cluster *plugin.Cluster
		if cluster, err = p.Connect(); err != nil {
			return plan, false, err
		}
		if source, err = FromCluster(cluster, d); err != nil {
			return plan, false, err
		}
		var answer plugin.Answer
		answer, err = cluster.TryGet(ctx, client.ObjectKey{Name: d.Name}, &operatorv1.ClusterCSIDriver{})
		installed = answer == plugin.Present
		if err == nil {
			err = cluster.RequireRights("the plan")
		}
	}
	if err != nil {
		return plan, false, err
	}
	plan, err = Plan(ctx, source, d, wanted.namespace)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("a plan needs the permissions of a cluster administrator, because a partial plan would mislead: %w", err)
	}
	return plan, installed, err
}

// Status says how far a migration is.
type Status struct {
	// Phase is one of the phases below.
	Phase   string `json:"phase"`
	Message string `json:"message"`
	// Left are the nodes that still have a pod of a predecessor.
	Left []migration.PlannedNode `json:"left"`
	// Objects is the number of objects that the operator still has to adopt, change or delete.
	Objects int `json:"objects"`
	// Refused are the values of PersistentVolumes and StorageClasses that the new driver refuses.
	Refused []migration.PlannedChange `json:"refused,omitempty"`
}

// Phases of a migration.
const (
	done       = "Done"
	blocked    = "Blocked"
	notStarted = "NotBegun"
	waiting    = "WaitingForPods"
	migrating  = "Migrating"
)

// statusOf derives the status from a plan. It is pure.
func statusOf(plan migration.Plan, installed bool) Status {
	found := Status{Left: plan.Nodes}
	for _, object := range plan.Objects {
		if object.Action == migration.PlanAdopt || object.Action == migration.PlanDelete {
			found.Objects++
		}
	}
	for _, change := range plan.Changes {
		if change.Refused {
			found.Refused = append(found.Refused, change)
		}
	}
	held := 0
	for _, node := range plan.Nodes {
		if node.Waits {
			held++
		}
	}
	switch {
	case plan.Blocker != "":
		found.Phase, found.Message = blocked, plan.Blocker
	case len(plan.Nodes) == 0 && found.Objects == 0:
		found.Phase, found.Message = done, "no objects of another operator are left"
	case !installed:
		found.Phase = notStarted
		found.Message = "the operator begins when ClusterCSIDriver " + awsefs.Name + " is created; \"oc storage migrate plan\" shows what it does"
	case held > 0 && held == len(plan.Nodes):
		found.Phase = waiting
		found.Message = fmt.Sprintf("pods use volumes on all %d remaining nodes: drain these nodes, or stop the pods", held)
	default:
		found.Phase = migrating
		found.Message = fmt.Sprintf("%d nodes have a pod of the predecessor, %d of them in use; the operator replaces %d pods at a time",
			len(plan.Nodes), held, plan.AtOnce)
	}
	return found
}

func statusCommand(p *plugin.Plugin) *cobra.Command {
	var wanted options
	command := &cobra.Command{
		Use: "status", Short: "Show how far a migration is, and what it waits for", Args: plugin.NoArgs,
		Long: "Show how far a migration is, and what it waits for.\n\nExit codes: 0 done; 3 something blocks it; 4 not done yet, or not started.",
		Example: "  # How far is the migration, and what does it wait for?\n" +
			"  oc storage migrate status",
		RunE: func(command *cobra.Command, _ []string) error {
			if err := plugin.RefuseNamespace(command); err != nil {
				return err
			}
			plan, installed, err := planOf(command.Context(), p, wanted)
			if err != nil {
				return err
			}
			status := statusOf(plan, installed)
			if err := p.Print(status, status.rows()); err != nil {
				return err
			}
			return status.exit()
		},
	}
	wanted.add(command)
	return plugin.ReadsFolders(command)
}

func (s Status) rows() [][]string {
	rows := [][]string{
		{"STATE", "NODES LEFT", "OBJECTS LEFT"},
		{s.Phase, fmt.Sprint(len(s.Left)), fmt.Sprint(s.Objects)},
		{""}, {s.Message + "."},
	}
	if len(s.Left) > 0 {
		rows = append(rows, []string{""}, []string{"NODE", "OLD POD", "USED BY"})
	}
	for _, node := range s.Left {
		rows = append(rows, []string{node.Node, node.Pod, strings.Join(node.UsedBy, ", ")})
	}
	if len(s.Refused) > 0 {
		rows = append(rows, []string{""}, []string{"REFUSED BY THE NEW DRIVER"})
	}
	for _, change := range s.Refused {
		rows = append(rows, []string{change.String() + "."})
	}
	return rows
}

func (s Status) exit() error {
	switch s.Phase {
	case done:
		return nil
	case blocked:
		return &plugin.ExitError{Code: plugin.Wrong}
	default:
		return &plugin.ExitError{Code: plugin.Unfinished}
	}
}
