package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

// Right is a permission that a command needs and the user lacks.
type Right struct {
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	// Namespace is empty for the whole cluster.
	Namespace string `json:"namespace,omitempty"`
}

// String formats the right for "oc auth can-i".
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Namespace != "" {
		text += " -n " + r.Namespace
	}
	return text
}

// MissingText returns one line that names each resource that the user lacks permission to read. If no right is missing, the text is empty.
func MissingText(missing []Right) string {
	if len(missing) == 0 {
		return ""
	}
	places := map[string][]string{}
	for _, right := range missing {
		places[right.Resource] = append(places[right.Resource], right.Namespace)
	}
	names := make([]string, 0, len(places))
	for _, resource := range slices.Sorted(maps.Keys(places)) {
		in := slices.Compact(slices.Sorted(slices.Values(places[resource])))
		if in[0] == "" {
			// A right that is missing in the whole cluster needs no list of namespaces.
			names = append(names, resource)
			continue
		}
		names = append(names, resource+" -n "+strings.Join(in, " -n "))
	}
	return "You lack permission to read " + strings.Join(names, ", ") + ". Ask an administrator to run this command."
}

// Cluster reads and writes with the user's rights. It is safe for concurrent use.
type Cluster struct {
	client.Client
	Config *rest.Config
	// Namespace comes from the kubeconfig or from --namespace.
	Namespace string

	// folder has the objects of --from. It is nil if the objects come from a cluster.
	folder *mustgather.Folder

	mutex   sync.Mutex
	missing map[Right]bool
	// gaps has a text for each kind that a command read and of which the folder may lack objects.
	gaps map[string]bool
}

// Connect makes a client for the cluster that the flags name, or opens the folder or archive of --from. It sends no request.
func (p *Plugin) Connect() (*Cluster, error) {
	if p.From != "" {
		return p.open()
	}
	if p.Cluster != nil {
		return p.Cluster, nil
	}
	config, err := p.Flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	// A command sends one short burst of requests, so the limits of the client are high. API Priority and Fairness protects other users.
	config.QPS, config.Burst = 50, 300
	namespace, _, err := p.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the namespace of the kubeconfig: %w", err)
	}
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return NewCluster(api, config, namespace), nil
}

// NewCluster wraps a client.
func NewCluster(api client.Client, config *rest.Config, namespace string) *Cluster {
	return &Cluster{Client: api, Config: config, Namespace: namespace, missing: map[Right]bool{}, gaps: map[string]bool{}}
}

// Find reads an object, and reports whether it found the object. If the user lacks permission to read the object, Find returns false and records
// the missing right.
func (c *Cluster) Find(ctx context.Context, key client.ObjectKey, into client.Object) (bool, error) {
	answer, err := c.TryGet(ctx, key, into)
	return answer == Present, err
}

// FindAll lists objects, and reports whether it could list them. If the user lacks permission, FindAll returns false and records the missing
// right.
func (c *Cluster) FindAll(ctx context.Context, list client.ObjectList, options ...client.ListOption) (bool, error) {
	answer, err := c.TryList(ctx, list, options...)
	return answer == Present, err
}

// answer turns the error of a request into an Answer.
func (c *Cluster) answer(err error, verb string, object any, namespace string) (Answer, error) {
	switch {
	case err == nil:
		return Present, nil
	case apierrors.IsForbidden(err):
		c.lacks(Right{Verb: verb, Resource: resourceIn(err, object), Namespace: namespace})
		return Denied, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return Absent, nil
	default:
		return Unknown, fmt.Errorf("%s %s: %w", verb, resourceIn(err, object), err)
	}
}

func (c *Cluster) lacks(right Right) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.missing[right] = true
}

// resourceIn returns the resource that the error of the API server names, in the form RESOURCE.GROUP.
func resourceIn(err error, object any) string {
	var state apierrors.APIStatus
	if errors.As(err, &state) && state.Status().Details != nil && state.Status().Details.Kind != "" {
		details := state.Status().Details
		return strings.TrimSuffix(details.Kind+"."+details.Group, ".")
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", object), "*")
}

// Missing returns all rights that were missing so far, sorted.
func (c *Cluster) Missing() []Right {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	all := make([]Right, 0, len(c.missing))
	for right := range c.missing {
		all = append(all, right)
	}
	slices.SortFunc(all, func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })
	return all
}
