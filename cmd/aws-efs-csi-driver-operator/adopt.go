package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/app"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/manager"
	"github.com/csi-operators/csi-operators/internal/migration"
	"github.com/csi-operators/csi-operators/internal/mustgather"
	"github.com/csi-operators/csi-operators/internal/openshift"
	"github.com/csi-operators/csi-operators/internal/watch"
)

type adoptOptions struct {
	manager.Options
	folder, output string
}

// adopt prints what the operator would do to migrate the driver from a predecessor. It only reads.
func adopt(ctx context.Context, out io.Writer, args []string) error {
	options, err := parseAdopt(args)
	if err != nil {
		return err
	}
	controller, err := previewer(ctx, options)
	if err != nil {
		return err
	}
	plan, err := controller.Preview(ctx)
	if err != nil {
		return fmt.Errorf("look at the cluster: %w", err)
	}
	if err := addSharedVolumes(ctx, controller.Client, &plan); err != nil {
		return err
	}
	if options.output == "json" {
		return printJSON(out, "plan", plan)
	}
	return printPlan(out, controller.Driver.Name, plan)
}

func parseAdopt(args []string) (adoptOptions, error) {
	var options adoptOptions
	flags := flag.NewFlagSet("aws-efs-csi-driver-operator adopt", flag.ContinueOnError)
	dryRun := flags.Bool("dry-run", false, "print what would be done; the operator itself does it when the ClusterCSIDriver is created")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "`file` with the API server and credentials; default: as for start")
	flags.StringVar(&options.Namespace, "namespace", "",
		"`namespace` where the operator is, or will be, installed; default: that of the predecessor's DaemonSet")
	flags.StringVar(&options.folder, "must-gather", "", "`folder` of \"oc adm must-gather\" or \"oc adm inspect\" to read instead of a cluster")
	flags.StringVar(&options.output, "o", "text", "`format`, text or json")
	if err := flags.Parse(args); err != nil {
		return options, err //nolint:wrapcheck // The flag package has printed the usage with it.
	}
	switch {
	case flags.NArg() > 0:
		return options, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case !*dryRun:
		return options, errors.New("adopt only says what would be done, so it wants --dry-run; the operator does it when ClusterCSIDriver " +
			"efs.csi.aws.com is created")
	case options.output != "text" && options.output != "json":
		return options, fmt.Errorf("-o %s: must be text or json", options.output)
	}
	return options, nil
}

// previewer makes a controller that can do nothing but Preview.
func previewer(ctx context.Context, options adoptOptions) (*clustercsidriver.Reconciler, error) {
	controller, err := fromEnvironment(func(variable string) string {
		if value := os.Getenv(variable); value != "" || !strings.HasSuffix(variable, "_IMAGE") {
			return value
		}
		// Which image it will be changes nothing of the plan.
		return "unknown"
	})
	if err != nil {
		return nil, err
	}
	may := func(context.Context, client.ObjectKey, authorizationv1.ResourceAttributes) (bool, error) {
		return true, nil
	}
	constraints := true
	if options.folder != "" {
		controller.Client, controller.Kinds, err = fromFolder(ctx, options.folder, controller.Driver)
	} else {
		controller.Client, controller.Kinds, constraints, err = fromCluster(options.Options, controller.Driver)
		if err == nil {
			may = migration.AskAccess(controller.Client)
		}
	}
	if err != nil {
		return nil, err
	}
	moves := controller.Migration
	controller.Live, controller.Now = controller.Client, time.Now
	moves.Client, moves.Live, moves.Now = controller.Client, controller.Client, time.Now
	if controller.Namespace = options.Namespace; controller.Namespace == "" {
		controller.Namespace, err = moves.OldNamespace(ctx)
	}
	if controller.Namespace == "" {
		controller.Namespace = manager.DefaultNamespace
	}
	moves.Namespace = controller.Namespace
	for _, names := range controller.Driver.Predecessors {
		moves.Predecessors = append(moves.Predecessors, &migration.Predecessor{
			Predecessor: names, Reader: controller.Client, May: may, Driver: controller.Driver, Namespace: controller.Namespace, Constraints: constraints,
		})
	}
	return controller, err
}

// fromCluster reads a cluster that runs.
func fromCluster(options manager.Options, d driver.Driver) (cluster client.Client, kinds map[schema.GroupKind]bool, constraints bool, err error) {
	found, err := app.Connect(options)
	if err != nil {
		return nil, nil, false, err
	}
	if kinds, err = found.OptionalKinds(d); err != nil {
		return nil, nil, false, err
	}
	constraints, err = found.Preflight.Serves(migration.SecurityContextConstraintsKind(), "v1")
	return found.Live, kinds, constraints, err
}

// fromFolder reads what was gathered from a cluster, which is OpenShift if there is an Infrastructure.
func fromFolder(ctx context.Context, path string, d driver.Driver) (client.Client, map[schema.GroupKind]bool, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, nil, err
	}
	folder, err := mustgather.Open(path, scheme)
	if err != nil {
		return nil, nil, fmt.Errorf("must-gather: %w", err)
	}
	for _, name := range folder.Skipped() {
		fmt.Fprintln(os.Stderr, "warning: can't be read and is left out:", name)
	}
	if err := warnOfGaps(ctx, folder); err != nil {
		return nil, nil, err
	}
	kinds := map[schema.GroupKind]bool{}
	if infrastructure, err := openshift.ReadInfrastructure(ctx, folder); err == nil && infrastructure != nil {
		for kind := range watch.OptionalKinds(d) {
			kinds[kind] = true
		}
	}
	found, err := folder.Client()
	return found, kinds, err
}

// warnOfGaps says of which namespaces with EFS volumes the folder has no pods: must-gather leaves applications out.
func warnOfGaps(ctx context.Context, folder client.Reader) error {
	volumes, pods := &corev1.PersistentVolumeList{}, &corev1.PodList{}
	if err := errors.Join(folder.List(ctx, volumes), folder.List(ctx, pods)); err != nil {
		return fmt.Errorf("must-gather: %w", err)
	}
	gaps := map[string]bool{}
	for _, volume := range volumes.Items {
		if volume.Spec.CSI != nil && volume.Spec.CSI.Driver == awsefs.Name && volume.Status.Phase == corev1.VolumeBound && volume.Spec.ClaimRef != nil {
			gaps[volume.Spec.ClaimRef.Namespace] = true
		}
	}
	for _, pod := range pods.Items {
		delete(gaps, pod.Namespace)
	}
	if len(gaps) > 0 {
		fmt.Fprintf(os.Stderr, "warning: the folder has no pods of namespaces with EFS volumes: %s. Nodes that they use are not known to wait; "+
			"gather these namespaces with \"oc adm inspect\" as well\n", strings.Join(slices.Sorted(maps.Keys(gaps)), ", "))
	}
	return nil
}

// addSharedVolumes adds what is changed of SharedVolumes, their PVs and their PVCs.
func addSharedVolumes(ctx context.Context, reader client.Client, plan *migration.Plan) error {
	changed, err := sharedvolume.Preview(ctx, reader)
	if err != nil {
		return fmt.Errorf("look at SharedVolumes: %w", err)
	}
	for _, object := range changed {
		kind, err := apiutil.GVKForObject(object, reader.Scheme())
		if err != nil {
			return fmt.Errorf("kind of %T %s: %w", object, object.GetName(), err)
		}
		plan.Objects = append(plan.Objects, migration.PlannedObject{
			Action: migration.PlanAdopt, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		})
	}
	plan.Sort()
	return nil
}

func printPlan(out io.Writer, driver string, plan migration.Plan) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) }
	say("What happens in namespace %s when ClusterCSIDriver %s is created. Nothing has been changed.\n", plan.Namespace, driver)
	if plan.Blocker != "" {
		say("\nNothing happens before this is done: %s.\n", plan.Blocker)
	}
	for _, problem := range plan.Problems {
		say("\nCan't be followed: %s\n", problem)
	}
	for _, kept := range plan.Kept {
		say("\nKept: %s\n", kept)
	}
	say("\nACTION\tOBJECT\tNOTE\n")
	for _, object := range plan.Objects {
		name := object.Name
		if object.Namespace != "" {
			name = object.Namespace + "/" + name
		}
		say("%s\t%s %s\t%s\n", object.Action, object.Kind, name, object.Note)
	}
	if len(plan.Nodes) == 0 {
		say("\nNo node has a pod of a predecessor.\n")
	} else {
		say("\nNode pods that are replaced, %d at a time at most, in this order:\n\nNODE\tOLD POD\tWHEN\tUSED BY\n", plan.AtOnce)
	}
	for _, node := range plan.Nodes {
		when := "at once"
		if node.Waits {
			when = "when no pod uses a volume there"
		}
		say("%s\t%s\t%s\t%s\n", node.Node, node.Pod, when, strings.Join(node.UsedBy, ", "))
	}
	if slices.ContainsFunc(plan.Nodes, func(node migration.PlannedNode) bool { return node.Waits }) {
		say("\nThe mounts of these pods would hang without their old node pod. Drain the nodes, end the pods, or set annotation\n%s=true on the "+
			"ClusterCSIDriver and start the pods anew afterwards.\n", migration.AcceptRemountAnnotation)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the plan: %w", err)
	}
	return nil
}
