package collect

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// nodePod returns a node pod of EFS.
func nodePod(daemonSet, container, node string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "drivers", Name: daemonSet + "-" + node, OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: daemonSet}},
		},
		Spec:   corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "proxy"}, {Name: container}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestWhoseTunnelsAreRead(t *testing.T) {
	pods := []corev1.Pod{
		nodePod("efs-csi-node", "csi-driver", "a", corev1.PodRunning), nodePod("efs-csi-node", "efs-plugin", "b", corev1.PodRunning),
		nodePod("efs-csi-node", "csi-driver", "c", corev1.PodPending), nodePod("ebs-csi-node", "csi-driver", "d", corev1.PodRunning),
		nodePod("aws-efs-csi-driver-node", "csi-driver", "e", corev1.PodRunning),
	}
	for nodes, want := range map[string]string{"": "a csi-driver, b efs-plugin, e csi-driver", "b d": "b efs-plugin", "x": ""} {
		var got []string
		for _, pod := range tunnelPods(pods, strings.Fields(nodes)) {
			got = append(got, pod.Spec.NodeName+" "+tunnelContainer(&pod))
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("nodes %q (-want +got):\n%s", nodes, diff)
		}
	}
}

// apiServer answers an exec as one of Kubernetes does: protocol v5.channel.k8s.io, the first byte of a frame is the channel
// (KEP-4006; client-go v0.36.3, tools/remotecommand/websocket.go).
func apiServer(t *testing.T, answers ...string) (apiLogs, *[]string) {
	t.Helper()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+"?"+r.URL.Query().Get("container")+" "+strings.Join(r.URL.Query()["command"], " "))
		if len(answers) == 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"pods \"n\" is forbidden","code":403}`))
			return
		}
		upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
		connection, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for _, frame := range answers {
			if err := connection.WriteMessage(websocket.BinaryMessage, []byte(frame)); err != nil {
				t.Error(err)
			}
		}
		_ = connection.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
		_ = connection.Close()
	}))
	t.Cleanup(server.Close)
	read, err := newAPILogs(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return read, &asked
}

func TestACommandInAPod(t *testing.T) {
	pod := nodePod("efs-csi-node", "csi-driver", "a", corev1.PodRunning)
	for name, tc := range map[string]struct {
		frames     []string
		said, fail string
	}{
		"it works":         {[]string{"\x01one ", "\x01two", "\x03" + `{"status":"Success"}`}, "one two", ""},
		"it fails":         {[]string{"\x01one", "\x03" + `{"status":"Failure","message":"command terminated with exit code 1"}`}, "one", "exit code 1"},
		"it is not lawful": {nil, "", "run a command in pod drivers/efs-csi-node-a: missing permission: create pods/exec -n drivers"},
	} {
		read, asked := apiServer(t, tc.frames...)
		var out bytes.Buffer
		err := read.Run(t.Context(), &pod, "csi-driver", []string{"cat", "/a b"}, &limited{to: &out, left: 100})
		if out.String() != tc.said || (err == nil) != (tc.fail == "") || (err != nil && !strings.Contains(err.Error(), tc.fail)) {
			t.Errorf("%s: said %q, error %v", name, out.String(), err)
		}
		if want := "/api/v1/namespaces/drivers/pods/efs-csi-node-a/exec?csi-driver cat /a b"; len(*asked) == 0 || (*asked)[0] != want {
			t.Errorf("%s: asked %q", name, *asked)
		}
	}
}

func TestWhatACommandSaysIsBounded(t *testing.T) {
	var kept bytes.Buffer
	to := &limited{to: &kept, left: 5}
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := to.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if kept.String() != "abcde" {
		t.Errorf("kept %q", kept.String())
	}
}

// The directory of the tunnels' state also has keys.
func TestNoKeyOfATunnelIsRead(t *testing.T) {
	for _, command := range tunnelCommands() {
		text := strings.Join(command, " ")
		if strings.Contains(text, "/etc/amazon") || strings.Contains(text, "/var/run/efs") && !strings.Contains(text, "-maxdepth 1 -type f ( -name fs-*") {
			t.Errorf("%s reads keys", text)
		}
	}
}
