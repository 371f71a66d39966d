// Package collect gathers diagnostics of drivers into one archive, without Secrets, tokens, keys and passwords.
package collect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
	"github.com/csi-operators/csi-operators/internal/plugin/redact"
)

const long = `Gather objects, events and logs of the CSI drivers into one archive, to analyse or to send to support.

The command never reads Secrets, and redacts tokens, keys and passwords in logs and objects. Check the archive before you share it: it contains
names of namespaces, nodes, pods and volumes.

The archive also holds the output of "oc storage doctor" and "oc storage status". "oc storage doctor --from ARCHIVE" checks an object of your choice.

If you may create pods/exec, the command also runs find and grep in the node pods of EFS, to collect the state, processes and logs of the
tunnels of encrypted mounts. --node limits this to the nodes that it names.`

type options struct {
	file  string
	since time.Duration
	nodes []string
	// reports are the commands whose output is in the archive.
	reports []Report
}

// Report makes a command whose output is in each archive, in a file with the command's name.
type Report func(*plugin.Plugin) *cobra.Command

// Command returns the command "collect". The command runs each report, and puts its output into the archive.
func Command(p *plugin.Plugin, reports ...Report) *cobra.Command {
	return command(p, func(cluster *plugin.Cluster) (logs, error) { return newAPILogs(cluster.Config) }, reports...)
}

func command(p *plugin.Plugin, connect func(*plugin.Cluster) (logs, error), reports ...Report) *cobra.Command {
	var wanted options
	made := &cobra.Command{
		Use: "collect", Short: "Gather what support needs into one archive, without secrets", Long: long, Args: plugin.NoArgs,
		Example: "  # Gather everything.\n" +
			"  oc storage collect\n" +
			"  # Gather only logs of the last two hours, and the journal of one node.\n" +
			"  oc storage collect --since 2h --node worker-1",
		RunE: func(command *cobra.Command, _ []string) error {
			if wanted.since < 0 {
				return plugin.Usage("--since %s: must not be negative", wanted.since)
			}
			if wanted.file != "" && !strings.HasSuffix(wanted.file, ".tar.gz") {
				return plugin.Usage("--file %s: must end in .tar.gz", wanted.file)
			}
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			read, err := connect(cluster)
			if err != nil {
				return err
			}
			wanted.reports = reports
			return run(command.Context(), p, cluster, read, wanted)
		},
	}
	made.Flags().StringVar(&wanted.file, "file", "", "`file` to write; default: oc-storage-TIME.tar.gz in the current folder")
	made.Flags().DurationVar(&wanted.since, "since", 0, "only collect logs newer than this, such as 2h; default: all")
	made.Flags().StringArrayVar(&wanted.nodes, "node", nil,
		"collect the kubelet's journal of this `node`, too, and TLS tunnels only of this node; can be repeated")
	return made
}

// collection is the state of one run of the command.
type collection struct {
	plugin  *plugin.Plugin
	cluster *plugin.Cluster
	logs    logs
	options
	archive  *archive
	redactor *redact.Redactor
	bar      *plugin.Progress
	// problems lists failed reads. complete lists the kinds that were read.
	problems    []string
	complete    []mustgather.Kind
	done, total int
}

// Result describes the archive.
type Result struct {
	File     string   `json:"file"`
	Files    int      `json:"files"`
	Redacted int      `json:"redacted"`
	Problems []string `json:"problems"`
}

func run(ctx context.Context, p *plugin.Plugin, cluster *plugin.Cluster, read logs, wanted options) error {
	name := cmp.Or(wanted.file, "oc-storage-"+p.Now().UTC().Format("20060102-150405")+".tar.gz")
	target, err := newArchive(name, p.Now())
	if err != nil {
		return err
	}
	defer target.drop()
	c := &collection{
		plugin: p, cluster: cluster, logs: read, options: wanted, archive: target, redactor: redact.New(), bar: p.Progress(), problems: []string{},
	}
	err = c.all(ctx)
	c.bar.End()
	if ctx.Err() != nil {
		return &plugin.ExitError{Code: plugin.Unfinished, Err: errors.New("interrupted: no archive was written; run the command again")}
	}
	if err != nil {
		return err
	}
	result := Result{File: name, Files: target.files, Redacted: c.redactor.Count, Problems: c.problems}
	return p.Print(result, result.rows())
}

func (r Result) rows() [][]string {
	text := fmt.Sprintf("Wrote %s: %d files, %d values redacted, %d reads failed.", r.File, r.Files, r.Redacted, len(r.Problems))
	if len(r.Problems) > 0 {
		text += " See problems.txt in the archive."
	}
	return [][]string{{text}, {"Check the archive before you share it: it contains names of namespaces, nodes, pods and volumes."}}
}

// all reads everything. It continues after a failed read, unless it could not list the drivers' workloads or pods.
func (c *collection) all(ctx context.Context) error {
	namespaces, err := c.namespaces(ctx)
	if err != nil {
		return err
	}
	pods, err := c.pods(ctx, namespaces)
	if err != nil {
		return err
	}
	files, wanted, tunnels := logsOf(pods), kinds(), tunnelPods(pods, c.nodes)
	c.total = len(wanted) + len(files) + len(c.nodes) + len(tunnels) + len(c.reports)
	for _, kind := range wanted {
		if err := c.kind(ctx, kind, namespaces); err != nil {
			return err
		}
	}
	for _, file := range files {
		from := func() (io.ReadCloser, error) { return c.logs.Pod(ctx, file, c.since) }
		if err := c.log(ctx, file.name(), from); err != nil {
			return err
		}
	}
	for _, node := range c.nodes {
		from := func() (io.ReadCloser, error) { return c.logs.Kubelet(ctx, node) }
		if err := c.log(ctx, path.Join("nodes", node, "kubelet.log"), from); err != nil {
			return err
		}
	}
	for i := range tunnels {
		if err := c.tunnels(ctx, &tunnels[i]); err != nil {
			return err
		}
	}
	if err := c.describe(ctx, namespaces); err != nil {
		return err
	}
	for _, right := range c.cluster.Missing() {
		c.problems = append(c.problems, "missing permission: "+right.String())
	}
	if len(c.problems) > 0 {
		if err := c.archive.add("problems.txt", []byte(strings.Join(c.problems, "\n")+"\n")); err != nil {
			return err
		}
	}
	return c.archive.close()
}

// namespaces returns the namespaces of drivers and their operators.
func (c *collection) namespaces(ctx context.Context) ([]string, error) {
	names, found := namesOf(all.Drivers()), map[string]bool{}
	for _, list := range []client.ObjectList{&appsv1.DaemonSetList{}, &appsv1.DeploymentList{}} {
		if _, err := c.cluster.FindAll(ctx, list); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok && names[object.GetName()] {
				found[object.GetNamespace()] = true
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("find the namespaces of drivers: %w", err)
		}
	}
	if err := c.addSubscribed(ctx, found); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// pods lists the pods in these namespaces.
func (c *collection) pods(ctx context.Context, namespaces []string) ([]corev1.Pod, error) {
	var found []corev1.Pod
	for _, namespace := range namespaces {
		list := &corev1.PodList{}
		if _, err := c.cluster.FindAll(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		found = append(found, list.Items...)
	}
	return found, nil
}

// kind adds the objects of a kind to the archive. If collect reads the kind only in the drivers' namespaces, the archive has one file for each
// namespace. If not, the archive has one file for the whole cluster.
func (c *collection) kind(ctx context.Context, of kind, namespaces []string) error {
	namespacesOfDrivers := namespaces
	if !of.namespaced || of.everywhere {
		namespaces = []string{""}
	}
	count, missing, problems := 0, len(c.cluster.Missing()), len(c.problems)
	for _, namespace := range namespaces {
		items := []any{}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
		err := volume.EachPage(ctx, c.cluster.Lenient(), list, func(page *unstructured.UnstructuredList) {
			for i := range page.Items {
				if !isWanted(of.Kind, page.Items[i].Object, namespacesOfDrivers) {
					continue
				}
				c.redactor.Object(page.Items[i].Object)
				items = append(items, page.Items[i].Object)
			}
		}, client.InNamespace(namespace))
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case err != nil:
			c.problems = append(c.problems, fmt.Sprintf("%s: %v", of.Kind, err))
			continue
		case len(items) == 0:
			continue
		}
		count += len(items)
		if err := c.objects(path.Join("objects", namespace, strings.ToLower(of.Kind)+".yaml"), items); err != nil {
			return err
		}
	}
	if len(c.cluster.Missing()) == missing && len(c.problems) == problems {
		c.complete = append(c.complete, mustgather.Kind{Group: of.Group, Kind: of.Kind, Scope: of.scope()})
	}
	c.step(of.Kind, fmt.Sprintf("%d objects", count))
	return nil
}

// objects adds a list of objects to the archive, as YAML. The caller has already redacted each object, because folded and quoted values in YAML would
// be hard to redact.
func (c *collection) objects(name string, items []any) error {
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return c.add(name, text)
}

// add adds a file. If the file's name is not allowed, add records a problem.
func (c *collection) add(name string, content []byte) error {
	err := c.archive.add(name, content)
	if errors.Is(err, errName) {
		c.problems, err = append(c.problems, err.Error()), nil
	}
	return err
}

func (c *collection) log(ctx context.Context, name string, open func() (io.ReadCloser, error)) error {
	var clean bytes.Buffer
	stream, err := open()
	if err == nil {
		err = c.redactor.Text(&clean, io.LimitReader(stream, mostBytes))
		_ = stream.Close()
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted: %w", ctx.Err())
	case err != nil:
		c.problems = append(c.problems, c.redactor.Line(fmt.Sprintf("%s: %v", name, err)))
		c.step(name, "can't be read")
		if clean.Len() == 0 {
			return nil
		}
	default:
		c.step(name, fmt.Sprintf("%d bytes", clean.Len()))
	}
	return c.add(name, clean.Bytes())
}

func (c *collection) step(what, state string) {
	c.done++
	c.bar.Step(plugin.Step{Done: c.done, Total: c.total, What: what, State: state})
}
