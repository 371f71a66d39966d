// Package volumetest has the command "oc storage test". In each zone, it creates a PVC of a StorageClass and a pod. The pod writes a file to the
// volume, reads the file back and deletes it. The command prints what happened and how long it took, and deletes its objects.
package volumetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

// Image is the pull spec of the plugin's image, without a tag. images/images.yaml has the same pull spec.
const Image = "quay.io/csi-operators/oc-storage"

// settings are the flags of the command.
type settings struct {
	image, size, inside string
	timeout             time.Duration
	yes                 bool
}

// Command returns the command "test".
func Command(p *plugin.Plugin) *cobra.Command {
	s := settings{size: "1Gi", timeout: 5 * time.Minute}
	command := &cobra.Command{
		Use: "test CLASS|DRIVER", Short: "Try a StorageClass: create a volume in each zone, write, read and delete", Args: cobra.ArbitraryArgs,
		Long: "Create a PVC of a StorageClass and a pod in each zone. The pod writes a file to the volume, reads the file back and deletes it.\n" +
			"Instead of a class, you can name its driver, such as efs or efs.csi.aws.com, if the driver has one class.\n\n" +
			"The command deletes its pods and PVCs, also after Ctrl-C. A second Ctrl-C ends the command at once, and it prints the command that deletes\n" +
			"what is left. If it was killed, the next run in the same namespace deletes them: run one test at a time in a namespace. The pods run the\n" +
			"image of this plugin.",
		Example: "  # Does class my-class work in each zone?\n" +
			"  oc storage test my-class -n my-project\n" +
			"  # Does EFS work?\n" +
			"  oc storage test efs -n my-project\n" +
			"  # Take the image of the pods from your own registry.\n" +
			"  oc storage test my-class -n my-project --image registry.example/oc-storage:v5.3.0",
		ValidArgsFunction: p.CompleteName("StorageClass"),
		RunE: func(command *cobra.Command, args []string) error {
			if s.inside != "" {
				return probe(s.inside, p.Streams.Out)
			}
			return s.run(command.Context(), p, command.Root().Version, args)
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.image, "image", "", "`image` of the pods; default: the image of this release of the plugin")
	flags.StringVar(&s.size, "size", s.size, "`quantity` of storage that each PVC requests")
	flags.DurationVar(&s.timeout, "timeout", s.timeout, "`time` after which the test ends, such as 5m")
	flags.BoolVar(&s.yes, "yes", false, "do not ask")
	flags.StringVar(&s.inside, "inside", "", "`folder` that the pods test")
	_ = flags.MarkHidden("inside")
	return command
}

func (s settings) run(ctx context.Context, p *plugin.Plugin, version string, args []string) error {
	if len(args) != 1 {
		return plugin.Usage("which StorageClass or driver? Type: oc storage test CLASS, or: oc storage test DRIVER")
	}
	size, err := resource.ParseQuantity(s.size)
	if err != nil || size.Sign() <= 0 {
		return plugin.Usage("--size %q: must be a quantity such as 1Gi", s.size)
	}
	if s.timeout <= 0 {
		return plugin.Usage("--timeout %s: must be more than 0", s.timeout)
	}
	if s.image == "" && !strings.HasPrefix(version, "v") {
		return plugin.Usage("this plugin is no release, so no image of it is known: set --image")
	}
	if s.image == "" {
		s.image = Image + ":" + version
	}
	cluster, err := p.Connect()
	if err != nil {
		return err
	}
	found, err := observe(ctx, cluster, args[0])
	if err != nil {
		return err
	}
	zones, problem := found.zones()
	if problem != "" {
		return &plugin.ExitError{Code: plugin.Wrong, Err: errors.New("nothing was done: " + problem)}
	}
	t := &trial{
		Plugin: p, cluster: cluster, timeout: s.timeout, run: utilrand.String(5),
		class: found.class.Name, image: s.image, size: size, group: found.group(),
	}
	for _, zone := range zones {
		t.Results = append(t.Results, Result{Zone: zone})
	}
	earlier, err := t.objects(ctx, client.HasLabels{testLabel})
	if err != nil {
		return err
	}
	if err := p.Confirm(ctx, s.yes, t.question(len(earlier), found.volumesUnknown)); err != nil {
		return err
	}
	return t.do(ctx)
}

// question says what the test creates and deletes.
func (t *trial) question(earlier int, volumesUnknown bool) string {
	text := fmt.Sprintf("Create %d PVCs of StorageClass %s and %d pods in namespace %s, and delete them after the test?",
		len(t.Results), t.class, len(t.Results), t.cluster.Namespace)
	if earlier > 0 {
		text = fmt.Sprintf("First delete %d pods and PVCs of other tests in this namespace, which may still run. ", earlier) + text
	}
	if volumesUnknown {
		text = "You lack permission to list PersistentVolumes: if the class has one without a PVC, the test may get it and delete it. " + text
	}
	return text
}

// Result is the outcome of the test in a zone. Bound and Started are in seconds since the start of the test. A time is 0 if the test did not get that
// far.
type Result struct {
	// Zone is empty if the nodes have no zone.
	Zone string `json:"zone"`
	Node string `json:"node,omitempty"`
	// Bound is the time at which the PVC was bound. Started is the time at which the pod ran, with the volume mounted.
	Bound   float64 `json:"boundSeconds,omitempty"`
	Started float64 `json:"startedSeconds,omitempty"`
	// Write and Read are how long the pod wrote and read, in milliseconds.
	Write int64 `json:"writeMilliseconds,omitempty"`
	Read  int64 `json:"readMilliseconds,omitempty"`
	// Cached is true if the pod may have read the data from the memory of the node, because reads of this file system can't bypass this memory.
	Cached bool `json:"readCached,omitempty"`
	// Problem is empty if the volume works.
	Problem string `json:"problem,omitempty"`

	done bool
}

// trial is one run of the command.
type trial struct {
	*plugin.Plugin

	cluster    *plugin.Cluster
	run, class string
	image      string
	size       resource.Quantity
	group      *int64
	timeout    time.Duration
	started    time.Time

	Results []Result
}

// do makes the objects, waits, deletes the objects and prints the results.
func (t *trial) do(ctx context.Context) error {
	if err := t.clean(ctx, ""); err != nil {
		return err
	}
	t.started = t.Now()
	err := t.create(ctx)
	if err == nil {
		err = t.Until(ctx, t.timeout, "all pods have tested their volume", t.look)
		if late := new(plugin.ExitError); ctx.Err() == nil && errors.As(err, &late) && late.Code == plugin.Unfinished {
			// The pods that have not ended are the result.
			t.blame(ctx)
			err = nil
		}
	}
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(t.Streams.ErrOut, "Interrupted. The command deletes its pods and PVCs, and waits until the driver has deleted the volumes. "+
			"A second Ctrl-C ends the command at once.")
	}
	uninterrupted, end := t.untilStopped(ctx)
	defer end()
	cleaned := t.clean(uninterrupted, t.run)
	printed := t.Print(t.Results, t.rows())
	if zones := t.failed(); zones != "" && err == nil {
		err = &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf(
			"volumes of StorageClass %s do not work in %s: \"oc storage doctor class %s\" checks the class", t.class, zones, t.class)}
	}
	return errors.Join(err, cleaned, printed)
}

// untilStopped returns a context that ends at the second Ctrl-C, not at the first.
func (t *trial) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-t.Stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// failed lists the zones with a problem.
func (t *trial) failed() string {
	var zones []string
	for _, r := range t.Results {
		if r.Problem != "" {
			zones = append(zones, zoneText(r.Zone))
		}
	}
	return strings.Join(zones, ", ")
}

func zoneText(zone string) string {
	if zone == "" {
		return "nodes without a zone"
	}
	return "zone " + zone
}

func (t *trial) rows() [][]string {
	rows := [][]string{{"ZONE", "NODE", "BOUND", "STARTED", "WRITE", "READ", "RESULT"}}
	seconds := func(value float64) string {
		if value == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f s", value)
	}
	for _, r := range t.Results {
		result, write, read := "works", fmt.Sprintf("%d ms", r.Write), fmt.Sprintf("%d ms", r.Read)
		if r.Cached {
			read += " (cached)"
		}
		if !r.done || r.Problem != "" {
			result, write, read = cmp.Or(r.Problem, "not finished"), "-", "-"
		}
		rows = append(rows, []string{orDash(r.Zone), orDash(r.Node), seconds(r.Bound), seconds(r.Started), write, read, result})
	}
	return rows
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// look reads the PVCs and pods once. It reports whether all pods have ended.
func (t *trial) look(ctx context.Context) (bool, error) {
	pods, pvcs := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}
	in, own := client.InNamespace(t.cluster.Namespace), client.MatchingLabels{testLabel: t.run}
	if err := errors.Join(t.cluster.List(ctx, pods, in, own), t.cluster.List(ctx, pvcs, in, own)); err != nil {
		return false, fmt.Errorf("list the pods and PVCs of the test in namespace %s: %w", t.cluster.Namespace, err)
	}
	all := true
	for i := range t.Results {
		r := &t.Results[i]
		for j := range pvcs.Items {
			if pvcs.Items[j].Name == t.name(i) && pvcs.Items[j].Status.Phase == corev1.ClaimBound && r.Bound == 0 {
				r.Bound = max(0.1, t.Now().Sub(t.started).Seconds())
			}
		}
		for j := range pods.Items {
			if pods.Items[j].Name == t.name(i) {
				r.read(&pods.Items[j], t.started)
			}
		}
		all = all && r.done
	}
	return all, nil
}
