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

// Lenient reads the cluster for packages that know nothing of a user's rights: what the user may not read is not there, and is remembered.
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
	// What an earlier page has left must not be taken for an answer, or be continued.
	list.SetContinue("")
	if err := meta.SetList(list, nil); err != nil {
		return fmt.Errorf("empty %T: %w", list, err)
	}
	return nil
}

// PrintMissing says at the end what could not be read, beside the result.
func (p *Plugin) PrintMissing(c *Cluster) {
	if text := Unseen(c.Missing()); text != "" {
		_, _ = fmt.Fprintln(p.Streams.ErrOut, text)
	}
}

// RequireRights is an error if a right was missing so far: what is not seen may be in the way.
func (c *Cluster) RequireRights(before string) error {
	if missing := c.Missing(); len(missing) > 0 {
		return fmt.Errorf("%s was not done: you may not read what has to be known before: %s. Ask an administrator for these rights",
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
