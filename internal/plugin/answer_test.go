package plugin

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

func TestWhatIsNotThereIsToldFromWhatMayNotBeRead(t *testing.T) {
	api := canned.New(scheme.Scheme, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
	cluster := NewCluster(api, nil, "ns")
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		failure   error
		get, list Answer
		failed    bool
	}{
		"there":      {nil, Present, Present, false},
		"denied":     {apierrors.NewForbidden(pods, "", nil), Denied, Denied, false},
		"not served": {&meta.NoKindMatchError{}, Absent, Absent, false},
		"no answer":  {errors.New("away"), Unknown, Unknown, true},
	} {
		api.Fail = func(string) error { return tc.failure }
		get, err := cluster.TryGet(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, &corev1.Pod{})
		list, _ := cluster.TryList(t.Context(), &corev1.PodList{}, client.InNamespace("ns"))
		if get != tc.get || list != tc.list || (err != nil) != tc.failed || get.Known() != (tc.get >= Absent) {
			t.Errorf("%s: %d, %d, %v", name, get, list, err)
		}
	}
	api.Fail = nil
	if answer, err := cluster.TryGet(t.Context(), client.ObjectKey{Name: "b"}, &corev1.Pod{}); answer != Absent || err != nil {
		t.Errorf("%d, %v", answer, err)
	}
	if rights := fmt.Sprint(cluster.Missing()); rights != "[get pods -n ns list pods -n ns]" {
		t.Error(rights)
	}
}

func TestOnlyAServerThatDoesNotAnswerIsAway(t *testing.T) {
	for err, want := range map[error]bool{
		errors.New("connection refused"):                                   true,
		fmt.Errorf("get: %w", apierrors.NewInternalError(errors.New("x"))): false,
		&meta.NoKindMatchError{}:                                           false,
		context.Canceled:                                                   false,
	} {
		if IsUnanswered(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
	if IsUnanswered(nil) {
		t.Error("no error")
	}
}
