package migrate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// printPlan writes a plan for people.
func printPlan(out io.Writer, plan migration.Plan) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) }
	say("The plan of the migration in namespace %s, which starts when you create ClusterCSIDriver %s. Nothing has been changed.\n",
		plan.Namespace, awsefs.Name)
	if plan.Blocker != "" {
		say("\nThe migration can't start before this is done: %s.\n", plan.Blocker)
	}
	for _, problem := range plan.Problems {
		say("\nThe operator can't apply: %s\n", problem)
	}
	for _, kept := range plan.Kept {
		say("\nKept: %s\n", kept)
	}
	printChanges(say, plan)
	say("\nACTION\tOBJECT\tNOTE\n")
	for _, object := range plan.Objects {
		name := object.Name
		if object.Namespace != "" {
			name = object.Namespace + "/" + name
		}
		say("%s\t%s %s\t%s\n", object.Action, object.Kind, name, object.Note)
	}
	switch {
	case len(plan.Nodes) == 0 && plan.Blocker == "":
		say("\nNo node has a pod of a predecessor.\n")
	case len(plan.Nodes) > 0:
		say("\nNode pods to replace, at most %d at a time, in this order:\n\nNODE\tOLD POD\tWHEN\tUSED BY\n", plan.AtOnce)
	}
	for _, node := range plan.Nodes {
		when := "at once"
		if node.Waits {
			when = "when no pod there uses a volume"
		}
		if len(node.Refused) > 0 {
			when += "; refused: " + strings.Join(node.Refused, ", ")
		}
		say("%s\t%s\t%s\t%s\n", node.Node, node.Pod, when, strings.Join(node.UsedBy, ", "))
	}
	if slices.ContainsFunc(plan.Nodes, func(node migration.PlannedNode) bool { return node.Waits }) {
		say("\nWithout the old node pod, the mounts of these pods would hang. Drain the nodes, stop the pods, or set annotation\n%s=true on the "+
			"ClusterCSIDriver and restart the pods afterwards.\n", migration.AcceptRemountAnnotation)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the plan: %w", err)
	}
	return nil
}

// printChanges lists the values of PersistentVolumes and StorageClasses that the new driver treats in another way.
func printChanges(say func(string, ...any), plan migration.Plan) {
	if len(plan.Changes) == 0 {
		return
	}
	from := "an unknown version"
	if len(plan.Predecessor) > 0 {
		from = strings.Join(plan.Predecessor, " or ")
	}
	say("\nThe new driver treats these values in another way than the driver of the predecessor, %s:\n", from)
	for _, change := range plan.Changes {
		say("\n%s.\n", change)
		if change.Instead != "" {
			say("  Write: %s.\n", change.Instead)
		}
	}
	if slices.ContainsFunc(plan.Nodes, func(node migration.PlannedNode) bool { return len(node.Refused) > 0 }) {
		say("\nNodes where pods have mounted a refused volume keep their node pod, until annotation\n%s=true is on the ClusterCSIDriver.\n",
			migration.AcceptRefusedAnnotation)
	}
}
