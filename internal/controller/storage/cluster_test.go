package storage

import (
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/apply"
	"github.com/csi-operators/csi-operators/internal/canned"
	"github.com/csi-operators/csi-operators/internal/catalogue"
	"github.com/csi-operators/csi-operators/internal/manager"
	"github.com/csi-operators/csi-operators/internal/migration/olm"
	"github.com/csi-operators/csi-operators/internal/openshift"
)

func newCluster(t *testing.T, objects ...client.Object) *canned.Cluster {
	t.Helper()
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return canned.New(scheme, objects...)
}

// reconcilerOf works on a cluster, at the time of all tests.
func reconcilerOf(c *canned.Cluster, entries ...catalogue.Entry) *Reconciler {
	now := func() time.Time { return at }
	return &Reconciler{
		Client: c, Live: c, Conflicts: c, Events: events.NewFakeRecorder(10), Catalogue: entries, Scope: Scope{Entries: entries}, Version: "2", Now: now,
		volumes: map[string]volumes{}, formers: &olm.Operators{Writer: c, Live: c, Now: now},
		applier: &apply.Applier{Client: c, Live: c, FieldManager: catalogue.Operator, Labels: client.MatchingLabels(ownLabels()), Mutations: apply.NewMutationCache()},
	}
}

func infrastructure(name configv1.PlatformType) *configv1.Infrastructure {
	return &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: openshift.Singleton}, Status: *platform(name)}
}
