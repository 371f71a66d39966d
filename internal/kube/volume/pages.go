package volume

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize bounds the memory of a look-up in a large cluster.
const pageSize = 500

// EachPage lists objects page by page, so that a large cluster is never in memory as a whole. The list holds one page at a time. An error is
// that of the reader: the caller says what was listed.
func EachPage[L client.ObjectList](ctx context.Context, reader client.Reader, list L, visit func(L), options ...client.ListOption) error {
	token := ""
	for {
		page := append([]client.ListOption{client.Limit(pageSize), client.Continue(token)}, options...)
		if err := reader.List(ctx, list, page...); err != nil {
			return err //nolint:wrapcheck // The callers say what was listed.
		}
		visit(list)
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}
