package volume

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the number of objects in a page. It limits the memory that a list takes in a large cluster.
const pageSize = 500

// EachPage lists objects page by page, to limit memory in a large cluster. It returns the reader's error unwrapped, because only the caller can say
// what the list is for.
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
