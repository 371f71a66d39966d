// Package rollout has the commands about updates of node pods. "status" shows the progress, and "resume" sets the annotation with which the operator
// also replaces the node pods of nodes in use.
package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

const long = `Show how far an update of the node pods of the AWS EFS CSI driver is, or replace the pods of nodes in use now.

Mounts of a node stall while its node pod is replaced, so the operator replaces the pods of idle nodes first.`

// Command returns the command "rollout".
func Command(p *plugin.Plugin) *cobra.Command {
	return plugin.Group("rollout", "Show or speed up an update of node pods", long, statusCommand(p, awsefs.Driver()), resumeCommand(p, awsefs.Driver()))
}

func statusCommand(p *plugin.Plugin, d driver.Driver) *cobra.Command {
	watch := false
	made := &cobra.Command{
		Use: "status", Short: "Show how far the update of the node pods is, and what it waits for", Args: plugin.NoArgs,
		Long: "Show how far the update of the node pods is, and what it waits for.\n\n" +
			"With --watch, the command prints the state again when it has changed. It ends when the update is done or has failed, and at Ctrl-C.\n\n" +
			"Exit codes: 0 done; 1 you lack permission to read the node pods; 3 the update failed; 4 not done yet, also if Ctrl-C ended --watch.",
		Example: "  # How far is the update of the node pods?\n" +
			"  oc storage rollout status\n" +
			"  # Follow the update until it is done.\n" +
			"  oc storage rollout status --watch",
		RunE: func(command *cobra.Command, _ []string) error {
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			if watch {
				return p.Watch(command.Context(), func(ctx context.Context, p *plugin.Plugin) (plugin.View, error) {
					return show(ctx, p, cluster, d)
				})
			}
			view, err := show(command.Context(), p, cluster, d)
			if err != nil {
				return err
			}
			return view.Exit
		},
	}
	made.Flags().BoolVar(&watch, "watch", false, "print the state again at each change, until the update is done or has failed")
	return plugin.ReadsFolders(made)
}

// show reads and prints the state of the roll-out.
func show(ctx context.Context, p *plugin.Plugin, cluster *plugin.Cluster, d driver.Driver) (plugin.View, error) {
	found, err := observe(ctx, cluster, d)
	if err != nil {
		return plugin.View{}, err
	}
	state := stateOf(d, found)
	state.Missing = cluster.Missing()
	if err := p.Print(state, state.rows()); err != nil {
		return plugin.View{}, err
	}
	p.PrintMissing(cluster)
	exit := state.exit()
	return plugin.View{Last: plugin.Code(exit) != plugin.Unfinished, Exit: exit}, nil
}

// exit returns the exit code for a state.
func (s State) exit() error {
	switch s.Phase {
	case done, byKubernetes:
		return nil
	case unknown:
		return &plugin.ExitError{Code: plugin.Failed}
	case failed, notInstalled:
		return &plugin.ExitError{Code: plugin.Wrong}
	default:
		return &plugin.ExitError{Code: plugin.Unfinished}
	}
}

// rows formats the state as the rows of a table.
func (s State) rows() [][]string {
	percent := "-"
	if s.Nodes > 0 {
		percent = strconv.Itoa(100*s.Done/s.Nodes) + "%"
	}
	rows := [][]string{
		{"DRIVER", "STATE", "NODES", "DONE", "PERCENT"},
		{s.Driver, s.Phase, strconv.Itoa(s.Nodes), strconv.Itoa(s.Done), percent},
		{""},
		{s.Message + "."},
	}
	if len(s.Waiting) == 0 {
		return rows
	}
	rows = append(rows, []string{""}, []string{"NODE", "OLD POD", "USED BY"})
	for _, node := range s.Waiting {
		users := status.Shorten(node.UsedBy)
		if s.UsersUnknown && users == "" {
			users = "unknown"
		}
		rows = append(rows, []string{node.Name, node.Pod, users})
	}
	return rows
}

func resumeCommand(p *plugin.Plugin, d driver.Driver) *cobra.Command {
	yes := false
	command := &cobra.Command{
		Use: "resume", Short: "Replace node pods now, also on nodes in use", Args: plugin.NoArgs,
		Long: "Replace node pods now, also on nodes in use, on a tenth of the nodes at a time.\n\nMounts of pods on these nodes stall for a moment. " +
			"At the next update, the operator again waits until no pod on a node uses volumes.",
		Example: "  # Which pods have mounts that would stall? Replace the node pods after confirmation.\n" +
			"  oc storage rollout resume",
		RunE: func(command *cobra.Command, _ []string) error {
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return resume(command.Context(), p, cluster, d, yes)
		},
	}
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return command
}

func resume(ctx context.Context, p *plugin.Plugin, cluster *plugin.Cluster, d driver.Driver, yes bool) error {
	found, err := observe(ctx, cluster, d)
	if err != nil {
		return err
	}
	state := stateOf(d, found)
	reason, isError := refusal(state, found.cr != nil)
	switch {
	case isError:
		return &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("nothing was done: %s", reason)}
	case reason != "":
		_, _ = fmt.Fprintln(p.Streams.Out, "Nothing was done: "+reason+".")
		return nil
	}
	question := questionOf(state)
	if missing := cluster.Missing(); len(missing) > 0 {
		p.PrintMissing(cluster)
	}
	if err := p.Confirm(ctx, yes, question); err != nil {
		return err
	}
	if err := replaceNow(ctx, cluster, found.cr, state.Number); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(p.Streams.Out, "The operator now also replaces the node pods of nodes in use. \"oc storage rollout status\" shows progress.\n")
	return nil
}

// refusal returns why there is nothing to resume. reason is empty if there is a roll-out to resume. isError is true if the command must fail.
func refusal(state State, hasCR bool) (reason string, isError bool) {
	switch {
	case state.Phase == notInstalled, state.Phase == failed, state.Phase == unknown:
		return state.Message, true
	case state.Phase == done, state.Phase == byKubernetes:
		return state.Message, false
	case !hasCR:
		return "ClusterCSIDriver " + state.Driver + " does not exist, or you lack permission to read it: no operator would read the annotation", true
	case state.Number == "":
		return "Kubernetes has not given the DaemonSet's template a revision number yet: run the command again", true
	case state.Now:
		return "the command was run for this update before, and nodes in use no longer wait", false
	default:
		return "", false
	}
}

// questionOf returns the question that "resume" asks before it sets the annotation. The question names the affected pods.
func questionOf(state State) string {
	pods := state.concerned()
	switch {
	case state.UsersUnknown:
		return fmt.Sprintf("%d nodes have an old node pod. While a node pod is replaced, pods on its node wait for their volumes for a "+
			"moment; you lack permission to list these pods. Replace the node pods now?", len(state.Waiting))
	case len(pods) == 0:
		return fmt.Sprintf("%d nodes have an old node pod, and no pod uses a volume there. Replace the node pods now?", len(state.Waiting))
	}
	return fmt.Sprintf("%d nodes have an old node pod. While the node pods are replaced, %d pods wait for their volumes for a moment: %s. "+
		"Replace the node pods now?",
		len(state.Waiting), len(pods), strings.Join(pods, ", "))
}

// replaceNow sets the annotation on exactly this ClusterCSIDriver, by its UID.
func replaceNow(ctx context.Context, cluster client.Writer, cr *operatorv1.ClusterCSIDriver, number string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": cr.UID, "annotations": map[string]string{nodes.ReplaceNowAnnotation: number},
	}})
	if err != nil {
		return fmt.Errorf("annotate ClusterCSIDriver %s: %w", cr.Name, err)
	}
	target := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: cr.Name}}
	if err := cluster.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("oc-storage")); err != nil {
		return fmt.Errorf("annotate ClusterCSIDriver %s: %w", cr.Name, err)
	}
	return nil
}
