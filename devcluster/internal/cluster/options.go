// Package cluster starts, watches and removes one development cluster, whose whole state is one directory.
package cluster

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/program"
)

// Names of the components. Each is a hidden sub-command of the devcluster binary.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	StandIns          = "stand-ins"
	// Programs runs the programs of --program. It exists only with that flag.
	Programs = "programs"
	// Network connects the real nodes, and serves the API server and the cluster's DNS on their network. It runs only with real nodes.
	Network = "network"
	// Node, followed by the name of a real node, is the parent of the node's processes.
	Node = "node-"
	// Containerd, Kubelet and KubeProxy run on each real node.
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
	// Supervisor is the parent of the others.
	Supervisor = "supervisor"
)

// host is the only address that anything listens on.
const host = "127.0.0.1"

// Options configures a cluster to start.
type Options struct {
	// Profile is the shape of the cluster.
	Profile openshift.Profile `json:"profile"`
	// Port is the API server's; 0 means any free one.
	Port int `json:"port"`
	// OwnerPID is the process whose end stops the cluster; 0 means none.
	OwnerPID int `json:"ownerPID,omitempty"`
	// EmulatedVersion is the Kubernetes version, such as 1.33, whose feature gates and APIs the control plane has; empty means its own.
	EmulatedVersion string `json:"emulatedVersion,omitempty"`
	// Programs are run for pods of their images.
	Programs []program.Program `json:"programs,omitempty"`
}

// Validate returns the faults of the options, by flag.
func (o Options) Validate() error {
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port is %d: it must be between 0 (any free port) and 65535", o.Port)
	}
	if o.OwnerPID < 0 {
		return fmt.Errorf("--owner-pid is %d: it must be the ID of a running process", o.OwnerPID)
	}
	if o.EmulatedVersion != "" && !regexp.MustCompile(`^1\.[1-9][0-9]*$`).MatchString(o.EmulatedVersion) {
		return fmt.Errorf("--emulated-version is %s: it must be a minor version of Kubernetes, such as 1.33", o.EmulatedVersion)
	}
	if o.EmulatedVersion != "" && o.Profile.RealNodes > 0 {
		return fmt.Errorf("--emulated-version is %s, and no kubelet may be newer than the API server: leave it or --real-nodes out", o.EmulatedVersion)
	}
	if err := program.Validate(o.Programs); err != nil {
		return err
	}
	return o.Profile.Validate()
}

// layout has the paths in a cluster's directory.
type layout struct{ dir string }

func newLayout(dir string) (layout, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, fmt.Errorf("find the absolute path of --dir %s: %w", dir, err)
	}
	return layout{dir: absolute}, nil
}

func (l layout) path(elements ...string) string {
	return filepath.Join(append([]string{l.dir}, elements...)...)
}

// marker identifies a devcluster's directory. It is created first, and locked while the cluster runs.
func (l layout) marker() string { return l.path("devcluster.lock") }

func (l layout) state() string { return l.path("state.json") }

func (l layout) logs() string { return l.path("logs") }

func (l layout) programs() string { return l.path("programs") }

func (l layout) requests() string { return l.path("requests") }

func (l layout) adminKubeconfig() string { return l.path("admin.kubeconfig") }

func (l layout) kubeconfig(user string) string { return l.path(kubeconfigs, user+".kubeconfig") }

// KubectlCache is where kubectl caches what it learns about the cluster of the kubeconfig file.
func KubectlCache(kubeconfig string) string {
	return filepath.Join(filepath.Dir(kubeconfig), "kubectl-cache")
}
