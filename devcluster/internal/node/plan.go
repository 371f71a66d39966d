// Package node runs real nodes. A node is a process with namespaces, a root, a network and cgroups of its own, and runs containerd, a kubelet and a
// kube-proxy. When that process ends, by whatever signal, the kernel ends its PID namespace, and drops its mounts and its network. Left are cgroups,
// whose name the cluster knows, and files in the cluster's directory.
package node

import (
	"fmt"
	"net/netip"
)

const (
	// MaxNodes is the largest number of real nodes: a cluster has no addresses for more.
	MaxNodes = 15
	// plans is the largest number of clusters with real nodes on one machine.
	plans = 32
	// linkPrefix begins the name of each cluster's link to this machine.
	linkPrefix = "devcluster"
	// APIPort is where nodes and pods reach the API server, at the address Plan.API.
	APIPort = 6443
	// DNSAddress is the address of the Service of the cluster's DNS.
	DNSAddress = "172.30.0.10"
	// ServiceNetwork has the addresses of all Services.
	ServiceNetwork = "172.30.0.0/16"
)

// Plan has the addresses of a cluster's real nodes, from a network for benchmarks (RFC 2544), which the internet does not route.
type Plan struct {
	// Link is this machine's network interface to the nodes.
	Link string `json:"link"`
	// Block has all addresses: a /24 for the nodes, then a /24 for the pods of each node.
	Block netip.Prefix `json:"block"`
	// API is where nodes and pods reach the API server and the DNS.
	API netip.Addr `json:"api"`
	// Host is this machine's address.
	Host netip.Addr `json:"host"`
}

// NewPlan returns the plan of that number.
func NewPlan(number int) Plan {
	number %= plans
	block := netip.AddrFrom4([4]byte{198, byte(18 + number/16), byte(number % 16 * 16), 0})
	p := Plan{Link: fmt.Sprintf("%s%d", linkPrefix, number), Block: netip.PrefixFrom(block, 20)}
	p.API, p.Host = p.at(0, 1), p.at(0, 2)
	return p
}

// Node is the address of a real node.
func (p Plan) Node(index int) netip.Addr { return p.at(0, byte(10+index)) }

// Pods is the network of the pods of a real node.
func (p Plan) Pods(index int) netip.Prefix { return netip.PrefixFrom(p.at(byte(index+1), 0), 24) }

// nodes is the network that joins the nodes.
func (p Plan) nodes() netip.Prefix { return netip.PrefixFrom(p.at(0, 0), 24) }

func (p Plan) at(third, fourth byte) netip.Addr {
	address := p.Block.Addr().As4()
	address[2] += third
	address[3] = fourth
	return netip.AddrFrom4(address)
}

// URL is where nodes and pods reach the API server.
func (p Plan) URL() string { return fmt.Sprintf("https://%s:%d", p.API, APIPort) }

// Config is the configuration of a node, or of the network that connects the nodes. Its file is the process' only argument.
type Config struct {
	// Name is the node's.
	Name  string `json:"name"`
	Index int    `json:"index"`
	// Nodes is how many real nodes there are.
	Nodes      int    `json:"nodes"`
	ProviderID string `json:"providerID,omitempty"`
	Plan       Plan   `json:"plan"`
	// Cgroup is the name of the cgroup of all nodes of the cluster.
	Cgroup string `json:"cgroup"`
	// Dir is the cluster's directory.
	Dir string `json:"dir"`
	// Machine has the programs and folders of this machine that the node uses.
	Machine Machine `json:"machine"`
	// Trial is set for a node without a cluster, which runs one container and ends.
	Trial bool `json:"trial,omitempty"`
	// CA and CAKey are the files of the authority that signs the node's certificates.
	CA    string `json:"ca"`
	CAKey string `json:"caKey"`
	// ProxyKubeconfig is the kubeconfig for kube-proxy on this machine.
	ProxyKubeconfig string `json:"proxyKubeconfig"`
}

// Machine has what real nodes use of their machine.
type Machine struct {
	// Executable is the devcluster program, Programs the folder of the programs that are built with it.
	Executable string `json:"executable"`
	Programs   string `json:"programs"`
	Runc       string `json:"runc"`
	Busybox    string `json:"busybox"`
	// Firewall is the folder of iptables, CNI that of the CNI plugins.
	Firewall string `json:"firewall"`
	CNI      string `json:"cni"`
	// Kernel lists kernel features that exist or are missing, for messages.
	Kernel []string `json:"kernel"`
	// CanRaisePriority says that a process may lower its oom_score_adj (CAP_SYS_RESOURCE).
	CanRaisePriority bool `json:"canRaisePriority"`
}
