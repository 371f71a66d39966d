package migration

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// cluster answers from a list, and says who may what.
type cluster struct {
	*canned.Cluster
	// allowed are the namespaces in which this operator may delete pods, and the accounts that may what they are asked for.
	allowed map[string]bool
	// mayI are the questions about our own rights, asked those about others.
	mayI  []string
	asked []authorizationv1.SubjectAccessReviewSpec
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{Cluster: canned.New(known, objects...), allowed: map[string]bool{}}
}

// Create answers what somebody may do.
func (c *cluster) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	switch review := object.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		right := review.Spec.ResourceAttributes
		c.mayI = append(c.mayI, strings.Join([]string{"may I", right.Verb, right.Resource, "in", right.Namespace}, " "))
		review.Status.Allowed = c.allowed[right.Namespace]
	case *authorizationv1.SubjectAccessReview:
		c.asked = append(c.asked, review.Spec)
		review.Status.Allowed = c.allowed[review.Spec.User]
	}
	if c.Fail == nil {
		return nil
	}
	return c.Fail("create review")
}
