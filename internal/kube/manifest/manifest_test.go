package manifest

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

const serviceAccount = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: ${NAME}\n"

func TestLoadDecodesEveryFileInOrder(t *testing.T) {
	folder := fstest.MapFS{
		"b.yaml":     {Data: []byte("# a comment alone\n---\n" + serviceAccount + "---\n" + strings.ReplaceAll(serviceAccount, "${NAME}", "fixed"))},
		"a.yaml":     {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${NAME}-config\ndata:\n  command: echo $(HOME)\n")},
		"notes.text": {Data: []byte("not an asset ${WHATEVER}")},
	}
	objects, err := Load(folder, Values{"NAME": "one"}, testScheme(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range objects {
		got = append(got, object.GetObjectKind().GroupVersionKind().Kind+"/"+object.GetName())
	}
	want := []string{"ConfigMap/one-config", "ServiceAccount/one", "ServiceAccount/fixed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if command := objects[0].(*corev1.ConfigMap).Data["command"]; command != "echo $(HOME)" {
		t.Errorf("$(HOME) must stay as it is for the kubelet, got %q", command)
	}
}

func TestLoadRefusesWhatIsNotExact(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		values Values
		want   []string
	}{
		"unknown placeholder": {
			reason: "a misspelt placeholder must never reach the cluster as text",
			text:   serviceAccount,
			want:   []string{"asset a.yaml", "unknown placeholder ${NAME}"},
		},
		"two unknown placeholders": {
			reason: "all mistakes are reported at once",
			text:   "apiVersion: ${ONE}\nkind: ${TWO}\n",
			want:   []string{"${ONE}", "${TWO}"},
		},
		"open placeholder": {
			reason: "a missing brace is a typing error",
			text:   "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: ${NAME\n",
			values: Values{"NAME": "x"},
			want:   []string{`"${NAME" is not closed`},
		},
		"unknown field": {
			reason: "a misspelt field is dropped silently by a lenient decoder",
			text:   "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: x\nsecrtes: []\n",
			want:   []string{"asset a.yaml", `unknown field "secrtes"`},
		},
		"duplicate field": {
			reason: "of two equal keys one would be lost",
			text:   "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: x\n  name: z\n",
			want:   []string{"asset a.yaml", `"name" already set`},
		},
		"unknown kind": {
			reason: "kinds are a fixed list",
			text:   "apiVersion: v1\nkind: ServiceAcount\nmetadata:\n  name: x\n",
			want:   []string{"asset a.yaml", "ServiceAcount"},
		},
		"value that becomes structure": {
			reason: "placeholders stand for scalars; a value must not add YAML",
			text:   serviceAccount,
			values: Values{"NAME": "x\n  labels: {a: b}"},
			want:   []string{"${NAME} is not a plain scalar"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(tc.text)}}, tc.values, testScheme(t))
			if err == nil {
				t.Fatalf("%s: no error, got %v", tc.reason, objects)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: error %q does not contain %q", tc.reason, err, want)
				}
			}
		})
	}
}

func TestAPlaceholderEndsWhereItsLineDoes(t *testing.T) {
	filled, err := replace("${A}$B${C}\n{${A}}", Values{"A": "1", "C": "3"})
	if err != nil || filled != "1$B3\n{1}" {
		t.Errorf("%q, %v", filled, err)
	}
	for text, wrong := range map[string]string{"x ${A\n}": `"${A" is not closed`, "${": `"${" is not closed`, "${A${C}": "unknown placeholder ${A${C}", "${}": "unknown placeholder ${}"} {
		if _, err := replace(text, Values{"A": "1", "C": "3"}); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDocumentsAreSplitByThreeDashesAlone(t *testing.T) {
	for text, want := range map[string][]string{
		"a: 1\n": {"a: 1\n"}, "# nothing\n": nil, "--- \na: 1\n---\t\n# nothing\n---\nb: ---\n": {"\na: 1\n", "\nb: ---\n"}, "a: |\n  x\n---b\n": {"a: |\n  x\n---b\n"},
	} {
		if diff := cmp.Diff(want, documents(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestLoadIntoIsStrictToo(t *testing.T) {
	folder := fstest.MapFS{"container.yaml": {Data: []byte("name: ${NAME}\nimagee: x\n")}}
	var container corev1.Container
	err := LoadInto(folder, "container.yaml", Values{"NAME": "x"}, &container)
	if err == nil || !strings.Contains(err.Error(), `unknown field "imagee"`) {
		t.Errorf("want an error that names the unknown field, got %v", err)
	}
	if err := LoadInto(folder, "absent.yaml", nil, &container); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("want an error that names the absent file, got %v", err)
	}
}

func TestPlaceholdersAreThoseOfTheFilesThatMatch(t *testing.T) {
	folder := fstest.MapFS{
		"b.yaml":      {Data: []byte("image: ${THIRD}\nname: ${FIRST}\n")},
		"a.yaml":      {Data: []byte("image: ${FIRST}\nname: ${SECOND}\nother: $(NOT) ${FIRST}\n")},
		"a.txt":       {Data: []byte("${TEXT}")},
		"more/c.yaml": {Data: []byte("${MORE}")},
	}
	if diff := cmp.Diff([]string{"FIRST", "SECOND", "THIRD"}, Placeholders(folder, "*.yaml")); diff != "" {
		t.Errorf("placeholders (-want +got):\n%s", diff)
	}
	if found := Placeholders(folder, "none/*.yaml"); len(found) > 0 {
		t.Errorf("files that are not there have the placeholders %v", found)
	}
}
