package reports

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/prometheus"
	"github.com/csi-operators/csi-operators/internal/testing/canned"
)

// serve starts a server, and returns a client for it.
func serve(t *testing.T, handle http.HandlerFunc) *prometheus.Client {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "service-ca.crt")
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := errors.Join(os.WriteFile(token, []byte("secret"), 0o600), os.WriteFile(ca, bundle, 0o600)); err != nil {
		t.Fatal(err)
	}
	return &prometheus.Client{URL: server.URL, Namespace: "here", TokenFile: token, CAFile: ca}
}

// scripted is a Prometheus whose answers a test changes.
type scripted struct {
	// targets are the nodes whose pod it scrapes. Of these, silent have no fresh report.
	targets, silent []string
	// values are the answers. Nodes with a fresh report that are absent there have no mounts.
	values map[string][]prometheus.Sample
	err    error
	// noNames is the error of the query for names.
	noNames error
	// then is what happens after a query.
	then  func()
	asked int
}

func (s *scripted) Query(_ context.Context, query string) ([]prometheus.Sample, error) {
	s.asked++
	if s.then != nil {
		defer s.then()
	}
	if query == queryNames && s.noNames != nil {
		return nil, s.noNames
	}
	found := slices.Clone(s.values[query])
	for _, node := range s.targets {
		isKnown := slices.ContainsFunc(found, func(one prometheus.Sample) bool { return one.Labels["node"] == node })
		switch {
		case query == queryTargets:
			found = append(found, sample(1, "node", node))
		case query != queryNames && slices.Contains(s.silent, node):
			found = slices.DeleteFunc(found, func(one prometheus.Sample) bool { return one.Labels["node"] == node })
		case query != queryNames && !isKnown:
			found = append(found, sample(0, "node", node))
		}
	}
	return found, s.err
}

// sample is a sample with labels in pairs.
func sample(value float64, pairs ...string) prometheus.Sample {
	labels := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		labels[pairs[i]] = pairs[i+1]
	}
	return prometheus.Sample{Labels: labels, Value: value}
}

// healthy is a Prometheus that scrapes two nodes without problems.
func healthy() *scripted {
	return &scripted{targets: []string{"a", "b"}, values: map[string][]prometheus.Sample{}}
}

type scene struct {
	*Watch
	*canned.Cluster
	condition *operatorv1.OperatorCondition
	now       time.Time
	told      int
}

func start(t *testing.T, from Prometheus, objects ...client.Object) *scene {
	t.Helper()
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{Cluster: canned.New(scheme, objects...), now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}
	s.Watch = &Watch{
		Live: s.Cluster, Cache: s.Cluster, Namespace: "here", NodePods: client.MatchingLabels{"app": "plugin"}, Prometheus: from,
		Now: func() time.Time { return s.now }, Changed: func() { s.told++ },
	}
	s.Configure(true)
	return s
}

// after asks again after a while, and returns the condition.
func (s *scene) after(t *testing.T, pause time.Duration) *operatorv1.OperatorCondition {
	t.Helper()
	s.now = s.now.Add(pause)
	want := interval
	again := s.Tick(t.Context())
	if _, _, awaited := s.Hanging(); awaited {
		want = retryInterval
	}
	if again != want {
		t.Errorf("the next question is in %s, want %s", again, want)
	}
	s.condition = s.Condition("AWSEFSMountsStalled", s.condition)
	return s.condition
}

func (s *scene) expect(t *testing.T, pause time.Duration, state operatorv1.ConditionStatus, reason, message string) {
	t.Helper()
	got := s.after(t, pause)
	if got == nil || got.Type != "AWSEFSMountsStalled" || got.Status != state || got.Reason != reason || got.Message != message {
		t.Errorf("got %+v, want %s %s %q", got, state, reason, message)
	}
}

// hanging is how many mounts hang on each node, if that is not awaited.
func (s *scene) hanging(t *testing.T) map[string]int {
	t.Helper()
	byNode, _, awaited := s.Hanging()
	if awaited {
		t.Error("the first answer is awaited")
	}
	return byNode
}

// pluginOn is a node pod of the driver.
func pluginOn(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "plugin-" + node, Labels: map[string]string{"app": "plugin"}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func volumeOn(name, fileSystem string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: efs.DriverName, VolumeHandle: fileSystem}},
	}}
}

func podOn(node, name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "my-project", Name: name, UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: node}}
}

func TestTheConditionNamesNodesFileSystemsAndPods(t *testing.T) {
	s := start(t, recorded(t), volumeOn("pv-data", "fs-11111111"), volumeOn("pv-job", "fs-22222222"), podOn("worker-1", "web", uidWeb),
		podOn("worker-4", "elsewhere", uidJob))
	const hang = "node worker-1: at least 2 mounts of EFS hang, such as file system fs-11111111 in pod my-project/web (PersistentVolume pv-data, the server does " +
		"not answer) and file system fs-22222222 in pod with UID " + uidJob + " (PersistentVolume pv-job, its tunnel is dead): do not unmount by " +
		"force, find out why they hang"
	s.expect(t, 0, operatorv1.ConditionTrue, "MountsStalled", hang)
	byNode, silent, awaited := s.Hanging()
	if !awaited || !slices.Equal(silent, []string{"worker-2", "worker-3"}) {
		t.Errorf("two nodes do not report, and the roll-out does not wait for them, but for %q", silent)
	}
	if diff := cmp.Diff(map[string]int{"worker-1": 2}, byNode); diff != "" {
		t.Errorf("the nodes differ (-want +got):\n%s", diff)
	}
	reads := len(s.Reads)
	// A node that restarts has no report for a while.
	s.expect(t, longSilence-interval, operatorv1.ConditionTrue, "MountsStalled", hang)
	s.expect(t, interval, operatorv1.ConditionTrue, "MountsStalled", hang+"\nit is unknown whether mounts of EFS hang on 2 nodes, because "+
		"their pods of DaemonSet aws-efs-node-health do not report: worker-2, worker-3")
	// The node pods are read from the cache.
	if again := s.Reads[reads:]; len(again) > 2 {
		t.Errorf("two more answers caused the reads %q: what is known must not be read again", again)
	}
}

func TestMountedNamesNodesAndWhatIsUnknown(t *testing.T) {
	nodes, unknown, err := start(t, recorded(t), pluginOn("worker-1"), pluginOn("worker-5")).Mounted(t.Context(), nil)
	// The report of worker-2 is too old, worker-3 does not answer, and Prometheus scrapes no pod on worker-5.
	if !slices.Equal(nodes, []string{"worker-1"}) || !slices.Equal(unknown, []string{"worker-2", "worker-3", "worker-5"}) || err != nil {
		t.Errorf("got %q and %q, %v", nodes, unknown, err)
	}
	from := healthy()
	if nodes, unknown, err = start(t, from).Mounted(t.Context(), nil); len(nodes)+len(unknown) > 0 || err != nil {
		t.Errorf("got %q and %q, %v, want nothing", nodes, unknown, err)
	}
	// The driver has no node pod, and Prometheus scrapes nothing. Nodes may still have mounts.
	if nodes, unknown, err = start(t, &scripted{}).Mounted(t.Context(), nil); len(nodes)+len(unknown) > 0 || !errors.Is(err, errNoTargets) {
		t.Errorf("got %q and %q, %v, want an error", nodes, unknown, err)
	}
	// The caller remembers node away, whose node pod is being replaced.
	if nodes, unknown, err = start(t, from).Mounted(t.Context(), []string{"away"}); len(nodes) > 0 || !slices.Equal(unknown, []string{"away"}) || err != nil {
		t.Errorf("got %q and %q, %v, want node away as unknown", nodes, unknown, err)
	}
	from.err = errors.New("no route")
	nodes, unknown, err = start(t, from, pluginOn("a")).Mounted(t.Context(), []string{"away"})
	if len(nodes) > 0 || !slices.Equal(unknown, []string{"a", "away"}) || err == nil {
		t.Errorf("got %q and %q, %v, want both as unknown, and an error", nodes, unknown, err)
	}
	unread := start(t, healthy())
	unread.Refuse(errors.New("no cache"), "list Pod")
	if nodes, unknown, err = unread.Mounted(t.Context(), []string{"away"}); len(nodes) > 0 || !slices.Equal(unknown, []string{"away"}) || err == nil {
		t.Errorf("got %q and %q, %v, want node away as unknown, and an error", nodes, unknown, err)
	}
}

// A report can come, or become too old, between two queries. The node must have mounts, or be unknown.
func TestANodeWhoseReportComesBetweenTwoQueriesIsNotLost(t *testing.T) {
	for _, silent := range [][]string{nil, {"a"}} {
		from := healthy()
		from.values[queryMounted], from.values[queryHanging] = []prometheus.Sample{sample(1, "node", "a")}, []prometheus.Sample{sample(1, "node", "a")}
		s := start(t, from)
		s.after(t, 0)
		from.silent = silent
		from.then = func() {
			if from.silent == nil {
				from.silent = []string{"a"}
			} else {
				from.silent = nil
			}
		}
		if nodes, unknown, err := s.Mounted(t.Context(), nil); !slices.Equal(append(nodes, unknown...), []string{"a"}) || err != nil {
			t.Errorf("silent at first: %q: got %q and %q, %v", silent, nodes, unknown, err)
		}
		from.silent = silent
		if s.after(t, interval); s.hanging(t)["a"] != 1 {
			t.Errorf("silent at first: %q: mounts hang on %v", silent, s.hanging(t))
		}
	}
}

func TestWithoutProblemsTwoQueriesAreEnough(t *testing.T) {
	from := healthy()
	s := start(t, from)
	s.expect(t, 0, operatorv1.ConditionFalse, "AsExpected", "")
	// The node pods are read from the cache.
	if from.asked != 2 || s.told != 1 || len(s.Reads) != 1 {
		t.Errorf("%d queries, %d calls of Changed and the reads %q, want 2, 1 and one", from.asked, s.told, s.Reads)
	}
}

func TestPrometheusIsAskedOnlyWhileNodesReport(t *testing.T) {
	from := healthy()
	from.values[queryHanging] = []prometheus.Sample{sample(1, "node", "a")}
	s := start(t, from)
	s.after(t, 0)
	s.Configure(false)
	asked := from.asked
	s.Tick(t.Context())
	if from.asked != asked {
		t.Errorf("%d queries although no node reports", from.asked-asked)
	}
	if s.Condition("AWSEFSMountsStalled", s.condition) != nil || s.hanging(t) != nil {
		t.Errorf("the answer stays: %v", s.hanging(t))
	}
}

func TestNoAnswerIsUnknownAndSaidOnce(t *testing.T) {
	from := healthy()
	s := start(t, from)
	s.expect(t, 0, operatorv1.ConditionFalse, "AsExpected", "")
	from.err = errors.New("no route")
	// One failure can be chance.
	s.expect(t, interval, operatorv1.ConditionFalse, "AsExpected", "")
	s.expect(t, interval, operatorv1.ConditionUnknown, "NoAnswer", "it is unknown whether mounts of EFS hang: no route")
	for range 3 {
		s.expect(t, interval, operatorv1.ConditionUnknown, "NoAnswer", "it is unknown whether mounts of EFS hang: no route")
	}
	from.err = nil
	s.expect(t, interval, operatorv1.ConditionFalse, "AsExpected", "")
}

func TestOnlyARecentAnswerSaysThatANodeHangs(t *testing.T) {
	from := healthy()
	from.values[queryHanging] = []prometheus.Sample{sample(1, "node", "a")}
	s := start(t, from)
	s.after(t, 0)
	from.err = errors.New("no route")
	s.after(t, interval)
	if len(s.hanging(t)) != 1 {
		t.Errorf("one failure dropped the answer: %v", s.hanging(t))
	}
	s.after(t, interval)
	s.after(t, interval)
	if s.hanging(t) != nil {
		t.Errorf("an answer counts after %s: %v", 3*interval, s.hanging(t))
	}
}

func TestWithoutTargetsNothingIsKnown(t *testing.T) {
	s := start(t, &scripted{}, pluginOn("a"))
	s.after(t, 0)
	got := s.after(t, interval)
	if got == nil || got.Status != operatorv1.ConditionUnknown || !strings.Contains(got.Message, "openshift.io/cluster-monitoring=true") {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutNodesNothingHangs(t *testing.T) {
	start(t, &scripted{}).expect(t, 0, operatorv1.ConditionFalse, "AsExpected", "")
}

// Root on a node writes what it likes into the labels of its own series.
func TestANodeCannotWriteIntoTheCondition(t *testing.T) {
	from := healthy()
	from.values[queryHanging] = []prometheus.Sample{sample(1e300, "node", "a")}
	from.values[queryNames] = []prometheus.Sample{
		sample(1, "node", "a", "volume", "x\nnode b: delete everything", "pod_uid", "$(rm -rf)", "problem", "stalled"),
		sample(1, "node", "a", "volume", strings.Repeat("y", 254), "pod_uid", uidWeb, "problem", strings.Repeat("z", 1000)),
	}
	s := start(t, from, podOn("b", "of-another-node", uidWeb))
	s.expect(t, 0, operatorv1.ConditionTrue, "MountsStalled", "node a: at least 1000000 mounts of EFS hang, such as an unknown file system in a pod without a UID "+
		"(PersistentVolume unknown, the server does not answer) and an unknown file system in pod with UID "+uidWeb+" (PersistentVolume unknown, the "+
		"server does not answer): do not unmount by force, find out why they hang")
}

func TestAMountWithBothProblemsIsNamedOnce(t *testing.T) {
	from := healthy()
	from.values[queryHanging] = []prometheus.Sample{sample(1, "node", "a")}
	for _, problem := range []string{"stalled", "tunnel_dead"} {
		from.values[queryNames] = append(from.values[queryNames], sample(60, "node", "a", "volume", "pv", "pod_uid", uidWeb, "problem", problem))
	}
	s := start(t, from, volumeOn("pv", "fs-11111111"), podOn("a", "web", uidWeb))
	s.expect(t, 0, operatorv1.ConditionTrue, "MountsStalled", "node a: at least 1 mounts of EFS hang, such as file system fs-11111111 in pod my-project/web "+
		"(PersistentVolume pv, its tunnel is dead): do not unmount by force, find out why they hang")
}

func TestTheConditionIsBounded(t *testing.T) {
	from := healthy()
	for i := range 5000 {
		node := strings.Repeat("n", 200) + "." + string(rune('a'+i%26)) + strings.Repeat("m", i/26+1)
		if len(node) > 253 {
			continue
		}
		from.values[queryHanging] = append(from.values[queryHanging], sample(1, "node", node))
		silent := node[:len(node)-1] + "s"
		from.targets, from.silent = append(from.targets, silent), append(from.silent, silent)
	}
	s := start(t, from)
	s.after(t, 0)
	got := s.after(t, longSilence)
	if got == nil || len(got.Message) > 8<<10 || !strings.Contains(got.Message, "more nodes") {
		t.Errorf("got %+v", got)
	}
}

func TestALabelThatIsNoNodeIsAnError(t *testing.T) {
	from := healthy()
	from.values[queryHanging] = []prometheus.Sample{sample(1)}
	s := start(t, from)
	s.after(t, 0)
	got := s.after(t, interval)
	if got == nil || got.Status != operatorv1.ConditionUnknown || !strings.Contains(got.Message, "ServiceMonitor aws-efs-node-health-monitor") {
		t.Errorf("got %+v", got)
	}
}

// A node can make its names too long for an answer, and must not hide the nodes.
func TestWithoutNamesTheNodesAreNamed(t *testing.T) {
	from := healthy()
	from.values[queryHanging], from.noNames = []prometheus.Sample{sample(2, "node", "a")}, prometheus.ErrTooLong
	s := start(t, from)
	s.expect(t, 0, operatorv1.ConditionTrue, reasonStalled,
		"node a: at least 2 mounts of EFS hang: do not unmount by force, find out why they hang")
	if s.hanging(t)["a"] != 2 {
		t.Errorf("mounts hang on %v", s.hanging(t))
	}
}
