package mustgather

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrReadOnly is the error of the client for every request other than Get and List.
var ErrReadOnly = errors.New("a must-gather folder is read-only")

// Client returns a client that reads the folder, for code that needs a client with all methods. For every request other than Get and List, the client
// returns ErrReadOnly.
func (f *Folder) Client() (client.Client, error) {
	made, err := client.New(&rest.Config{}, client.Options{
		HTTPClient: &http.Client{Transport: refusing{}}, Scheme: f.scheme, Mapper: f.mapper(),
		Cache: &client.CacheOptions{Reader: f, Unstructured: true},
	})
	if err != nil {
		return nil, fmt.Errorf("make a client that reads the must-gather folder: %w", err)
	}
	return made, nil
}

// refusing rejects HTTP requests, because a folder has no API server.
type refusing struct{}

// RoundTrip returns ErrReadOnly.
func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, ErrReadOnly }

// mapper maps the kinds in the folder to resources, as if a cluster served these kinds.
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
