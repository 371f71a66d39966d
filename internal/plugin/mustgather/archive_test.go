package mustgather_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

func pack(t *testing.T, contents files) string {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for name, text := range contents {
		must(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg, ModTime: time.Unix(5000, 0)}))
		_, err := archive.Write([]byte(text))
		must(t, err)
	}
	must(t, archive.Close())
	must(t, zip.Close())
	path := filepath.Join(t.TempDir(), "case.tar.gz")
	must(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

func TestAnArchiveIsReadWithoutUnpacking(t *testing.T) {
	long := strings.Repeat("x", 300<<10) + "\nlast line\n"
	contents := files{
		"case/objects/a/pod.yaml": pod("a", "p", ""), "case/logs/a/p/csi-driver.log": long,
		"must/namespaces/b/pods/q/main/main/logs/current.log": "of must-gather\n", "must/namespaces/b/pods/q/main/main/logs/previous.log": "no",
	}
	for name, path := range map[string]string{"archive": pack(t, contents), "folder": write(t, contents)} {
		folder, err := mustgather.Open(path, scheme(t))
		must(t, err)
		if diff := cmp.Diff([]string{"a/p"}, names(t, folder, &corev1.PodList{})); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
		if log := folder.Log("a", "p", "csi-driver"); !strings.HasSuffix(log, "\nlast line\n") || len(log) > 256<<10 {
			t.Errorf("%s: a log has %d bytes", name, len(log))
		}
		if got := folder.Log("b", "q", "main") + folder.Log("b", "q", "other"); got != "of must-gather\n" {
			t.Errorf("%s: the log is %q", name, got)
		}
		if at := folder.Time(); name == "archive" && at.Unix() != 5000 || at.IsZero() {
			t.Errorf("%s: the time is %s", name, at)
		}
	}
}

func TestABrokenArchiveIsAnError(t *testing.T) {
	good, err := os.ReadFile(pack(t, files{"case/objects/a/pod.yaml": pod("a", strings.Repeat("p", 2000), "")}))
	must(t, err)
	for name, data := range map[string][]byte{"text": []byte("no archive"), "cut": good[:len(good)-20], "empty": nil} {
		path := filepath.Join(t.TempDir(), name+".tar.gz")
		must(t, os.WriteFile(path, data, 0o600))
		if _, err := mustgather.Open(path, scheme(t)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	path := filepath.Join(t.TempDir(), "other.zip")
	must(t, os.WriteFile(path, good, 0o600))
	if _, err := mustgather.Open(path, scheme(t)); err == nil || !strings.Contains(err.Error(), "neither a folder nor a .tar.gz file") {
		t.Errorf("a file of another kind: %v", err)
	}
}

// Without a list of contents, one object of a kind in a namespace shows that the kind was gathered there.
func TestAFolderKnowsWhatItLacks(t *testing.T) {
	pods, nodes := schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Kind: "Node"}
	one := files{"a.yaml": pod("a", "p", "") + "---\napiVersion: v1\nkind: Node\nmetadata: {name: worker}\n"}
	listed := files{"a.yaml": one["a.yaml"], "contents.json": `{"namespaces": ["b"], "kinds": [{"kind": "Pod", "scope": "InNamespaces"}, {"kind": "Event", "scope": "Everywhere"}]}`}
	for name, tc := range map[string]struct {
		files     files
		kind      schema.GroupKind
		namespace string
		want      bool
	}{
		"pods of a namespace with pods":     {one, pods, "a", false},
		"pods of a namespace without pods":  {one, pods, "b", true},
		"pods of all namespaces":            {one, pods, "", false},
		"a kind of the cluster":             {one, nodes, "", false},
		"a kind without objects":            {one, schema.GroupKind{Kind: "Event"}, "", true},
		"listed, in a listed namespace":     {listed, pods, "b", false},
		"listed, in another namespace":      {listed, pods, "a", true},
		"listed, everywhere":                {listed, schema.GroupKind{Kind: "Event"}, "a", false},
		"not listed, although one is there": {listed, nodes, "", true},
	} {
		if got := open(t, tc.files).Lacks(tc.kind, tc.namespace); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
