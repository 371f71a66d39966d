package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
)

// pollInterval is the time between two checks in a step of the start.
const pollInterval = 50 * time.Millisecond

// start starts the cluster step by step. It returns when the cluster is ready.
func (s *supervisor) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, StartLimit, fmt.Errorf("the cluster was not ready after %s", StartLimit))
	defer cancel()
	config, err := s.clientConfig()
	if err != nil {
		return err
	}
	install, err := openshift.NewInstaller(config, s.state.Options.Profile, s.state.URL, s.state.Network)
	if err != nil {
		return err
	}
	type step struct {
		title string
		run   func(context.Context) error
	}
	steps := []step{
		{"starting etcd", s.startEtcd},
		{"starting kube-apiserver at " + s.state.URL, func(ctx context.Context) error { return s.startAPIServer(ctx, config) }},
		// The garbage collector looks for kinds when it starts, and then only twice a minute. So the CRDs come first.
		{"creating the CRDs of OpenShift's resources", install.CRDs},
		{"starting the controllers and the scheduler", s.startControllers},
		{"creating namespaces, nodes and the cluster's configuration", install.Objects},
		{"waiting for nodes and service accounts", install.Wait},
	}
	if s.state.Network != nil {
		kernel := strings.Join(s.state.Machine.Kernel, ", ")
		title := fmt.Sprintf("starting the real nodes (%d); the kernel has %s", s.state.Options.Profile.RealNodes, kernel)
		steps = slices.Insert(steps, len(steps)-1, step{title, s.startNodes})
	}
	for _, step := range steps {
		if err := s.progress("%s", step.title); err != nil {
			return err
		}
		if err := step.run(ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	return nil
}

func (s *supervisor) startEtcd(ctx context.Context) error {
	if err := s.group.Start(s.layout.process(Etcd, s.state)); err != nil {
		return err
	}
	address := net.JoinHostPort(host, strconv.Itoa(s.state.Ports.Etcd))
	return poll(ctx, func(ctx context.Context) bool {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
}

func (s *supervisor) startAPIServer(ctx context.Context, config *rest.Config) error {
	if err := s.group.Start(s.layout.process(APIServer, s.state)); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return poll(ctx, func(ctx context.Context) bool { return answers(ctx, client, s.state.URL+"/readyz") })
}

func answers(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func (s *supervisor) startControllers(context.Context) error {
	names := []string{ControllerManager, Scheduler, Kwok, StandIns}
	if len(s.state.Options.Programs) > 0 {
		names = append(names, Programs)
	}
	for _, name := range names {
		if err := s.group.Start(s.layout.process(name, s.state)); err != nil {
			return err
		}
	}
	return nil
}

// startNodes starts the nodes with a kubelet, and the network that connects these nodes. The Node objects of these nodes already exist, and each
// kubelet finds its own Node object.
func (s *supervisor) startNodes(context.Context) error {
	profile := s.state.Options.Profile
	config := node.Config{
		Nodes: profile.RealNodes, Plan: *s.state.Network, Machine: *s.state.Machine, Cgroup: s.state.Cgroup, Dir: s.layout.dir,
		CA: s.layout.path(caFile), CAKey: s.layout.path(caKeyFile), ProxyKubeconfig: s.layout.kubeconfig(KubeProxy),
		FeatureGates: profile.FeatureGates,
	}
	if err := config.Write(Network); err != nil {
		return err
	}
	if err := s.group.Start(s.layout.process(Network, s.state)); err != nil {
		return err
	}
	for i, name := range profile.RealNodeNames() {
		config.Index, config.Name, config.ProviderID = i, name, profile.ProviderID(name)
		if err := config.Write(name); err != nil {
			return err
		}
		if err := s.group.Start(s.layout.process(Node+name, s.state)); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) clientConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.layout.kubeconfig(bootstrapUser))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of user %s: %w", bootstrapUser, err)
	}
	// Disable the client's own rate limit, because the server limits its clients.
	config.QPS = -1
	return config, nil
}

func poll(ctx context.Context, done func(context.Context) bool) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) { return done(ctx), nil })
}

// lastLine returns a phrase for a message that quotes the last line of a log. This line often gives the reason of a failure. After a crash, lastLine
// quotes the line above the stack trace, because that line gives the reason.
func lastLine(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	last := ""
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text != "" {
			last = text
		}
		if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
			break
		}
	}
	if last == "" {
		return ""
	}
	return "; it ends with: " + last
}
