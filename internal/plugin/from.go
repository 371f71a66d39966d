package plugin

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

// readsFolders is the annotation of commands that work with --from.
const readsFolders = "reads-folders"

// ReadsFolders marks a command that works with --from, and returns it. Such a command writes nothing.
func ReadsFolders(command *cobra.Command) *cobra.Command {
	if command.Annotations == nil {
		command.Annotations = map[string]string{}
	}
	command.Annotations[readsFolders] = "true"
	return command
}

// checkFrom refuses --from for commands that need a cluster.
func (p *Plugin) checkFrom(command *cobra.Command) error {
	if p.From == "" {
		return nil
	}
	_ = eachCommand(command.Root(), func(one *cobra.Command) error {
		if one.Annotations[readsFolders] != "" {
			p.readers = append(p.readers, strings.TrimPrefix(one.CommandPath(), command.Root().CommandPath()))
		}
		return nil
	})
	if command.Annotations[readsFolders] == "" {
		return Usage("--from has no effect on %s, which needs a cluster", command.CommandPath())
	}
	for _, name := range []string{"wait", "watch"} {
		if command.Flags().Changed(name) {
			return Usage("--%s has no effect with --from, because the objects in a folder do not change: leave out one of them", name)
		}
	}
	return nil
}

// WithFrom takes a command that the output tells the user to run, and adds the user's flag --from to it. If the command needs a cluster, WithFrom
// returns it unchanged.
func (p *Plugin) WithFrom(command string) string {
	reads := slices.ContainsFunc(p.readers, func(reader string) bool { return strings.HasPrefix(command+" ", called+reader+" ") })
	if p.From == "" || !reads || strings.Contains(command, " --wait") || strings.Contains(command, " --watch") {
		return command
	}
	return command + " --from " + quoted(p.From)
}

// quoted returns a word for a shell.
func quoted(word string) string {
	if regexp.MustCompile(`^[\w./:@%+,][\w./:@%+,-]*$`).MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// OLMKinds returns the kinds of the Operator Lifecycle Manager. This program has no Go types for these kinds.
func OLMKinds() []schema.GroupVersionKind {
	of := func(version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "operators.coreos.com", Version: version, Kind: kind}
	}
	return []schema.GroupVersionKind{
		of("v1alpha1", "CatalogSource"), of("v1alpha1", "Subscription"), of("v1alpha1", "InstallPlan"), of("v1alpha1", "ClusterServiceVersion"),
		of("v1", "OperatorGroup"),
	}
}

// open opens the folder or archive of --from. It also sets p.Now to the time at which the folder was gathered, if the folder shows this time.
func (p *Plugin) open() (*Cluster, error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	for _, kind := range OLMKinds() {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	}
	folder, err := mustgather.Open(p.From, scheme)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	for _, name := range folder.Skipped() {
		_, _ = fmt.Fprintln(p.Streams.ErrOut, "warning: left out, because it can't be read:", name)
	}
	reader, err := folder.Client()
	if err != nil {
		return nil, err
	}
	if at := folder.Time(); !at.IsZero() {
		p.Now = func() time.Time { return at }
	}
	namespace := "default"
	if named := p.Flags.Namespace; named != nil && *named != "" {
		namespace = *named
	}
	cluster := NewCluster(reader, &rest.Config{}, namespace)
	cluster.folder = folder
	return cluster, nil
}

// Folder returns the folder or archive of --from. It is nil if the objects come from a cluster.
func (c *Cluster) Folder() *mustgather.Folder { return c.folder }

// proven returns NotGathered instead of an answer that a folder can't prove, because the folder may lack objects of the kind. Argument "empty" is
// true for a list without objects.
func (c *Cluster) proven(answer Answer, object runtime.Object, namespace string, empty bool) Answer {
	if c.folder == nil || answer != Absent && (answer != Present || !empty) {
		return answer
	}
	gvk, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return answer
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	if !c.folder.Lacks(gvk.GroupKind(), namespace) {
		return answer
	}
	text := "the folder does not have all objects of kind " + gvk.Kind
	if namespace != "" {
		text += " of namespace " + namespace
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.gaps[text] = true
	return NotGathered
}

// Gaps returns sorted texts, one for each kind that a command read and of which the folder of --from may lack objects.
func (c *Cluster) Gaps() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Sorted(maps.Keys(c.gaps))
}

// lastLines returns the last lines of a log.
func lastLines(text string, lines int64) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, int64(len(all))-lines):], "")
}
