package plugin

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lenient returns a reader for packages that do not handle missing permissions. If the user lacks a permission, the reader records this, and returns
// a NotFound error or an empty list.
func (c *Cluster) Lenient() client.Reader { return lenient{c} }

type lenient struct{ cluster *Cluster }

// Get reads an object.
func (l lenient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := l.cluster.Get(ctx, key, into, options...)
	answer, problem := l.cluster.answer(err, "get", into, key.Namespace)
	if answer != Present && problem == nil {
		//nolint:wrapcheck // It is the answer of an API server.
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
	}
	return problem
}

// List lists objects.
func (l lenient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	there, err := l.cluster.FindAll(ctx, list, options...)
	if err != nil || there {
		return err
	}
	// The list may still have the items and the continue token of an earlier page, so remove them.
	list.SetContinue("")
	if err := meta.SetList(list, nil); err != nil {
		return fmt.Errorf("empty %T: %w", list, err)
	}
	return nil
}

// PrintMissing prints the missing rights to stderr.
func (p *Plugin) PrintMissing(c *Cluster) {
	if text := MissingText(c.Missing()); text != "" {
		_, _ = fmt.Fprintln(p.Streams.ErrOut, text)
	}
}

// RequireRights returns an error if a read has failed because the user lacks a permission. An object that the user can't see could be a reason
// against the action. Argument "before" names the action in the error.
func (c *Cluster) RequireRights(before string) error {
	if missing := c.Missing(); len(missing) > 0 {
		return fmt.Errorf("%s was not done, because it needs permissions that you lack: %s. Ask an administrator for them",
			before, textOf(missing))
	}
	return nil
}

func textOf(missing []Right) string {
	texts := make([]string, 0, len(missing))
	for _, right := range missing {
		texts = append(texts, right.String())
	}
	return strings.Join(texts, ", ")
}
