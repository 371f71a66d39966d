package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

// addSubscribed adds the namespaces of Subscriptions to operators of drivers, and the usual namespace of drivers. collect finds all other namespaces
// by workloads of drivers. The namespaces that addSubscribed adds may have no such workload yet.
func (c *collection) addSubscribed(ctx context.Context, found map[string]bool) error {
	list := &unstructured.UnstructuredList{}
	for _, kind := range plugin.OLMKinds() {
		if kind.Kind == "Subscription" {
			list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		}
	}
	if _, err := c.cluster.FindAll(ctx, list); err != nil {
		c.problems = append(c.problems, err.Error())
		return ctx.Err() //nolint:wrapcheck // The caller says that it was interrupted.
	}
	for i := range list.Items {
		if isOfDriver(list.Items[i].Object) {
			found[list.Items[i].GetNamespace()] = true
		}
	}
	found[catalogue.Namespace] = true
	return nil
}

// describe adds the output of the reports, and the list of contents.
func (c *collection) describe(ctx context.Context, namespaces []string) error {
	for _, report := range c.reports {
		var out, clean bytes.Buffer
		// The streams of a new Plugin escape control characters.
		quiet := plugin.New(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
		quiet.Flags, quiet.Now, quiet.Poll, quiet.Cluster = c.plugin.Flags, c.plugin.Now, c.plugin.Poll, c.cluster
		command := report(quiet)
		command.SetArgs([]string{})
		command.SetOut(&out)
		command.SetErr(&out)
		command.SilenceErrors, command.SilenceUsage = true, true
		err := command.ExecuteContext(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: %w", ctx.Err())
		}
		if err != nil && err.Error() != "" {
			_, _ = fmt.Fprintln(&out, "error:", err)
		}
		if err := c.redactor.Text(&clean, &out); err != nil {
			return fmt.Errorf("redact the output of %s: %w", command.Name(), err)
		}
		name := command.Name() + ".txt"
		if err := c.add(name, clean.Bytes()); err != nil {
			return err
		}
		c.step(name, fmt.Sprintf("%d bytes", clean.Len()))
	}
	contents := mustgather.Contents{Time: c.plugin.Now().UTC(), Namespaces: namespaces, Kinds: c.complete}
	text, err := json.MarshalIndent(contents, "", "  ")
	if err != nil {
		return fmt.Errorf("list the contents of the archive: %w", err)
	}
	return c.add(mustgather.ContentsFile, append(text, '\n'))
}
