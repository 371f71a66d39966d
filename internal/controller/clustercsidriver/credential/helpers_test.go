package credential

import (
	"context"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

const here = "storage-system"

// began is when every test begins.
var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// disk is a driver with credentials for both workloads, of which those of the nodes are optional.
func disk() driver.Driver {
	return driver.Driver{Operator: "disk-operator", Credentials: []driver.Credentials{
		{
			Request: "disk-request", Secret: "disk-keys", Workload: driver.Controller, Condition: "Keys", RoleARNVariable: "ROLEARN",
			Keys: [][]string{{"credentials"}, {"id", "key"}},
		},
		{
			Request: "disk-node-request", Secret: "disk-node-keys", Workload: driver.Node, Condition: "NodeKeys", RoleARNVariable: "NODE_ROLEARN",
			Keys: [][]string{{"credentials"}}, Optional: true,
		},
	}}
}

func served() map[schema.GroupKind]bool {
	return map[schema.GroupKind]bool{driver.CredentialsRequestKind(): true}
}

// request is a CredentialsRequest that was followed.
func request(name string) *cloudcredentialv1.CredentialsRequest {
	found := &cloudcredentialv1.CredentialsRequest{}
	found.Namespace, found.Name, found.Generation = cloudcredentialv1.Namespace, name, 1
	found.CreationTimestamp = metav1.NewTime(began)
	found.Status.Provisioned, found.Status.LastSyncGeneration = true, 1
	return found
}

func secret(annotations map[string]string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "disk-keys", Annotations: annotations}, Data: data}
}

// scene is what decides about the conditions.
type scene struct {
	found        Found
	driver       driver.Driver
	cfg          driver.Config
	predecessors bool
}

// everything is a cluster in mint mode that has all credentials of the driver.
func everything() *scene {
	return &scene{
		found: Found{
			Requests: map[string]*cloudcredentialv1.CredentialsRequest{
				"disk-request": request("disk-request"), "disk-node-request": request("disk-node-request"),
			},
			Secrets: map[string]Secret{
				"disk-keys": {Hash: "a", Keys: []string{"credentials"}}, "disk-node-keys": {Hash: "b", Keys: []string{"credentials"}},
			},
		},
		driver: disk(), cfg: driver.Config{Namespace: here, Kinds: served(), CredentialsMode: operatorv1.CloudCredentialsModeMint},
	}
}

// texts are the conditions as "Status Reason: message", by their types.
func (c *scene) texts() map[string]string {
	texts := map[string]string{}
	for _, credentials := range c.driver.Credentials {
		available, progressing := c.found.State(c.cfg, credentials, c.predecessors)
		for _, condition := range []operatorv1.OperatorCondition{available, progressing} {
			text := string(condition.Status) + " " + condition.Reason + ": " + condition.Message
			texts[condition.Type] = strings.TrimSuffix(text, ": ")
		}
	}
	return texts
}

// secretCache holds Secrets as their caches have them.
type secretCache struct {
	cache.Cache
	secrets *canned.Cluster
}

// Get reads one.
func (s secretCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return s.secrets.Get(ctx, key, object, options...)
}

func newSource(t *testing.T, objects ...client.Object) (*Source, *canned.Cluster) {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := canned.New(scheme, objects...)
	source := &Source{Client: cluster, Driver: disk(), Namespace: here, Kinds: served(), Secrets: map[string]cache.Cache{}}
	for _, credentials := range source.Driver.Credentials {
		source.Secrets[credentials.Secret] = secretCache{secrets: cluster}
	}
	return source, cluster
}
