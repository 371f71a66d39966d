package collect

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/doctor"
	"github.com/csi-operators/csi-operators/internal/plugin/redact"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

// planted are objects with secrets in all possible places.
func planted() []string {
	return []string{
		"AKIAPLANTEDPLANTED01", "planted-password-1", "planted-password-2", "planted-password-3", "planted-token-4", "planted-key-5",
		"eyJwbGFudGVk.eyJwbGFudGVk.cGxhbnRlZA", "PLANTEDPRIVATEKEY", "planted-in-a-secret", "planted-in-an-error",
		"planted-of-vsphere-6",
	}
}

// canned returns logs with planted secrets.
type cannedLogs struct {
	asked []string
	since time.Duration
	// interrupt, if set, is called for the first log.
	interrupt func()
}

// Pod returns a log or an error.
func (c *cannedLogs) Pod(ctx context.Context, of logFile, since time.Duration) (io.ReadCloser, error) {
	c.asked, c.since = append(c.asked, of.name()), since
	if c.interrupt != nil {
		c.interrupt()
		return nil, ctx.Err()
	}
	if of.previous {
		return nil, errors.New("refused with token=planted-in-an-error")
	}
	return io.NopCloser(strings.NewReader(strings.Join([]string{
		"mounted fs-1234cdef",
		"key AKIAPLANTEDPLANTED01 and password=planted-password-1",
		`{"token":"planted-token-4"}`,
		"Authorization: Bearer eyJwbGFudGVk.eyJwbGFudGVk.cGxhbnRlZA",
		"-----BEGIN PRIVATE KEY-----", "PLANTEDPRIVATEKEY", "-----END PRIVATE KEY-----", "served",
	}, "\n"))), nil
}

// Kubelet returns a log.
func (c *cannedLogs) Kubelet(_ context.Context, node string) (io.ReadCloser, error) {
	c.asked = append(c.asked, "kubelet of "+node)
	return io.NopCloser(strings.NewReader("AWS_SECRET_ACCESS_KEY=planted-key-5\nMountVolume failed\npassword = \"a\\\" planted-of-vsphere-6\"\nvc1.password: planted-of-vsphere-6\n")), nil
}

// Run returns the output of a command in a pod.
func (c *cannedLogs) Run(_ context.Context, pod *corev1.Pod, container string, command []string, out io.Writer) error {
	c.asked = append(c.asked, command[0]+" in "+pod.Name+"/"+container)
	if command[0] == "grep" {
		return errors.New("refused with token=planted-in-an-error")
	}
	_, err := io.WriteString(out, `{"pid": 7, "cmd": ["efs-proxy"], "password": "planted-password-1"}`+"\n")
	return err
}

func objects() []client.Object {
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: "efs-csi-node"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: "efs-csi-node-a"}, Spec: corev1.PodSpec{NodeName: "a"}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: daemonSet.Name}}
	pod.Status.Phase = corev1.PodRunning
	pod.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "planted-password-3"}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
	pod.Spec.Containers = []corev1.Container{{
		Name: "csi-driver", Env: []corev1.EnvVar{{Name: "DB_PASSWORD", Value: "planted-password-2"}}, Args: []string{"--password=planted-password-1"},
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "csi-driver", RestartCount: 1}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "web-0"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "drivers", Name: "s"}, StringData: map[string]string{"a": "planted-in-a-secret"}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: "efs.csi.aws.com"}
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: "data"}}
	return []client.Object{daemonSet, pod, other, secret, class, pvc}
}

func with(read logs) func(*plugin.Plugin) *cobra.Command {
	return func(p *plugin.Plugin) *cobra.Command {
		return command(p, func(*plugin.Cluster) (logs, error) { return read, nil })
	}
}

// contentOf returns the files of an archive.
func contentOf(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(text)
	}
}

func TestTheArchiveHasNoSecretThatWasPlanted(t *testing.T) {
	t.Chdir(t.TempDir())
	cluster, read := plugintest.Cluster(t, objects()...), &cannedLogs{}
	result := plugintest.Run(t, cluster, "", with(read), "collect", "--node", "a", "--since", "1h")
	found := contentOf(t, "oc-storage-20260504-120000.tar.gz")
	var text strings.Builder
	text.WriteString(result.Text())
	for name, content := range found {
		text.WriteString(name + content)
	}
	for _, secret := range planted() {
		if strings.Contains(text.String(), secret) {
			t.Errorf("%s is in the archive or in what is printed", secret)
		}
	}
	for _, kept := range []string{"mounted fs-1234cdef", "served", "MountVolume failed", "provisioner: efs.csi.aws.com"} {
		if !strings.Contains(text.String(), kept) {
			t.Errorf("%s is not in the archive", kept)
		}
	}
	for _, what := range append(cluster.Reads, cluster.Writes...) {
		if strings.Contains(what, "Secret") {
			t.Errorf("%s", what)
		}
	}
	if len(cluster.Writes) > 0 || read.since != time.Hour {
		t.Errorf("it writes %q, and asks since %s", cluster.Writes, read.since)
	}
}

func TestAnArchiveOfADriver(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	cluster := plugintest.Cluster(t, objects()...)
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no right"))
	cluster.Fail = func(request string) error {
		switch request {
		case "list Node":
			return refused
		case "list CSINode":
			return errors.New("no answer")
		}
		return nil
	}
	result := plugintest.Run(t, cluster, "", with(&cannedLogs{}), "collect", "--file", "case.tar.gz", "--node", "a")
	var names []string
	found := contentOf(t, "case.tar.gz")
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	again := plugintest.Run(t, cluster, "", with(&cannedLogs{}), "collect", "--file", "case.tar.gz")
	left, err := filepath.Glob(".oc-storage*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	t.Chdir(here)
	golden.CompareText(t, "collect.txt", result.Text()+"-- files\n"+strings.Join(names, "\n")+"\n-- problems.txt\n"+found["case/problems.txt"])
	golden.CompareText(t, "collect-again.txt", again.Text())
}

// Names come from the API server. They must not place files outside of the unpacked archive.
func TestNoFileOfAnArchiveLiesElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	target, err := newArchive("case.tar.gz", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := &collection{archive: target}
	for _, name := range []string{"logs/../../evil", "/etc/evil", `logs\..\evil`, "..", "", "logs/good.log"} {
		if err := c.add(name, []byte("x")); err != nil {
			t.Error(err)
		}
	}
	if err := target.close(); err != nil {
		t.Fatal(err)
	}
	if found := contentOf(t, "case.tar.gz"); len(found) != 1 || found["case/logs/good.log"] != "x" || len(c.problems) != 5 {
		t.Errorf("files %q, problems %q", found, c.problems)
	}
}

// YAML folds long texts, so that a name and its value can be on two lines.
func TestAFoldedPasswordIsInNoArchive(t *testing.T) {
	t.Chdir(t.TempDir())
	for length := range 100 {
		name := fmt.Sprintf("case-%d.tar.gz", length)
		target, err := newArchive(name, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{"status": map[string]any{"message": strings.Repeat("x", length) + " login failed with password: planted-folded in " + strings.Repeat("a long text ", 9)}}
		c := &collection{archive: target, redactor: redact.New()}
		c.redactor.Object(object)
		if err := errors.Join(c.objects("objects/pod.yaml", []any{object}), target.close()); err != nil {
			t.Fatal(err)
		}
		if text := contentOf(t, name)[fmt.Sprintf("case-%d/objects/pod.yaml", length)]; strings.Contains(text, "planted") || !strings.Contains(text, redact.Hidden) {
			t.Errorf("%d: %s", length, text)
		}
	}
}

func TestAnInterruptedArchiveLeavesNothingBehind(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, end := context.WithCancel(t.Context())
	p := plugintest.Plugin(t, plugintest.Cluster(t, objects()...), "")
	err := run(ctx, p, p.Cluster, &cannedLogs{interrupt: end}, options{})
	want := "interrupted: no archive was written; run the command again"
	if err == nil || err.Error() != want || plugin.Code(err) != plugin.Unfinished {
		t.Errorf("%v, want %s", err, want)
	}
	left, err := os.ReadDir(".")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWrongFlagsWriteNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for want, line := range map[string][]string{
		"--since -1s: must not be negative": {"collect", "--since", "-1s"},
		"--file a.zip: must end in .tar.gz": {"collect", "--file", "a.zip"},
		`unexpected argument "everything"`:  {"collect", "everything"},
	} {
		got := plugintest.Run(t, plugintest.Cluster(t), "", with(&cannedLogs{}), line...)
		if got.Code != plugin.WrongUsage || got.Err.Error() != want {
			t.Errorf("%q: %s", line, got.Text())
		}
	}
	if got := plugintest.Run(t, plugintest.Cluster(t), "", with(&cannedLogs{}), "collect", "--file", "absent/a.tar.gz"); got.Code != plugin.Failed {
		t.Error(got.Text())
	}
}

func TestEventsOfDriversAndVolumesCount(t *testing.T) {
	event := func(namespace, kind, reason string) map[string]any {
		return map[string]any{"metadata": map[string]any{"namespace": namespace}, "involvedObject": map[string]any{"kind": kind}, "reason": reason}
	}
	for name, tc := range map[string]struct {
		event map[string]any
		want  bool
	}{
		"of a driver":       {event("drivers", "Pod", "Killing"), true},
		"of a PVC":          {event("my-project", "PersistentVolumeClaim", "Resizing"), true},
		"a mount":           {event("my-project", "Pod", "FailedMount"), true},
		"of an application": {event("my-project", "Pod", "BackOff"), false},
	} {
		if got := isAboutVolumes(tc.event, []string{"drivers"}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for _, reason := range doctor.Reasons() {
		if !isAboutVolumes(event("my-project", "Pod", reason), nil) {
			t.Errorf("doctor reads events with reason %s, and an archive has none", reason)
		}
	}
}

func TestNoKindHoldsSecrets(t *testing.T) {
	var found []string
	for _, kind := range kinds() {
		if kind.Kind == "Secret" || kind.Kind == "ConfigMap" || kind.Version == "" {
			found = append(found, kind.Kind)
		}
	}
	if diff := cmp.Diff([]string(nil), found); diff != "" {
		t.Errorf("kinds that may hold secrets (-want +got):\n%s", diff)
	}
}

func TestTheResultFollowsItsSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.tar.gz")
	if got := plugintest.Run(t, plugintest.Cluster(t), "", with(&cannedLogs{}), "collect", "--file", file, "-o", "json"); got.Code != 0 {
		t.Error(got.Text())
	}
}
