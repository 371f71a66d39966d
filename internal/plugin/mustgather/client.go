package mustgather

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrReadOnly is the error of every request but a read of objects.
var ErrReadOnly = errors.New("a must-gather folder is read-only")

// Client wraps the folder for code that needs a full client but only reads. Everything else returns ErrReadOnly.
func (f *Folder) Client() (client.Client, error) {
	made, err := client.New(&rest.Config{}, client.Options{
		HTTPClient: &http.Client{Transport: refusing{}}, Scheme: f.scheme, Mapper: f.mapper(),
		Cache: &client.CacheOptions{Reader: f, Unstructured: true},
	})
	if err != nil {
		return nil, fmt.Errorf("client of a must-gather folder: %w", err)
	}
	return made, nil
}

// refusing rejects requests, because a folder has no API server.
type refusing struct{}

// RoundTrip refuses.
func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, ErrReadOnly }

// mapper maps the kinds in the folder, as if a cluster served them.
func (f *Folder) mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(f.scheme.PrioritizedVersionsAllGroups())
	for gvk, objects := range f.objects {
		scope := meta.RESTScope(meta.RESTScopeRoot)
		for key := range objects {
			if key.Namespace != "" {
				scope = meta.RESTScopeNamespace
				break
			}
		}
		mapper.Add(gvk, scope)
	}
	return mapper
}
