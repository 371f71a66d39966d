package collect

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// logs reads logs, and runs commands in containers.
type logs interface {
	// Pod returns the log of a container.
	Pod(ctx context.Context, of logFile, since time.Duration) (io.ReadCloser, error)
	// Kubelet returns the log of the kubelet on a node, from the node's journal.
	Kubelet(ctx context.Context, node string) (io.ReadCloser, error)
	// Run runs a command in a container.
	Run(ctx context.Context, pod *corev1.Pod, container string, command []string, out io.Writer) error
}

// mostBytes and mostLines limit each log in the archive.
const (
	mostBytes = 20 << 20
	mostLines = 50_000
)

// apiLogs reads logs through the API server.
type apiLogs struct {
	client kubernetes.Interface
	config *rest.Config
}

func newAPILogs(config *rest.Config) (apiLogs, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return apiLogs{}, fmt.Errorf("client for logs: %w", err)
	}
	return apiLogs{client, config}, nil
}

// Pod returns the last mostLines lines of the log of a container. It cuts them after mostBytes bytes.
func (l apiLogs) Pod(ctx context.Context, of logFile, since time.Duration) (io.ReadCloser, error) {
	options := &corev1.PodLogOptions{
		Container: of.container, Previous: of.previous, Timestamps: true, LimitBytes: new(int64(mostBytes)), TailLines: new(int64(mostLines)),
	}
	if since > 0 {
		options.SinceSeconds = new(int64(since / time.Second))
	}
	return l.client.CoreV1().Pods(of.pod.Namespace).GetLogs(of.pod.Name, options).Stream(ctx) //nolint:wrapcheck // The caller says of which.
}

// Kubelet returns the log of the kubelet. A kubelet serves its log only if Kubernetes' feature NodeLogQuery is on, as in OpenShift.
func (l apiLogs) Kubelet(ctx context.Context, node string) (io.ReadCloser, error) {
	//nolint:wrapcheck // The caller says of which node.
	return l.client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("logs", "journal").
		Param("unit", "kubelet").Param("tail", fmt.Sprint(mostLines)).Stream(ctx)
}
