// Package env gives tests a real control plane, the operator as a process of its own under its own ServiceAccount, and
// the words to say what is expected of them.
package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/test/env/stored"
	"github.com/csi-operators/csi-operators/test/env/sweep"
)

// Cluster is a running devcluster.
type Cluster struct {
	// Dir holds the cluster's state and logs.
	Dir string
	// Client is the administrator's; it reads from the API server, never from a cache.
	Client client.WithWatch
	Config *rest.Config
	Scheme *runtime.Scheme
	// Audit reads the audit log.
	Audit Audit
	// Operator is the program of bin/ that StartOperator runs.
	Operator string

	binary    string
	temporary string
	store     *stored.Store
	// left is what was in the cluster at the end of the last test that Unchanged has looked at.
	left Snapshot
	// spent says that no further test can use the cluster.
	spent bool
}

// Root is the repository's folder, found upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the repository: no folder above the working directory holds tools.mod")
		}
		dir = parent
	}
}

// Binary is the path of a program that make has built.
func Binary(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("bin/%s is missing: run 'make test', which builds it, or 'make bin/%s'", name, name)
	}
	return path, nil
}

// Start starts a devcluster with these flags of "devcluster up". It ends with this process at the latest.
func Start(ctx context.Context, flags ...string) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "devcluster-")
	if err != nil {
		return nil, fmt.Errorf("folder for the devcluster: %w", err)
	}
	cluster, err := StartIn(ctx, filepath.Join(dir, "state"), append(flags, "--owner-pid", strconv.Itoa(os.Getpid()))...)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	cluster.temporary = dir
	return cluster, nil
}

// StartIn starts a devcluster that keeps its state in dir and runs until it is stopped.
func StartIn(ctx context.Context, dir string, flags ...string) (*Cluster, error) {
	binary, err := Binary("devcluster")
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{Dir: dir, binary: binary, Operator: Program(OperatorName)}
	if _, err := cluster.run(ctx, append([]string{"up", "--dir", dir}, flags...)...); err != nil {
		return nil, err
	}
	if err := cluster.connect(); err != nil {
		return nil, errors.Join(err, cluster.Stop(ctx))
	}
	return cluster, nil
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("administrator's kubeconfig: %w", err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	if c.Scheme, err = kube.Scheme(); err != nil {
		return err
	}
	if c.Client, err = client.NewWithWatch(config, client.Options{Scheme: c.Scheme}); err != nil {
		return fmt.Errorf("administrator's client: %w", err)
	}
	c.Config = config
	if err := c.findEtcd(); err != nil {
		return err
	}
	c.Audit = Audit{File: filepath.Join(c.Dir, "audit.log")}
	return nil
}

// Kubeconfig is the administrator's.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "admin.kubeconfig") }

// Kubectl runs kubectl as the administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	kubectl, err := Binary("clients/kubectl")
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, kubectl, args...)
	command.Env = append(command.Environ(), c.kubectlEnvironment()...)
	return output(command)
}

// StopComponent ends one process of the control plane and leaves the others running.
func (c *Cluster) StopComponent(ctx context.Context, name string) error {
	_, err := c.run(ctx, "stop", "--dir", c.Dir, name)
	return err
}

// StartComponent starts a process that was stopped.
func (c *Cluster) StartComponent(ctx context.Context, name string) error {
	_, err := c.run(ctx, "start", "--dir", c.Dir, name)
	return err
}

// SaveSnapshot writes what etcd holds into a new file.
func (c *Cluster) SaveSnapshot(ctx context.Context, file string) error {
	_, err := c.run(ctx, "snapshot", "save", "--dir", c.Dir, file)
	return err
}

// RestoreSnapshot sets etcd back to what SaveSnapshot has saved, as OpenShift does. Only etcd and the API server are started anew.
func (c *Cluster) RestoreSnapshot(ctx context.Context, file string) error {
	c.store.Reset()
	_, err := c.run(ctx, "snapshot", "restore", "--dir", c.Dir, file)
	return err
}

// Stop takes the cluster down; no process and no file is left.
func (c *Cluster) Stop(ctx context.Context) error {
	if _, err := c.run(ctx, "down", "--dir", c.Dir); err != nil {
		return err
	}
	if c.temporary == "" {
		return nil
	}
	if err := os.RemoveAll(c.temporary); err != nil {
		return fmt.Errorf("remove the devcluster's folder: %w", err)
	}
	return nil
}

func (c *Cluster) run(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.binary, args...)
	// After SIGTERM, "up" takes the cluster down again. After SIGKILL, the cluster would go on running.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 30 * time.Second
	return output(command)
}

// output runs a command and returns its standard output.
func output(command *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	// A fifth of what the components of a cluster do is collecting garbage, and with one processor each they need a seventh less; and the tests keep
	// them busy.
	command.Env = append(command.Environ(), "GOGC=400", "GOMAXPROCS=1")
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(command.Path), strings.Join(command.Args[1:], " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// kubectlEnvironment makes kubectl use the cluster. The cluster's folder has the cache, because another cluster may get the same port.
func (c *Cluster) kubectlEnvironment() []string {
	return []string{"KUBECONFIG=" + c.Kubeconfig(), "KUBECACHEDIR=" + filepath.Join(c.Dir, "kubectl-cache")}
}

// findEtcd reads where etcd listens.
func (c *Cluster) findEtcd() error {
	state, err := c.state()
	if err != nil || state.Ports.Etcd == 0 {
		return fmt.Errorf("find etcd: state.json says no port (%w)", err)
	}
	c.store = &stored.Store{URL: fmt.Sprintf("http://127.0.0.1:%d", state.Ports.Etcd)}
	return nil
}

// Swept is the cluster as package sweep knows it.
func (c *Cluster) Swept() sweep.Cluster { return sweep.Cluster{Client: c.Client, Store: c.store} }
