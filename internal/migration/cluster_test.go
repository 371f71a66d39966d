package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/mustgather"
)

// cluster reads objects, and keeps what is written, which changes nothing.
type cluster struct {
	client.Client
	// read and sent are the requests.
	read, sent []string
	fails      map[string]error
	// allowed are the namespaces in which this operator may delete pods, and the accounts that may what they are asked for.
	allowed map[string]bool
	asked   []authorizationv1.SubjectAccessReviewSpec
}

// newCluster has some objects. None may change them.
func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	items := []any{&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: here}}}
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, known)
		if err != nil {
			t.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		items = append(items, object)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
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
	return &cluster{Client: found.Client(), fails: map[string]error{}, allowed: map[string]bool{}}
}

// Get fails if the test says so, by type and name.
func (c *cluster) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	request := fmt.Sprintf("get %T %s", object, key.Name)
	c.read = append(c.read, request)
	if err := c.fails[request]; err != nil {
		return err
	}
	return c.Client.Get(ctx, key, object, options...)
}

// List fails if the test says so, by type.
func (c *cluster) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	request := fmt.Sprintf("list %T", list)
	c.read = append(c.read, request)
	if err := c.fails[request]; err != nil {
		return err
	}
	return c.Client.List(ctx, list, options...)
}

// Create answers what somebody may do.
func (c *cluster) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	switch review := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		right := review.Spec.ResourceAttributes
		c.sent = append(c.sent, strings.Join([]string{"may I", right.Verb, right.Resource, "in", right.Namespace}, " "))
		review.Status.Allowed = c.allowed[right.Namespace]
	case *authorizationv1.SubjectAccessReview:
		c.asked = append(c.asked, review.Spec)
		review.Status.Allowed = c.allowed[review.Spec.User]
	}
	return c.fails["create"]
}

// Delete keeps what is deleted, with how its dependents go and which object it is.
func (c *cluster) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	wanted := (&client.DeleteOptions{}).ApplyOptions(options)
	text := "delete " + c.name(object)
	if wanted.PropagationPolicy != nil {
		text += " " + string(*wanted.PropagationPolicy)
	}
	if wanted.Preconditions == nil || wanted.Preconditions.UID == nil || *wanted.Preconditions.UID != object.GetUID() {
		text += ", or any other of its name"
	}
	c.sent = append(c.sent, text)
	return c.fails["delete "+object.GetName()]
}

// Patch keeps the patch.
func (c *cluster) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	c.sent = append(c.sent, "patch "+c.name(object)+" "+string(data))
	if err == nil {
		err = c.fails["patch "+object.GetName()]
	}
	return err
}

func (c *cluster) name(object client.Object) string {
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return err.Error()
	}
	name := kind.Kind + " " + object.GetName()
	if object.GetNamespace() != "" {
		name = kind.Kind + " " + object.GetNamespace() + "/" + object.GetName()
	}
	return name
}

// recorder keeps events as "Type Reason: note".
type recorder struct{ said []string }

// Eventf keeps one.
func (r *recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.said = append(r.said, kind+" "+reason+": "+fmt.Sprintf(note, args...))
}
