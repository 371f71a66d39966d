package sharedvolume

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume/fair"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// began is when every test with a cluster begins.
var began = time.Unix(1000, 0)

// cluster answers from a list, and a patch as an API server does.
type cluster struct{ *canned.Cluster }

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{canned.New(scheme, objects...)}
}

// Create answers with a UID, as an API server does.
func (c *cluster) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	err := c.Cluster.Create(ctx, object, options...)
	if err == nil {
		object.SetUID(types.UID("uid-of-" + object.GetName()))
	}
	return err
}

// Patch answers with the changed object, as an API server does to a merge patch.
func (c *cluster) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := c.Cluster.Patch(ctx, object, patch, options...); err != nil {
		return err
	}
	changes, err := changesOf(object, patch)
	if err != nil {
		return err
	}
	return mergeInto(object, changes)
}

// changesOf are the fields of a merge patch.
func changesOf(object client.Object, patch client.Patch) (map[string]any, error) {
	data, err := patch.Data(object)
	changes := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &changes)
	}
	return changes, err
}

// mergeInto changes the fields of an object.
func mergeInto(object client.Object, changes map[string]any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	if _, isPVC := object.(*corev1.PersistentVolumeClaim); isPVC {
		// As the API server does.
		if fields, err = strategicpatch.StrategicMergeMapPatch(fields, changes, corev1.PersistentVolumeClaim{}); err != nil {
			return err
		}
	} else {
		merge(fields, changes)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, object)
}

func merge(into, changes map[string]any) {
	for key, value := range changes {
		inner, isMap := value.(map[string]any)
		if there, ok := into[key].(map[string]any); ok && isMap {
			merge(there, inner)
		} else {
			into[key] = value
		}
	}
}

// neighbour is another operator.
type neighbour struct {
	running, older string
	left           bool
	err            error
}

func (n *neighbour) Running(context.Context) (string, error)   { return n.running, n.err }
func (n *neighbour) HasLeft(context.Context) (bool, error)     { return n.left, n.err }
func (n *neighbour) OlderCopy(context.Context) (string, error) { return n.older, n.err }
func (n *neighbour) Events(handler.EventHandler) source.Source { return nil }

// alone is a cluster without another operator.
func alone() Others { return Others{Community: &neighbour{}, Namesake: &neighbour{}} }

func namespace(name string, lists map[string]string) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: lists}}
}

// working is a Reconciler with its cache, its cluster and its events. No driver of AWS answers.
type working struct {
	*Reconciler
	cached, live *cluster
	events       *canned.Events
	registry     *prometheus.Registry
}

// newWorking has a cache and a cluster with the same objects, and the namespace ns without limits.
func newWorking(t *testing.T, objects ...client.Object) *working {
	t.Helper()
	objects = append(objects, namespace("ns", map[string]string{AllowedAnnotation: "*"}))
	made := &working{
		cached: newCluster(t, objects...), live: newCluster(t, objects...), events: &canned.Events{}, registry: prometheus.NewRegistry(),
	}
	made.Reconciler = &Reconciler{
		Client: made.cached, Live: made.live, Events: made.events, Owner: "operator", Others: alone(), Now: func() time.Time { return began },
		pacer: fair.NewPacer("NameTaken", "QuotaExceeded", "Forbidden", "Refused"),
	}
	made.writer = &status.Writer{Client: made.cached, Owner: "operator", Now: made.Now}
	var err error
	if made.metrics, err = newMetrics(made.registry); err != nil {
		t.Fatal(err)
	}
	return made
}

// conditionTexts are conditions as "Status Reason: message" by their types.
func conditionTexts(conditions []metav1.Condition) map[string]string {
	found := map[string]string{}
	for _, one := range conditions {
		text := string(one.Status) + " " + one.Reason
		if one.Message != "" {
			text += ": " + one.Message
		}
		found[one.Type] = text
	}
	return found
}

// withStatus is a SharedVolume with a phase and some conditions.
func withStatus(phase v1alpha1.Phase, conditions ...metav1.Condition) *v1alpha1.SharedVolume {
	sv := owner("ns", "sv1")
	sv.Status.Phase, sv.Status.Conditions = phase, conditions
	return sv
}

func condition(kind string, isTrue bool, reason, message string) metav1.Condition {
	state := metav1.ConditionFalse
	if isTrue {
		state = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: state, Reason: reason, Message: message}
}

// keys are pairs of a namespace and a name.
func keys(names ...string) []types.NamespacedName {
	found := make([]types.NamespacedName, 0, len(names)/2)
	for i := 0; i < len(names); i += 2 {
		found = append(found, types.NamespacedName{Namespace: names[i], Name: names[i+1]})
	}
	return found
}
