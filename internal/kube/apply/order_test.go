package apply

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contested is an object of which another manager has a field until it is adopted.
type contested struct {
	client.Client
	fields    []metav1.ManagedFieldsEntry
	conflicts int
	requests  []string
}

// Apply leaves the fields of the other manager.
func (c *contested) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	c.requests = append(c.requests, "apply")
	if answer, ok := object.(metav1.Object); ok {
		answer.SetManagedFields(c.fields)
	}
	return nil
}

// Patch adopts the fields, unless the object has changed meanwhile.
func (c *contested) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
	c.requests = append(c.requests, "adopt")
	if c.conflicts > 0 {
		c.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, object.GetName(), nil)
	}
	c.fields = nil
	return nil
}

// Pods must not start from a mixture of fields, and the API server must not check an adoption of RBAC rules that the operator does not hold.
func TestWorkloadsAreAdoptedFirstAndAllElseIsAppliedFirst(t *testing.T) {
	theirs := []metav1.ManagedFieldsEntry{
		{Manager: "user", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:theirs":{}}}`)},
	}
	for name, tc := range map[string]struct {
		kind      string
		theirs    []metav1.ManagedFieldsEntry
		absent    bool
		conflicts int
		want      string
		action    Action
	}{
		"a workload":                     {kind: "apps/v1/Deployment", theirs: theirs, want: "adopt apply", action: Configured},
		"a workload in use":              {kind: "apps/v1/Deployment", theirs: theirs, conflicts: 1, want: "adopt", action: Failed},
		"a workload that is ours":        {kind: "apps/v1/Deployment", want: "apply", action: Configured},
		"a role":                         {kind: "rbac/v1/Role", theirs: theirs, want: "apply adopt apply", action: Configured},
		"a role that is ours":            {kind: "rbac/v1/Role", want: "apply", action: Configured},
		"a role that others write":       {kind: "rbac/v1/Role", theirs: theirs, conflicts: 1, want: "apply adopt apply adopt apply", action: Configured},
		"a role that others write twice": {kind: "rbac/v1/Role", theirs: theirs, conflicts: 2, want: "apply adopt apply adopt", action: Failed},
		"a role that the cache lacks":    {kind: "rbac/v1/Role", theirs: theirs, absent: true, want: "apply", action: Created},
	} {
		t.Run(name, func(t *testing.T) {
			part := strings.Split(tc.kind, "/")
			desired := &unstructured.Unstructured{Object: fields{"spec": fields{"ours": "new"}}}
			desired.SetGroupVersionKind(schema.GroupVersionKind{Group: part[0], Version: part[1], Kind: part[2]})
			var live *unstructured.Unstructured
			if !tc.absent {
				live = desired.DeepCopy()
				live.Object["spec"] = fields{"ours": "old"}
				live.SetManagedFields(tc.theirs)
			}
			cluster := &contested{fields: tc.theirs, conflicts: tc.conflicts}
			applier := &Applier{Client: cluster, FieldManager: "us", Mutations: NewMutationCache()}
			action, err := applier.write(t.Context(), desired, live)
			if got := strings.Join(cluster.requests, " "); got != tc.want || action != tc.action || (err != nil) != (action == Failed) {
				t.Errorf("%s: %s, error %v; want %s: %s", action, got, err, tc.action, tc.want)
			}
		})
	}
}
