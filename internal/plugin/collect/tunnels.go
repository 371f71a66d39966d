package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

const (
	// tunnelTimeout limits the time of one command in a node pod, because the pod's node can be down.
	tunnelTimeout = 20 * time.Second
	// tunnelBytes limits the output of one command, in bytes.
	tunnelBytes = 2 << 20
)

// tunnelContainers returns the two names that the container with efs-utils can have. The first name is from our DaemonSet and from OpenShift's
// DaemonSet. The second name is from the DaemonSet of the driver's Helm chart (aws-efs-csi-driver v3.4.1,
// charts/aws-efs-csi-driver/templates/node-daemonset.yaml).
func tunnelContainers() []string { return []string{"csi-driver", "efs-plugin"} }

// tunnelCommands returns commands that read the state of the tunnels of efs-utils. Each mount with TLS has a tunnel. The driver's image has find, cat
// and grep, and no shell (aws-efs-csi-driver v3.4.1, Dockerfile). The commands read the files with state and configuration. They do not read the
// folders with keys and certificates beside these files (efs-utils def6e74, src/efs_utils_common/proxy.py:166 and 435).
func tunnelCommands() [][]string {
	return [][]string{
		{
			"find", "/var/run/efs", "-maxdepth", "1", "-type", "f", "(", "-name", "fs-*", "-o", "-name", "stunnel-config.*", ")",
			"-print", "-exec", "cat", "{}", ";",
		},
		{"find", "/proc", "-maxdepth", "2", "-name", "cmdline", "-exec", "grep", "-asH", "-e", "efs-proxy", "-e", "stunnel", "{}", ";"},
		{"grep", "nfs", "/proc/mounts"},
		{"find", "/var/log/amazon/efs", "-type", "f", "-name", "*.log", "-print", "-exec", "cat", "{}", ";"},
	}
}

// tunnelPods returns the running node pods of EFS on the given nodes. Without nodes, it returns the running node pods of all nodes.
func tunnelPods(pods []corev1.Pod, nodes []string) []corev1.Pod {
	d := awsefs.Driver()
	names := []string{d.DaemonSet}
	for _, predecessor := range d.Predecessors {
		names = append(names, predecessor.DaemonSet)
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool {
		isNodePod := slices.ContainsFunc(pod.OwnerReferences, func(of metav1.OwnerReference) bool {
			return of.Kind == "DaemonSet" && slices.Contains(names, of.Name)
		})
		return !isNodePod || pod.Status.Phase != corev1.PodRunning || (len(nodes) > 0 && !slices.Contains(nodes, pod.Spec.NodeName))
	})
}

// tunnelContainer returns the name of the pod's container that has efs-utils. If no container has it, the name is empty.
func tunnelContainer(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if slices.Contains(tunnelContainers(), container.Name) {
			return container.Name
		}
	}
	return ""
}

// tunnels adds the state of the tunnels of one node.
func (c *collection) tunnels(ctx context.Context, pod *corev1.Pod) error {
	name := path.Join("tunnels", pod.Spec.NodeName+".txt")
	return c.log(ctx, name, func() (io.ReadCloser, error) {
		var out bytes.Buffer
		var problems []error
		for _, command := range tunnelCommands() {
			fmt.Fprintf(&out, "$ %v\n", command)
			if err := c.logs.Run(ctx, pod, tunnelContainer(pod), command, &limited{to: &out, left: tunnelBytes}); err != nil {
				problems = append(problems, err)
				fmt.Fprintf(&out, "error: %v\n", err)
			}
			out.WriteByte('\n')
		}
		if len(problems) == len(tunnelCommands()) {
			// All commands failed, most likely for the same reason. So return only the first error.
			return nil, problems[0]
		}
		return io.NopCloser(bytes.NewReader(bytes.ReplaceAll(out.Bytes(), []byte{0}, []byte{' '}))), nil
	})
}

// limited drops the output of a command beyond a limit, and does not stop the command. Stdout and stderr of one command share the limit.
type limited struct {
	mutex sync.Mutex
	to    io.Writer
	left  int
}

// Write reports that it has written all bytes, even if it has dropped some.
func (l *limited) Write(data []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	some := data[:min(len(data), l.left)]
	l.left -= len(some)
	if _, err := l.to.Write(some); err != nil {
		return 0, fmt.Errorf("store the output of a command: %w", err)
	}
	return len(data), nil
}

// Run runs a command in a container. Like kubectl, it uses a WebSocket, or SPDY if a proxy blocks WebSockets.
func (l apiLogs) Run(ctx context.Context, pod *corev1.Pod, container string, command []string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, tunnelTimeout)
	defer cancel()
	options := &corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true}
	url := l.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec).URL()
	executor, err := executorFor(l.config, url)
	if err == nil {
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: out})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = errors.New("the command did not end in time")
	case strings.Contains(err.Error(), "orbidden"):
		// If the API server refuses the handshake of a WebSocket, the error has only this text and no status object.
		err = fmt.Errorf("missing permission: %s", plugin.Right{Verb: "create", Resource: "pods/exec", Namespace: pod.Namespace})
	}
	return fmt.Errorf("run a command in pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

func executorFor(config *rest.Config, url *url.URL) (remotecommand.Executor, error) {
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller says of which pod.
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller says of which pod.
	}
	//nolint:wrapcheck // The caller says of which pod.
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
