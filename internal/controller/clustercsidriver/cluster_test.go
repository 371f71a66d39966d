package clustercsidriver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/mustgather"
)

// cluster reads objects, and keeps what is written, which changes nothing.
type cluster struct {
	client.Client
	sent  []string
	fails map[string]error
}

// newCluster has some objects. None may change them.
func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	items := []any{&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: here}}}
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, known)
		if err != nil {
			t.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		items = append(items, object)
	}
	list["items"] = items
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "objects.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := mustgather.Open(folder, known)
	if err != nil || len(found.Skipped()) > 0 {
		t.Fatal(err, found)
	}
	return &cluster{Client: found.Client(), fails: map[string]error{}}
}

// Get fails if the test says so, by kind and name.
func (c *cluster) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.fails[fmt.Sprintf("get %T %s", object, key.Name)]; err != nil {
		return err
	}
	return c.Client.Get(ctx, key, object, options...)
}

// List fails if the test says so, by kind.
func (c *cluster) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := c.fails[fmt.Sprintf("list %T", list)]; err != nil {
		return err
	}
	return c.Client.List(ctx, list, options...)
}

// Delete keeps the object's name.
func (c *cluster) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	return c.note("delete", object, "")
}

// Patch keeps the patch.
func (c *cluster) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	return c.note("patch", object, " "+string(data))
}

func (c *cluster) note(verb string, object client.Object, what string) error {
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return fmt.Errorf("note: %w", err)
	}
	c.sent = append(c.sent, verb+" "+apply.Subject{GroupVersionKind: kind, ObjectKey: client.ObjectKeyFromObject(object)}.String()+what)
	return c.fails[verb+" "+object.GetName()]
}

// Status keeps what is written of one.
func (c *cluster) Status() client.SubResourceWriter { return statusOf{cluster: c} }

type statusOf struct {
	client.SubResourceWriter
	cluster *cluster
}

// Apply keeps the fields that are applied.
func (s statusOf) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	text, err := json.Marshal(object)
	s.cluster.sent = append(s.cluster.sent, "status "+string(text))
	if err == nil {
		err = s.cluster.fails["status"]
	}
	return err
}

// recorder keeps events as "Type Reason: note", those with a related object as "Type Reason (Kind name): note".
type recorder struct{ said []string }

// Eventf keeps one.
func (r *recorder) Eventf(_, related runtime.Object, kind, reason, _, note string, args ...any) {
	about := ""
	if object, ok := related.(client.Object); ok {
		about = fmt.Sprintf(" (%s %s)", object.GetObjectKind().GroupVersionKind().Kind, object.GetName())
	}
	r.said = append(r.said, kind+" "+reason+about+": "+fmt.Sprintf(note, args...))
}

// secretCache holds Secrets as their caches have them.
type secretCache struct {
	cache.Cache
	secrets *cluster
}

// Get reads one.
func (s secretCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return s.secrets.Get(ctx, key, object, options...)
}

// written is what was last applied to the status; nil if nothing was.
func (c *cluster) written(t *testing.T) *operatorv1.OperatorStatus {
	t.Helper()
	for _, sent := range slices.Backward(c.sent) {
		if text, found := strings.CutPrefix(sent, "status "); found {
			var object struct{ Status operatorv1.OperatorStatus }
			if err := json.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			return &object.Status
		}
	}
	return nil
}
