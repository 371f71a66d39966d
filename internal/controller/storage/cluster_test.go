package storage

import (
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/storage/olm"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func newCluster(t *testing.T, objects ...client.Object) *canned.Cluster {
	t.Helper()
	scheme, err := kube.Scheme()
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
		volumes: map[string]volumes{}, predecessors: &olm.Operators{Writer: c, Live: c, Now: now},
		applier: &apply.Applier{Client: c, Live: c, FieldManager: catalogue.Operator, Labels: client.MatchingLabels(ownLabels()), Mutations: apply.NewMutationCache()},
	}
}

// reporterOf writes the statuses of a cluster, and has metrics of its own.
func reporterOf(t *testing.T, r *Reconciler) *reporter {
	t.Helper()
	measured, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	writer := func() *status.Writer {
		return &status.Writer{Client: r.Client, Owner: catalogue.Operator, Now: r.Now, Remember: r.applier.Mutations.Remember}
	}
	r.reporter = &reporter{
		memory:    memory{failures: &status.Failures{Now: r.Now}, rollouts: &status.Rollouts{Now: r.Now}, waits: &status.Waits{Now: r.Now}},
		catalogue: r.Catalogue, scope: r.Scope, namespace: "storage-operator", storage: writer(), operator: writer(), client: r.Client,
		remember: r.applier.Mutations.Remember, events: r.Events, metrics: measured,
	}
	return r.reporter
}

// owned is one of the objects that this program makes for an operator.
func owned[T client.Object](object T, kind schema.GroupVersionKind, namespace, name string) T {
	object.GetObjectKind().SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(ownLabels())
	return object
}

// started is what the scope of a test knows of an operator: its Namespace, its ServiceAccount and its Deployment.
func started(operator string) []client.Object {
	return []client.Object{
		owned(&corev1.Namespace{}, corev1.SchemeGroupVersion.WithKind("Namespace"), "", "drivers"),
		owned(&corev1.ServiceAccount{}, corev1.SchemeGroupVersion.WithKind("ServiceAccount"), catalogue.Namespace, operator),
		owned(&appsv1.Deployment{}, appsv1.SchemeGroupVersion.WithKind("Deployment"), catalogue.Namespace, operator),
	}
}

// heard are the events that were recorded, as "type reason note".
func heard(r *Reconciler) []string {
	recorder, _ := r.Events.(*events.FakeRecorder)
	var all []string
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return all
}

func infrastructure(name configv1.PlatformType) *configv1.Infrastructure {
	return &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: openshift.Singleton}, Status: *platform(name)}
}
