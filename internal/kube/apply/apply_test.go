package apply

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What depends on the API server, such as writing, defaulting and taking over fields, is tested in test/e2e.

type fields = map[string]any

func TestContains(t *testing.T) {
	cases := map[string]struct {
		reason        string
		live, desired any
		want          bool
	}{
		"equal":                 {"nothing to do", fields{"a": "x"}, fields{"a": "x"}, true},
		"default added":         {"the API server adds defaults", fields{"a": "x", "b": int64(1)}, fields{"a": "x"}, true},
		"value changed":         {"drift", fields{"a": "y"}, fields{"a": "x"}, false},
		"value gone":            {"drift", fields{}, fields{"a": "x"}, false},
		"list item added":       {"an argument more is drift", fields{"a": []any{"x", "y"}}, fields{"a": []any{"x"}}, false},
		"list order changed":    {"the order of arguments matters", fields{"a": []any{"y", "x"}}, fields{"a": []any{"x", "y"}}, false},
		"default in list item":  {"containers get defaults too", fields{"a": []any{fields{"n": "x", "d": true}}}, fields{"a": []any{fields{"n": "x"}}}, true},
		"empty map dropped":     {"the API server drops empty maps", fields{}, fields{"a": fields{}}, true},
		"empty list dropped":    {"and empty lists", fields{}, fields{"a": []any{}}, true},
		"list instead of a map": {"a changed type is drift", fields{"a": []any{}}, fields{"a": fields{"b": "c"}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := contains(tc.live, tc.desired); got != tc.want {
				t.Errorf("%s: got %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

func TestFieldsOfOthersNeverIncludeWhatOthersMayHave(t *testing.T) {
	cases := map[string]struct {
		kind      string
		labels    map[string]string
		notes     map[string]string
		operation metav1.ManagedFieldsOperationType
		manager   string
		sub, set  string
		want      string
	}{
		"our own fields":              {kind: "DaemonSet", manager: "us", operation: "Apply", set: `{"f:spec":{"f:x":{}}}`},
		"our name, but not applied":   {kind: "DaemonSet", manager: "us", operation: "Update", set: `{"f:spec":{"f:x":{}}}`, want: ".spec.x"},
		"status":                      {kind: "DaemonSet", manager: "kcm", sub: "status", set: `{"f:status":{"f:x":{}}}`},
		"replicas set by scaling":     {kind: "Deployment", manager: "kubectl", sub: "scale", set: `{"f:spec":{"f:replicas":{}}}`, want: ".spec.replicas"},
		"labels and annotations":      {kind: "DaemonSet", manager: "x", set: `{"f:metadata":{"f:labels":{"f:a":{}},"f:annotations":{".":{},"f:b/c":{}}}}`},
		"an owner reference":          {kind: "DaemonSet", manager: "x", set: `{"f:metadata":{"f:ownerReferences":{}}}`, want: ".metadata.ownerReferences"},
		"a restart":                   {kind: "DaemonSet", manager: "x", set: `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`},
		"another template annotation": {kind: "DaemonSet", manager: "x", set: `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:y":{}}}}}}`, want: ".spec.template.metadata.annotations.y"},
		"pull secrets":                {kind: "ServiceAccount", manager: "x", set: `{"f:imagePullSecrets":{"k:{\"name\":\"s\"}":{}},"f:secrets":{".":{}}}`},
		"pull secrets elsewhere":      {kind: "DaemonSet", manager: "x", set: `{"f:imagePullSecrets":{".":{}}}`, want: ".imagePullSecrets"},
		"an injected CA":              {kind: "ConfigMap", labels: map[string]string{injectLabel: "true"}, manager: "x", set: `{"f:data":{"f:ca-bundle.crt":{}}}`},
		"data of another ConfigMap":   {kind: "ConfigMap", manager: "x", set: `{"f:data":{"f:ca-bundle.crt":{}}}`, want: ".data.ca-bundle.crt"},
		"the CA of a webhook": {
			kind: "ValidatingWebhookConfiguration", notes: map[string]string{injectAnnotation: "true"}, manager: "x",
			set: `{"f:webhooks":{"k:{\"name\":\"w\"}":{"f:clientConfig":{"f:caBundle":{}}}}}`,
		},
		"the address of a webhook": {
			kind: "ValidatingWebhookConfiguration", notes: map[string]string{injectAnnotation: "true"}, manager: "x",
			set: `{"f:webhooks":{"k:{\"name\":\"w\"}":{"f:clientConfig":{"f:url":{}}}}}`, want: `.webhooks[name="w"].clientConfig.url`,
		},
		"a CA that nobody injects": {
			kind: "ValidatingWebhookConfiguration", manager: "x", set: `{"f:webhooks":{"k:{\"name\":\"w\"}":{"f:clientConfig":{"f:caBundle":{}}}}}`,
			want: `.webhooks[name="w"].clientConfig.caBundle`,
		},
		"a prefix that is not a field": {kind: "ServiceAccount", manager: "x", set: `{"f:secretsX":{}}`, want: ".secretsX"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			live := &unstructured.Unstructured{Object: fields{"kind": tc.kind}}
			live.SetLabels(tc.labels)
			live.SetAnnotations(tc.notes)
			live.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: tc.manager, Operation: tc.operation, Subresource: tc.sub, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(tc.set),
			}})
			found, err := (&Applier{FieldManager: "us"}).fieldsOfOthers(live, live)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if set := found[0]; set != nil {
				got = strings.TrimSpace(set.String())
			}
			if got != tc.want {
				t.Errorf("foreign fields %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReassignMovesFieldsOfOthersAndKeepsTheRest(t *testing.T) {
	live := &unstructured.Unstructured{Object: fields{"kind": "DaemonSet", "apiVersion": "apps/v1"}}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "us", Operation: "Apply", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:ours":{}}}`)},
		{Manager: "user", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:theirs":{}}}`)},
		{Manager: "kcm", Operation: "Update", Subresource: "status", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
	})
	applier := &Applier{FieldManager: "us"}
	theirs, err := applier.fieldsOfOthers(live, live)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := applier.reassign(live, theirs)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Manager+" "+string(entry.Operation)+" "+entry.FieldsV1.GetRawString())
	}
	want := []string{
		`us Apply {"f:spec":{"f:ours":{},"f:theirs":{}}}`,
		`user Update {"f:metadata":{"f:labels":{"f:a":{}}}}`,
		`kcm Update {"f:status":{}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managed fields (-want +got):\n%s", diff)
	}
}

func TestWrittenIsBelievedUntilTheCacheHasCaughtUp(t *testing.T) {
	at := func(version string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: fields{"kind": "ConfigMap", "apiVersion": "v1"}}
		object.SetName("x")
		object.SetResourceVersion(version)
		return object
	}
	subject := SubjectOf(at("1"))
	written := NewMutationCache()
	written.Remember(at("10"))
	if got := written.Newer(subject, nil); got == nil || got.GetResourceVersion() != "10" {
		t.Errorf("an object that the cache has not yet: got %v, want version 10", got)
	}
	if got := written.Newer(subject, at("9")); got.GetResourceVersion() != "10" {
		t.Errorf("an older object in the cache: got version %s, want 10", got.GetResourceVersion())
	}
	if got := written.Newer(subject, at("100")); got.GetResourceVersion() != "100" {
		t.Errorf("a newer object in the cache: got version %s, want 100", got.GetResourceVersion())
	}
	if got := written.Newer(subject, nil); got != nil || written.Pending() {
		t.Errorf("once the cache has caught up it is believed: got %v, want nothing", got)
	}
	written.Remember(at("11"))
	written.Evict(subject)
	if got := written.Newer(subject, nil); got != nil {
		t.Errorf("a deleted object: got %v, want nothing", got)
	}
}

func TestChangeSetJoinsErrorsWithTheObject(t *testing.T) {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	errBoom := errors.New("boom")
	changes := ChangeSet{
		{Subject: Subject{kind, client.ObjectKey{Namespace: "ns", Name: "good"}}, Action: Created},
		{Subject: Subject{kind, client.ObjectKey{Namespace: "ns", Name: "bad"}}, Action: Failed, Err: errBoom},
	}
	if err := changes.Err(); !errors.Is(err, errBoom) || err.Error() != "ConfigMap ns/bad: boom" {
		t.Errorf("got %v", err)
	}
	if err := changes.With(Created).Err(); err != nil || len(changes.With(Created)) != 1 {
		t.Errorf("the good object alone gives %v", err)
	}
}
