package mustgather_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

func namesIn(t *testing.T, list client.ObjectList) []string {
	t.Helper()
	var names []string
	must(t, meta.EachListItem(list, func(item runtime.Object) error {
		accessor, err := meta.Accessor(item)
		if err == nil {
			names = append(names, accessor.GetNamespace()+"/"+accessor.GetName())
		}
		return err
	}))
	return names
}

// sample has pods in two namespaces, on two nodes and unscheduled, and some objects of other kinds.
func sample(t *testing.T) *mustgather.Folder {
	t.Helper()
	return open(t, files{
		"a.yaml": pod("a", "p", "n1") + "---\n" + pod("a", "q", "n2"),
		"b.yaml": pod("b", "p", "n1") + "---\n" + pod("b", "r", ""),
		"driver.yaml": "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\n" +
			"metadata: {name: efs.csi.aws.com, uid: u, labels: {team: storage}}\nspec: {attachRequired: false}\n",
		"subscription.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\n" +
			"metadata: {namespace: a, name: efs}\nspec: {name: aws-efs-operator}\n",
	})
}

func TestListSelects(t *testing.T) {
	field := func(name, value string) client.ListOption {
		return client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(name, value)}
	}
	for name, test := range map[string]struct {
		options []client.ListOption
		want    []string
	}{
		"everything":                {nil, []string{"a/p", "a/q", "b/p", "b/r"}},
		"a namespace":               {[]client.ListOption{client.InNamespace("b")}, []string{"b/p", "b/r"}},
		"a namespace without pods":  {[]client.ListOption{client.InNamespace("c")}, nil},
		"a label":                   {[]client.ListOption{client.MatchingLabels{"app": "p"}}, []string{"a/p", "b/p"}},
		"a label that nobody has":   {[]client.ListOption{client.HasLabels{"other"}}, nil},
		"a name":                    {[]client.ListOption{field("metadata.name", "q")}, []string{"a/q"}},
		"a namespace, as a field":   {[]client.ListOption{field("metadata.namespace", "a")}, []string{"a/p", "a/q"}},
		"a node":                    {[]client.ListOption{field("spec.nodeName", "n1")}, []string{"a/p", "b/p"}},
		"no node":                   {[]client.ListOption{field("spec.nodeName", "")}, []string{"b/r"}},
		"all but a node":            {[]client.ListOption{client.MatchingFieldsSelector{Selector: fields.ParseSelectorOrDie("spec.nodeName!=n1")}}, []string{"a/q", "b/r"}},
		"an account":                {[]client.ListOption{field("spec.serviceAccountName", "of-q")}, []string{"a/q"}},
		"a node and a namespace":    {[]client.ListOption{field("spec.nodeName", "n1"), client.InNamespace("b")}, []string{"b/p"}},
		"pages, which are not made": {[]client.ListOption{client.Limit(1)}, []string{"a/p", "a/q", "b/p", "b/r"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := sample(t)
			partial := &metav1.PartialObjectMetadataList{}
			partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
			free := &unstructured.UnstructuredList{}
			free.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
			for _, list := range []client.ObjectList{&corev1.PodList{}, partial, free} {
				if diff := cmp.Diff(test.want, names(t, folder, list, test.options...)); diff != "" {
					t.Errorf("%T, -want +got:\n%s", list, diff)
				}
				if list.GetContinue() != "" {
					t.Errorf("%T: there is another page", list)
				}
			}
		})
	}
}

func TestAListIsReplacedAndNotExtended(t *testing.T) {
	folder := sample(t)
	remaining := int64(7)
	pods := &corev1.PodList{
		ListMeta: metav1.ListMeta{Continue: "more", RemainingItemCount: &remaining}, Items: make([]corev1.Pod, 9),
	}
	must(t, folder.List(t.Context(), pods, client.InNamespace("a")))
	if len(pods.Items) != 2 || pods.Continue != "" || pods.RemainingItemCount != nil {
		t.Errorf("%d items, continue %q, remaining %v", len(pods.Items), pods.Continue, pods.RemainingItemCount)
	}
}

func TestListOfAKindWithoutNamespacesIgnoresTheNamespace(t *testing.T) {
	if diff := cmp.Diff([]string{"/efs.csi.aws.com"}, names(t, sample(t), &storagev1.CSIDriverList{}, client.InNamespace("a"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestListRefusesWhatItCanNotAnswer(t *testing.T) {
	unknown := &unstructured.UnstructuredList{}
	unknown.SetAPIVersion("example.com/v1")
	unknown.SetKind("WidgetList")
	for name, test := range map[string]struct {
		list client.ObjectList
		text string
		want string
	}{
		"a field that it does not know": {&corev1.PodList{}, "spec.restartPolicy=Never", `field label "spec.restartPolicy" is not supported for Pod`},
		"the node of a DaemonSet":       {&appsv1.DaemonSetList{}, "spec.nodeName=n1", `field label "spec.nodeName" is not supported for DaemonSet`},
		"the account of a DaemonSet":    {&appsv1.DaemonSetList{}, "spec.serviceAccountName=a", `field label "spec.serviceAccountName" is not supported for DaemonSet`},
		"a kind that it has not read":   {unknown, "", "kind Widget of example.com/v1 was not read from the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := fields.ParseSelector(test.text)
			must(t, err)
			err = sample(t).List(t.Context(), test.list, client.MatchingFieldsSelector{Selector: selector})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if test.text != "" && !apierrors.IsBadRequest(err) {
				t.Errorf("%v is no bad request", err)
			}
		})
	}
}

func TestGetFillsEveryKindOfObject(t *testing.T) {
	folder := sample(t)
	typed := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{FSGroupPolicy: new(storagev1.FSGroupPolicy)}}
	// As with an API server, a namespace is ignored here.
	must(t, folder.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "efs.csi.aws.com"}, typed))
	if typed.UID != "u" || typed.Spec.AttachRequired == nil || *typed.Spec.AttachRequired || typed.Spec.FSGroupPolicy != nil {
		t.Errorf("typed: %+v", typed)
	}
	kind := storagev1.SchemeGroupVersion.WithKind("CSIDriver")
	partial := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"old": "x"}}}
	partial.SetGroupVersionKind(kind)
	must(t, folder.Get(t.Context(), client.ObjectKey{Name: "efs.csi.aws.com"}, partial))
	if partial.UID != "u" || partial.Labels["team"] != "storage" || partial.Annotations != nil || partial.GroupVersionKind() != kind {
		t.Errorf("partial: %+v", partial)
	}
	free := &unstructured.Unstructured{}
	free.SetGroupVersionKind(kind)
	must(t, folder.Get(t.Context(), client.ObjectKey{Name: "efs.csi.aws.com"}, free))
	if required, found, err := unstructured.NestedBool(free.Object, "spec", "attachRequired"); err != nil || !found || required || free.GroupVersionKind() != kind {
		t.Errorf("unstructured: %+v", free)
	}
	free = &unstructured.Unstructured{}
	free.SetGroupVersionKind(subscription())
	must(t, folder.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "efs"}, free))
	if pkg, _, _ := unstructured.NestedString(free.Object, "spec", "name"); pkg != "aws-efs-operator" {
		t.Errorf("unstructured without a type: %+v", free)
	}
}

func TestGetSaysWhatIsNotFound(t *testing.T) {
	folder := sample(t)
	for _, key := range []client.ObjectKey{{Namespace: "a", Name: "r"}, {Namespace: "c", Name: "p"}, {Name: "p"}, {}} {
		err := folder.Get(t.Context(), key, &corev1.Pod{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: got %v, want not found", key, err)
		}
	}
	err := folder.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "d"}, &appsv1.DaemonSet{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `daemonsets.apps "d" not found`) {
		t.Errorf("got %v", err)
	}
	unknown := &unstructured.Unstructured{}
	unknown.SetAPIVersion("example.com/v1")
	unknown.SetKind("Widget")
	// The object may be in the folder, so the reader must not report that it is missing.
	if err := folder.Get(t.Context(), client.ObjectKey{Name: "w"}, unknown); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a kind that was not read: got %v", err)
	}
}

func TestNothingIsReadWhenNobodyWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	folder := sample(t)
	if err := folder.Get(ctx, client.ObjectKey{Namespace: "a", Name: "p"}, &corev1.Pod{}); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if err := folder.List(ctx, &corev1.PodList{}); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
}

func TestAnswersShareNothingWithTheFolder(t *testing.T) {
	folder := sample(t)
	key := client.ObjectKey{Namespace: "a", Name: "p"}
	first := &corev1.Pod{}
	must(t, folder.Get(t.Context(), key, first))
	first.Labels["app"] = "changed"
	pods := &corev1.PodList{}
	must(t, folder.List(t.Context(), pods, client.InNamespace("a")))
	pods.Items[0].Labels["app"] = "changed as well"
	free := &unstructured.Unstructured{}
	free.SetGroupVersionKind(subscription())
	must(t, folder.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "efs"}, free))
	must(t, unstructured.SetNestedField(free.Object, "changed", "spec", "name"))

	again := &corev1.Pod{}
	must(t, folder.Get(t.Context(), key, again))
	if again.Labels["app"] != "p" {
		t.Errorf("label is %q", again.Labels["app"])
	}
	same := &unstructured.Unstructured{}
	same.SetGroupVersionKind(subscription())
	must(t, folder.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "efs"}, same))
	if pkg, _, _ := unstructured.NestedString(same.Object, "spec", "name"); pkg != "aws-efs-operator" {
		t.Errorf("package is %q", pkg)
	}
}
