package env

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scene is a cluster as one test has it. What a method can't do, or what does not come true, ends the test.
type Scene struct {
	*Cluster
	T *testing.T
	// Patience is how long a condition may take; 0 means as long as everywhere.
	Patience time.Duration
}

// Keep creates an object and deletes it when the test ends.
func (s Scene) Keep(object client.Object) {
	s.T.Helper()
	Must(s.T, s.Client.Create(s.T.Context(), object))
	s.T.Cleanup(func() { s.Drop(object) })
}

// Drop deletes an object at once, if it is there.
func (s Scene) Drop(object client.Object) {
	s.T.Helper()
	if err := s.Client.Delete(context.Background(), object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		s.T.Error(err)
	}
}

// Patch merges fields into an object, as the administrator.
func (s Scene) Patch(object client.Object, fields string) {
	s.T.Helper()
	Must(s.T, s.Client.Patch(context.Background(), object, Merge(fields)))
}

// Until waits for all of these. It looks at them in order, and at the next one only when those before it are true: each look costs requests.
func (s Scene) Until(what string, checks ...func() error) {
	s.T.Helper()
	limit := s.Patience
	if limit == 0 {
		limit = Patience
	}
	Must(s.T, AwaitFor(s.T.Context(), limit, what, func() error {
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Unchanged checks at the end of the test that the cluster has the same objects as now: none added, removed or recreated. The next test on
// this cluster reuses the result, because listing all kinds is expensive.
func (s Scene) Unchanged() {
	s.T.Helper()
	before := s.left
	if before == nil {
		var err error
		before, err = s.Take(s.T.Context())
		Must(s.T, err)
	}
	s.left = nil
	s.T.Cleanup(func() {
		err := s.AwaitSame(context.Background(), "the cluster as it was before the test", before)
		switch {
		case err == nil:
			s.left = before
		case !s.T.Failed():
			s.T.Error(err)
		}
	})
}

// Changed says that a test leaves the cluster with other objects. The next test takes what it finds for what has to be unchanged.
func (c *Cluster) Changed() { c.left = nil }

// NoRefusals checks, when the test ends, that these users have asked for nothing that they have no right to.
func (s Scene) NoRefusals(users ...string) {
	s.T.Helper()
	mark, err := s.Audit.Now()
	Must(s.T, err)
	s.T.Cleanup(func() {
		if err := s.Audit.NoRefusals(mark, users...); err != nil {
			s.T.Error(err)
		}
	})
}

// Merge is a merge patch of these fields, in JSON.
func Merge(fields string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(fields)) }

// Says checks a condition of a ClusterCSIDriver: its STATUS/REASON, each of which may be left out, and texts in its message.
func (c *Cluster) Says(ctx context.Context, driver, kind, state string, texts ...string) error {
	cr := CR(driver, "")
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	return SaysIn(cr.Status.Conditions, kind, state, texts...)
}

// SaysIn is Says for conditions that were read.
func SaysIn(conditions []operatorv1.OperatorCondition, kind, state string, texts ...string) error {
	i := slices.IndexFunc(conditions, func(c operatorv1.OperatorCondition) bool { return c.Type == kind })
	if i < 0 {
		return fmt.Errorf("there is no condition %s", kind)
	}
	found := conditions[i]
	status, reason, _ := strings.Cut(state, "/")
	if status != "" && string(found.Status) != status || reason != "" && found.Reason != reason {
		return fmt.Errorf("%s is %s/%s, want %s: %s", kind, found.Status, found.Reason, state, found.Message)
	}
	for _, text := range texts {
		if !strings.Contains(found.Message, text) {
			return fmt.Errorf("%s does not say %q: %s: %s", kind, text, found.Reason, found.Message)
		}
	}
	return nil
}

// HasEvent checks that there is an event on an object, with a reason and a text. Objects are identified by UID, or by name if none is known.
func (c *Cluster) HasEvent(ctx context.Context, object client.Object, reason, text string) error {
	events := &corev1.EventList{}
	if err := c.Client.List(ctx, events, client.InNamespace(object.GetNamespace())); err != nil {
		return err
	}
	for i := range events.Items {
		event := &events.Items[i]
		about := event.InvolvedObject.Name == object.GetName() && (object.GetUID() == "" || event.InvolvedObject.UID == object.GetUID())
		if about && event.Reason == reason && strings.Contains(event.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("no event %s about %s with %q", reason, object.GetName(), text)
}
