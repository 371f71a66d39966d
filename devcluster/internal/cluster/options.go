// Package cluster starts, watches and removes one development cluster. The whole state of the cluster is in one directory.
package cluster

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/program"
)

// Names of the components. For each component, the devcluster binary has a hidden sub-command of that name.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
	StandIns          = "stand-ins"
	// Programs is the component that runs the programs of --program. It exists only if this flag is used.
	Programs = "programs"
	// Network is the component that connects the nodes with a kubelet. It also serves the API server and the cluster's DNS on the network of these
	// nodes. It runs only if the cluster has such nodes.
	Network = "network"
	// Node begins the name of the component that is the parent of a node's processes. The name of that node, which has a kubelet, follows.
	Node = "node-"
	// Containerd, Kubelet and KubeProxy run on each node with a kubelet.
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
	// Supervisor is the parent of all other components.
	Supervisor = "supervisor"
)

// host is the only address of this machine on which components listen.
const host = "127.0.0.1"

// Options configures a cluster to start.
type Options struct {
	// Profile says what the cluster looks like.
	Profile openshift.Profile `json:"profile"`
	// Port is the port of the API server. 0 means that devcluster chooses a free port.
	Port int `json:"port"`
	// OwnerPID is the ID of a process. When this process ends, the cluster stops. 0 means that there is no such process.
	OwnerPID int `json:"ownerPID,omitempty"`
	// EmulatedVersion is a Kubernetes version, such as 1.33. The control plane has the feature gates and APIs of this version. Empty means the
	// control plane's own version.
	EmulatedVersion string `json:"emulatedVersion,omitempty"`
	// Programs are programs that devcluster runs for pods. A program runs for each pod whose image is the Image of the program.
	Programs []program.Program `json:"programs,omitempty"`
}

// Validate returns the first fault of the options. The error names the flag.
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
		return fmt.Errorf("--emulated-version is %s, but no kubelet may be newer than the API server: omit --emulated-version or --real-nodes",
			o.EmulatedVersion)
	}
	if err := o.validateGates(); err != nil {
		return err
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

// marker returns the path of a file that identifies the directory of a devcluster. devcluster creates this file first, and locks it while the cluster
// runs.
func (l layout) marker() string { return l.path("devcluster.lock") }

func (l layout) state() string { return l.path("state.json") }

func (l layout) logs() string { return l.path("logs") }

func (l layout) programs() string { return l.path("programs") }

func (l layout) requests() string { return l.path("requests") }

func (l layout) adminKubeconfig() string { return l.path("admin.kubeconfig") }

func (l layout) kubeconfig(user string) string { return l.path(kubeconfigs, user+".kubeconfig") }

// KubectlCache returns the folder in which kubectl caches what it learns about the cluster of the kubeconfig file.
func KubectlCache(kubeconfig string) string {
	return filepath.Join(filepath.Dir(kubeconfig), "kubectl-cache")
}
