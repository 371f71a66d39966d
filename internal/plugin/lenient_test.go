package plugin

import (
	"bytes"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func TestWhatMayNotBeReadIsNotThereAndRemembered(t *testing.T) {
	objects := canned.New(scheme.Scheme, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}})
	cluster := NewCluster(objects, nil, "a")
	key, pod := client.ObjectKey{Namespace: "a", Name: "p"}, &corev1.Pod{}
	if err := cluster.Lenient().Get(t.Context(), key, pod); err != nil || cluster.RequireRights("it") != nil {
		t.Error(err)
	}
	objects.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no right")))
	if err := cluster.Lenient().Get(t.Context(), key, pod); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := cluster.Lenient().List(t.Context(), &corev1.PodList{}, client.InNamespace("a")); err != nil {
		t.Error(err)
	}
	want := "deletion was not done, because it needs permissions that you lack: get pods -n a, list pods -n a. Ask an administrator for them"
	if err := cluster.RequireRights("deletion"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	var problems bytes.Buffer
	New(genericiooptions.IOStreams{ErrOut: &problems}).PrintMissing(cluster)
	want = "You lack permission to read pods -n a. Ask an administrator to run this command.\n"
	if problems.String() != want {
		t.Errorf("it prints %q, want %q", problems.String(), want)
	}
	cluster.lacks(Right{Verb: "list", Resource: "nodes", Namespace: "b"})
	cluster.lacks(Right{Verb: "list", Resource: "nodes"})
	cluster.lacks(Right{Verb: "list", Resource: "pods", Namespace: "b"})
	want = "You lack permission to read nodes, pods -n a -n b. Ask an administrator to run this command."
	if got := MissingText(cluster.Missing()); got != want || MissingText(nil) != "" {
		t.Errorf("%q, want %q", got, want)
	}
	objects.Refuse(errors.New("API away"))
	if err := cluster.Lenient().List(t.Context(), &corev1.PodList{}); err == nil {
		t.Error("a failure is no missing right")
	}
}
