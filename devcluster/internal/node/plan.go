// Package node runs nodes with a kubelet. A node is a process with its own namespaces, root, network and cgroups. This process runs containerd, a
// kubelet and a kube-proxy. When this process ends, whatever the signal, the kernel ends the node's PID namespace, and drops the node's mounts and
// network. Two things remain: the node's cgroups, whose name is in the cluster's state, and files in the cluster's directory.
package node

import (
	"fmt"
	"net/netip"
)

const (
	// MaxNodes is the largest number of nodes with a kubelet in a cluster. The cluster's network has no addresses for more nodes.
	MaxNodes = 15
	// plans is the largest number of clusters that can have nodes with a kubelet on one machine at the same time.
	plans = 32
	// linkPrefix begins the name of each cluster's link to this machine.
	linkPrefix = "devcluster"
	// APIPort is the port at which nodes and pods reach the API server. The address is Plan.API.
	APIPort = 6443
	// DNSAddress is the address of the Service of the cluster's DNS.
	DNSAddress = "172.30.0.10"
	// ServiceNetwork is the network with the addresses of all Services.
	ServiceNetwork = "172.30.0.0/16"
)

// Plan has the addresses of a cluster's nodes with a kubelet. The addresses come from a network for benchmarks (RFC 2544), which routers on the
// internet do not route.
type Plan struct {
	// Link is the name of this machine's network interface to the nodes.
	Link string `json:"link"`
	// Block is the network with all addresses of the plan. Its first /24 is for the nodes. Each further /24 is for the pods of one node.
	Block netip.Prefix `json:"block"`
	// Host is this machine's address on the network of the nodes.
	API netip.Addr `json:"api"`
	// Host is this machine's address.
	Host netip.Addr `json:"host"`
}

// NewPlan returns the plan with this number.
func NewPlan(number int) Plan {
	number %= plans
	block := netip.AddrFrom4([4]byte{198, byte(18 + number/16), byte(number % 16 * 16), 0})
	p := Plan{Link: fmt.Sprintf("%s%d", linkPrefix, number), Block: netip.PrefixFrom(block, 20)}
	p.API, p.Host = p.at(0, 1), p.at(0, 2)
	return p
}

// Node returns the address of a node with a kubelet.
func (p Plan) Node(index int) netip.Addr { return p.at(0, byte(10+index)) }

// Pods returns the network of the pods of a node with a kubelet.
func (p Plan) Pods(index int) netip.Prefix { return netip.PrefixFrom(p.at(byte(index+1), 0), 24) }

// nodes returns the network that connects the nodes.
func (p Plan) nodes() netip.Prefix { return netip.PrefixFrom(p.at(0, 0), 24) }

func (p Plan) at(third, fourth byte) netip.Addr {
	address := p.Block.Addr().As4()
	address[2] += third
	address[3] = fourth
	return netip.AddrFrom4(address)
}

// URL returns the URL at which nodes and pods reach the API server.
func (p Plan) URL() string { return fmt.Sprintf("https://%s:%d", p.API, APIPort) }

// Config is the configuration of a node, or of the network that connects the nodes. It is in a file, and the process gets the path of this file as an
// argument.
type Config struct {
	// Name is the name of the node.
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Nodes is the number of nodes with a kubelet.
	Nodes      int    `json:"nodes"`
	ProviderID string `json:"providerID,omitempty"`
	Plan       Plan   `json:"plan"`
	// Cgroup is the name of the cgroup of all nodes of the cluster.
	Cgroup string `json:"cgroup"`
	// Dir is the cluster's directory.
	Dir string `json:"dir"`
	// Machine says which programs and folders of this machine the node uses.
	Machine Machine `json:"machine"`
	// Trial means that the node belongs to no cluster. Such a node runs one container, and ends.
	Trial bool `json:"trial,omitempty"`
	// CA and CAKey are the files of the authority that signs the node's certificates.
	CA    string `json:"ca"`
	CAKey string `json:"caKey"`
	// ProxyKubeconfig is the path of kube-proxy's kubeconfig on this machine.
	ProxyKubeconfig string `json:"proxyKubeconfig"`
	// FeatureGates are the feature gates of the kubelet and of kube-proxy whose value is not the default.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Machine has what nodes with a kubelet use of this machine.
type Machine struct {
	// Executable is the path of the devcluster program. Programs is the folder with the programs that are built with devcluster.
	Executable string `json:"executable"`
	Programs   string `json:"programs"`
	Runc       string `json:"runc"`
	Busybox    string `json:"busybox"`
	// Firewall is the folder that contains iptables. CNI is the folder that contains the CNI plugins.
	Firewall string `json:"firewall"`
	CNI      string `json:"cni"`
	// Kernel says which kernel features exist and which are missing. It is for messages.
	Kernel []string `json:"kernel"`
	// CanRaisePriority means that a process has permission to lower its oom_score_adj (CAP_SYS_RESOURCE).
	CanRaisePriority bool `json:"canRaisePriority"`
}
