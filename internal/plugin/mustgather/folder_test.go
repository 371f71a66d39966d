package mustgather_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

// files maps paths in a directory to contents.
type files map[string]string

// image is must-gather's subdirectory, named after its image.
const image = "quay-io-openshift-release-dev-ocp-v4-0-art-dev-sha256-0123/"

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, operatorv1.Install(scheme))
	// A kind without a Go type of ours.
	scheme.AddKnownTypeWithName(subscription(), &unstructured.Unstructured{})
	return scheme
}

func subscription() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}
}

func subscriptions() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(subscription().GroupVersion().WithKind("SubscriptionList"))
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, contents files) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range contents {
		path = filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func open(t *testing.T, contents files) *mustgather.Folder {
	t.Helper()
	folder, err := mustgather.Open(write(t, contents), scheme(t))
	must(t, err)
	return folder
}

// pod returns a manifest; node may be empty.
func pod(namespace, name, node string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {namespace: %s, name: %s, labels: {app: %s}}\n"+
		"spec: {nodeName: %q, serviceAccountName: of-%s}\n", namespace, name, name, node, name)
}

// names returns the "namespace/name" of all objects of a list.
func names(t *testing.T, reader client.Reader, list client.ObjectList, options ...client.ListOption) []string {
	t.Helper()
	must(t, reader.List(t.Context(), list, options...))
	return namesIn(t, list)
}

func TestObjectsAreFoundWhereverTheyAre(t *testing.T) {
	for name, test := range map[string]struct {
		files files
		list  client.ObjectList
		want  []string
	}{
		"an object without a namespace in a must-gather": {
			files{image + "cluster-scoped-resources/storage.k8s.io/csidrivers/efs.csi.aws.com.yaml": "---\n" +
				"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: efs.csi.aws.com}\n"},
			&storagev1.CSIDriverList{}, []string{"/efs.csi.aws.com"},
		},
		"a list of a kind in a must-gather": {
			files{image + "namespaces/b/apps/daemonsets.yaml": "apiVersion: apps/v1\nkind: DaemonSetList\nitems:\n" +
				"- {apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: b, name: second}}\n" +
				"- {apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: b, name: first}}\n"},
			&appsv1.DaemonSetList{}, []string{"b/first", "b/second"},
		},
		"items that do not say their kind": {
			files{"daemonsets.yaml": "apiVersion: apps/v1\nkind: DaemonSetList\nitems:\n- metadata: {namespace: b, name: first}\n"},
			&appsv1.DaemonSetList{}, []string{"b/first"},
		},
		"a pod in a folder of its own": {
			files{image + "namespaces/b/pods/p/p.yaml": pod("b", "p", "")}, &corev1.PodList{}, []string{"b/p"},
		},
		"what kubectl get -o yaml prints": {
			files{"all.yaml": "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n" +
				"- {apiVersion: v1, kind: Node, metadata: {name: worker}}\n- {apiVersion: v1, kind: Pod, metadata: {namespace: a, name: p}}\n"},
			&corev1.PodList{}, []string{"a/p"},
		},
		"what kubectl get -o json prints": {
			files{"all.json": `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"p"}}]}`},
			&corev1.PodList{}, []string{"a/p"},
		},
		"JSON that is no YAML, because of its escapes": {
			files{"pod.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"p","annotations":{"mood":"\ud83d\ude00"}}}`},
			&corev1.PodList{}, []string{"a/p"},
		},
		"a list in a list": {
			files{"all.yml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: PodList\n  items: [{metadata: {namespace: a, name: p}}]\n"},
			&corev1.PodList{}, []string{"a/p"},
		},
		"several documents in a file": {
			files{"all.YAML": "# two\n---\n" + pod("a", "p", "") + "--- # and\n" + pod("a", "q", "")}, &corev1.PodList{}, []string{"a/p", "a/q"},
		},
		"a kind whose type comes from another module": {
			files{"cr.yaml": "apiVersion: operator.openshift.io/v1\nkind: ClusterCSIDriver\nmetadata: {name: efs.csi.aws.com}\n"},
			&operatorv1.ClusterCSIDriverList{}, []string{"/efs.csi.aws.com"},
		},
		"items that do not say their kind, of a kind without a type": {
			files{"subscriptions.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: SubscriptionList\nitems:\n- metadata: {namespace: b, name: efs}\n"},
			subscriptions(), []string{"b/efs"},
		},
		"of a kind that is not asked for, nothing": {
			files{"all.yaml": pod("a", "p", "")}, &corev1.NodeList{}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := open(t, test.files)
			if diff := cmp.Diff(test.want, names(t, folder, test.list)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if skipped := folder.Skipped(); len(skipped) > 0 {
				t.Errorf("skipped: %q", skipped)
			}
		})
	}
}

func TestWhatIsNoObjectIsLeftAlone(t *testing.T) {
	folder := open(t, files{
		"pod.yaml":                            pod("a", "p", ""),
		image + "timestamp":                   "2026-01-01 00:00:00\n",
		image + "namespaces/a/p/current.log":  "apiVersion: v1\nkind: Pod\nmetadata: {namespace: a, name: log}\n",
		"values.yaml":                         "apiVersion: 1\nname: x\n",
		"text.yaml":                           "just words\n",
		"numbers.json":                        "[1, 2]",
		"empty.yaml":                          "",
		"widget.yaml":                         "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n",
		"widgets.yaml":                        "apiVersion: example.com/v1\nkind: WidgetList\nitems: [{metadata: {name: w}}]\n",
		"status.json":                         `{"apiVersion":"v1","kind":"Status","status":"Failure"}`,
		"future.yaml":                         "apiVersion: apps/v2\nkind: DaemonSet\nmetadata: {namespace: a, name: d}\n",
		"namespaces/a/core/nothing.yaml":      "apiVersion: v1\nkind: PodList\nitems: []\n",
		"namespaces/a/core/nothing-else.yaml": "apiVersion: v1\nkind: PodList\nitems: null\n",
	})
	if diff := cmp.Diff([]string{"a/p"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := names(t, folder, &appsv1.DaemonSetList{}); got != nil {
		t.Errorf("DaemonSets %q", got)
	}
	if skipped := folder.Skipped(); len(skipped) > 0 {
		t.Errorf("skipped: %q", skipped)
	}
}

func TestBrokenFilesAreSkippedAndNamed(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
	}{
		"no YAML":                  {"apiVersion: v1\nkind: Pod\nmetadata: {namespace: a\n", "bad.yaml: the file is not YAML: "},
		"broken after an object":   {pod("a", "q", "") + "---\n\tx: [", "bad.yaml: the file is not YAML: "},
		"a separator with words":   {pod("a", "q", "") + "---words\n", "bad.yaml: the file is not YAML: "},
		"half a file":              {`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"namespace":"a","na`, "bad.yaml: the file is not YAML: "},
		"a field of another type":  {"apiVersion: v1\nkind: Pod\nmetadata: {namespace: a, name: [q]}\n", "bad.yaml: a Pod can't be read: "},
		"an object without a name": {"apiVersion: v1\nkind: Pod\nmetadata: {namespace: a}\n", "bad.yaml: a Pod has no name"},
		"items that are none":      {"apiVersion: v1\nkind: PodList\nitems: many\n", "bad.yaml: the items of the PodList can't be read: "},
		"lists without an end": {
			strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 9) + strings.Repeat("]}", 9), "bad.yaml: lists are nested more than 4 deep",
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := open(t, files{"good.yaml": pod("a", "p", ""), "bad.yaml": test.text})
			if diff := cmp.Diff([]string{"a/p"}, names(t, folder, &corev1.PodList{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			skipped := folder.Skipped()
			if len(skipped) != 1 || !strings.HasPrefix(skipped[0], test.want) {
				t.Errorf("skipped %q, want an entry that begins with %q", skipped, test.want)
			}
		})
	}
}

func TestABrokenItemDoesNotTakeTheOthersWithIt(t *testing.T) {
	folder := open(t, files{"pods.yaml": "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {namespace: a, name: p}\n" +
		"- metadata: {namespace: a, name: q}\n  spec: {containers: none}\n- metadata: {namespace: a, name: r}\n"})
	if diff := cmp.Diff([]string{"a/p", "a/r"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if skipped := folder.Skipped(); len(skipped) != 1 {
		t.Errorf("skipped %q, want one", skipped)
	}
}

func TestOfTwoCopiesTheNewerCounts(t *testing.T) {
	copyOf := func(version, node string) string {
		return strings.Replace(pod("a", "p", node), "name: p,", fmt.Sprintf("name: p, resourceVersion: %q,", version), 1)
	}
	for name, test := range map[string]struct {
		first, second, want string
	}{
		"the newer is first":            {copyOf("10", "one"), copyOf("9", "two"), "one"},
		"the newer is second":           {copyOf("9", "one"), copyOf("10", "two"), "two"},
		"they are the same":             {copyOf("9", "one"), copyOf("9", "two"), "one"},
		"nobody can tell":               {pod("a", "p", "one"), pod("a", "p", "two"), "one"},
		"the version can't be compared": {copyOf("abc", "one"), copyOf("10", "two"), "one"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := open(t, files{"1/pods.yaml": test.first, "2/p.yaml": test.second})
			pods := &corev1.PodList{}
			must(t, folder.List(t.Context(), pods))
			if len(pods.Items) != 1 || pods.Items[0].Spec.NodeName != test.want {
				t.Errorf("got %d pods, want one on node %s: %v", len(pods.Items), test.want, pods.Items)
			}
		})
	}
}

func TestSameNamesOfOtherKindsAndNamespacesAreOtherObjects(t *testing.T) {
	folder := open(t, files{
		"1.yaml": pod("a", "x", ""), "2.yaml": pod("b", "x", ""),
		"3.yaml": "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {namespace: a, name: x}\n",
	})
	if diff := cmp.Diff([]string{"a/x", "b/x"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a/x"}, names(t, folder, &appsv1.DaemonSetList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFoldersThatCanNotBeUsedAreExplained(t *testing.T) {
	file := filepath.Join(write(t, files{"must-gather.tar.gz": "x"}), "must-gather.tar.gz")
	huge := write(t, files{"good.yaml": pod("a", "p", ""), "namespaces/a/core/pods.yaml": ""})
	must(t, os.Truncate(filepath.Join(huge, "namespaces/a/core/pods.yaml"), 65<<20))
	for name, test := range map[string]struct {
		dir  string
		want []string
	}{
		"missing":            {filepath.Join(t.TempDir(), "gone"), []string{"gone does not exist", "check the path"}},
		"an archive":         {file, []string{"must-gather.tar.gz: the archive is not a .tar.gz file"}},
		"empty":              {t.TempDir(), []string{"no object was found in its 0 YAML and JSON files", "oc adm must-gather"}},
		"only logs":          {write(t, files{"a.log": pod("a", "p", "")}), []string{"in its 0 YAML"}},
		"only unknown kinds": {write(t, files{"a.yaml": "apiVersion: example.com/v1\nkind: Widget\n"}), []string{"in its 1 YAML", "kubectl get -o yaml"}},
		"only broken files":  {write(t, files{"a.yaml": "x: ["}), []string{"1 could not be read, first a.yaml: the file is not YAML"}},
		"a file too large":   {huge, []string{"namespaces/a/core/pods.yaml has 65 MiB", "the limit is 64 MiB", "split it"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mustgather.Open(test.dir, scheme(t))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
		})
	}
}

func TestAFileThatIsLargeButNotTooLargeIsRead(t *testing.T) {
	text := pod("a", "p", "")
	folder := open(t, files{"pods.yaml": "#" + strings.Repeat("x", 1<<20) + "\n" + text})
	if diff := cmp.Diff([]string{"a/p"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSymbolicLinksDoNotLeadOutOfTheFolder(t *testing.T) {
	outside := write(t, files{"secret.yaml": pod("out", "file", ""), "deep/secret.yaml": pod("out", "folder", "")})
	dir := write(t, files{"p.yaml": pod("a", "p", ""), "deep/q.txt": pod("a", "q", "")})
	for link, target := range map[string]string{
		"absolute.yaml": filepath.Join(outside, "secret.yaml"),
		"relative.yaml": mustRelative(t, dir, filepath.Join(outside, "secret.yaml")),
		"folder":        filepath.Join(outside, "deep"),
		"folder.yaml":   filepath.Join(outside, "deep"),
		"inside.yaml":   filepath.Join("deep", "q.txt"),
		"around":        ".",
		"nowhere.yaml":  "missing.yaml",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	folder, err := mustgather.Open(dir, scheme(t))
	must(t, err)
	if diff := cmp.Diff([]string{"a/p", "a/q"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var skipped []string
	for _, entry := range folder.Skipped() {
		path, _, _ := strings.Cut(entry, ":")
		skipped = append(skipped, path)
	}
	if diff := cmp.Diff([]string{"absolute.yaml", "folder.yaml", "nowhere.yaml", "relative.yaml"}, skipped); diff != "" {
		t.Errorf("skipped, -want +got:\n%s", diff)
	}
}

func TestTheFolderItselfMayBeALink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "latest")
	must(t, os.Symlink(write(t, files{"p.yaml": pod("a", "p", "")}), link))
	folder, err := mustgather.Open(link, scheme(t))
	must(t, err)
	if diff := cmp.Diff([]string{"a/p"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSkippedCanNotBeChanged(t *testing.T) {
	folder := open(t, files{"good.yaml": pod("a", "p", ""), "bad.yaml": "x: ["})
	folder.Skipped()[0] = "changed"
	if skipped := folder.Skipped(); skipped[0] == "changed" {
		t.Errorf("skipped is %q", skipped)
	}
}

func TestAPipeIsNotWaitedFor(t *testing.T) {
	dir := write(t, files{"p.yaml": pod("a", "p", "")})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	folder, err := mustgather.Open(dir, scheme(t))
	must(t, err)
	if diff := cmp.Diff([]string{"a/p"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAFolderThatCanNotBeReadIsNamed(t *testing.T) {
	dir := write(t, files{"p.yaml": pod("a", "p", "")})
	const name = "bad\xff"
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		return // This file system has no such names, and nobody can make such a folder.
	}
	folder, err := mustgather.Open(dir, scheme(t))
	must(t, err)
	if skipped := folder.Skipped(); len(skipped) != 1 || !strings.HasPrefix(skipped[0], name+": ") {
		t.Errorf("skipped %q", skipped)
	}
	if diff := cmp.Diff([]string{"a/p"}, names(t, folder, &corev1.PodList{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func mustRelative(t *testing.T, from, to string) string {
	t.Helper()
	path, err := filepath.Rel(from, to)
	must(t, err)
	return path
}
