package canned

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u", Labels: map[string]string{"on": node}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func TestAListHasWhatItsOptionsSelect(t *testing.T) {
	c := New(scheme.Scheme, pod("a", "x", "one"), pod("b", "y", "one"), pod("a", "z", "two"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	for name, tc := range map[string]struct {
		options []client.ListOption
		want    []string
	}{
		"all":            {nil, []string{"x", "y", "z"}},
		"a namespace":    {[]client.ListOption{client.InNamespace("a")}, []string{"x", "z"}},
		"a label":        {[]client.ListOption{client.MatchingLabels{"on": "one"}}, []string{"x", "y"}},
		"a name":         {[]client.ListOption{client.MatchingFields{"metadata.name": "y"}}, []string{"y"}},
		"a node of one":  {[]client.ListOption{client.MatchingFields{"spec.nodeName": "one"}, client.InNamespace("a")}, []string{"x"}},
		"somebody's own": {[]client.ListOption{client.MatchingFields{"spec.serviceAccountName": "any"}}, nil},
	} {
		part := &metav1.PartialObjectMetadataList{}
		part.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		for _, list := range []client.ObjectList{&corev1.PodList{}, part} {
			if err := c.List(t.Context(), list, tc.options...); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for i := range part.Items {
			got = append(got, part.Items[i].Name)
		}
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestADeletionIsNotedWithItsOptionsAndRefusedByItsName(t *testing.T) {
	c, uid := New(scheme.Scheme), client.Preconditions{UID: &pod("a", "x", "").UID}
	refused := errors.New("refused")
	c.Refuse(refused, "delete Pod y", "get")
	for name, want := range map[string]error{"x": nil, "y": refused} {
		if err := c.Delete(t.Context(), pod("a", name, ""), uid, client.PropagationPolicy(metav1.DeletePropagationOrphan)); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Delete(t.Context(), pod("a", "z", "")); err != nil {
		t.Error(err)
	}
	version := ""
	if err := c.Delete(t.Context(), pod("a", "w", ""), client.Preconditions{UID: uid.UID, ResourceVersion: &version}); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{}); !errors.Is(err, refused) {
		t.Error(err)
	}
	c.Fail = nil
	if err := c.Get(t.Context(), client.ObjectKey{Name: "n"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	want := []string{
		"delete Pod a/w", "delete Pod a/x Orphan, whatever it has become", "delete Pod a/y Orphan, whatever it has become",
		"delete Pod a/z, whichever it is",
	}
	if diff := cmp.Diff(want, c.Sent(), cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"get Node n", "get Node n"}, c.Reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}
