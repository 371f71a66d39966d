package mustgather

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// FuzzTakeFile checks that no file causes a panic, and that objects from files are valid.
func FuzzTakeFile(f *testing.F) {
	for _, seed := range []string{
		"", "---", "a: [", "null", "[]", `"text"`, "\x00", "\xff\xfe-\x00", "&a [*a, *a]", "? {a: b} : c",
		"apiVersion: v1\nkind: Pod\nmetadata: {namespace: a, name: p}\nspec: {containers: [{name: c}]}\n",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: PodList\n  items: [{metadata: {name: p}}, null, 1]\n",
		"kind: PodList\napiVersion: v1\nitems: {}\n",
		"apiVersion: operators.coreos.com/v1alpha1\nkind: SubscriptionList\nitems: [null, {metadata: 1}, {metadata: {name: s}}]\n",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":null},"creationTimestamp":"never"}}`,
		"metadata: &m {name: p}\nkind: Pod\napiVersion: v1\n<<: *m\n",
	} {
		f.Add([]byte(seed))
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		f.Fatal(err)
	}
	free := schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}
	scheme.AddKnownTypeWithName(free, &unstructured.Unstructured{})
	f.Fuzz(func(t *testing.T, data []byte) {
		folder := newFolder(scheme)
		folder.takeFile("any.yaml", data)
		for gvk, objects := range folder.objects {
			for key, object := range objects {
				if key.Name == "" || key.Name != object.GetName() || key.Namespace != object.GetNamespace() {
					t.Errorf("%s %q is called %q in %q", gvk.Kind, key, object.GetName(), object.GetNamespace())
				}
				if object.GetObjectKind().GroupVersionKind() != gvk || !scheme.Recognizes(gvk) {
					t.Errorf("a %s is kept as %s", object.GetObjectKind().GroupVersionKind(), gvk)
				}
			}
		}
	})
}
