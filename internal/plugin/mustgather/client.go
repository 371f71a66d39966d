package mustgather

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrReadOnly is the answer to every request but a read of objects.
var ErrReadOnly = errors.New("a must-gather folder can't be written")

// Client is the folder for code that wants a whole client but only reads. Everything else is ErrReadOnly.
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

// refusing is the way to the API server that a folder does not have.
type refusing struct{}

// RoundTrip refuses.
func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, ErrReadOnly }

// mapper knows the kinds that are in the folder, as the mapper of a cluster knows the kinds that it serves.
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
