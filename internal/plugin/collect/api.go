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

// logs reads what no object has.
type logs interface {
	// Pod is the log of a container.
	Pod(ctx context.Context, of logFile, since time.Duration) (io.ReadCloser, error)
	// Kubelet is the journal of the kubelet of a node.
	Kubelet(ctx context.Context, node string) (io.ReadCloser, error)
	// Run runs a command in a container.
	Run(ctx context.Context, pod *corev1.Pod, container string, command []string, out io.Writer) error
}

// mostBytes and mostLines bound a log, so that an archive can be sent.
const (
	mostBytes = 20 << 20
	mostLines = 50_000
)

// live reads logs from a cluster.
type live struct {
	client kubernetes.Interface
	config *rest.Config
}

func newLive(config *rest.Config) (live, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return live{}, fmt.Errorf("client for logs: %w", err)
	}
	return live{client, config}, nil
}

// Pod is the log of a container.
func (l live) Pod(ctx context.Context, of logFile, since time.Duration) (io.ReadCloser, error) {
	options := &corev1.PodLogOptions{
		Container: of.container, Previous: of.previous, Timestamps: true, LimitBytes: new(int64(mostBytes)), TailLines: new(int64(mostLines)),
	}
	if since > 0 {
		options.SinceSeconds = new(int64(since / time.Second))
	}
	return l.client.CoreV1().Pods(of.pod.Namespace).GetLogs(of.pod.Name, options).Stream(ctx) //nolint:wrapcheck // The caller says of which.
}

// Kubelet is the journal of the kubelet, which kubelets serve where the node log query is on, as in OpenShift.
func (l live) Kubelet(ctx context.Context, node string) (io.ReadCloser, error) {
	//nolint:wrapcheck // The caller says of which node.
	return l.client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("logs", "journal").
		Param("unit", "kubelet").Param("tail", fmt.Sprint(mostLines)).Stream(ctx)
}
