package openshift

import (
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	masterLabel       = "node-role.kubernetes.io/master"
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	workerLabel       = "node-role.kubernetes.io/worker"
	kubeletVersion    = "v1.36.3"
	// RealLabel is the label of nodes with a kubelet. KWOK and the stand-ins must not change such a node.
	RealLabel = "devcluster/real"
	// nodesPerSubnet is the number of nodes in each /24 of the nodes' network.
	nodesPerSubnet = 200
)

// nodes returns the nodes. KWOK simulates the fake nodes.
func (p Profile) nodes() []client.Object {
	var all []client.Object
	for i := range p.Nodes {
		all = append(all, p.node(i))
	}
	return all
}

func (p Profile) nodeName(index int) string {
	if masters := p.ControlPlaneNodes(); index >= masters {
		return fmt.Sprintf("worker-%d", index-masters)
	}
	return fmt.Sprintf("master-%d", index)
}

// RealNodeNames returns the names of the nodes with a kubelet. These are the last nodes of the cluster.
func (p Profile) RealNodeNames() []string {
	var all []string
	for i := p.Nodes - p.RealNodes; i < p.Nodes; i++ {
		all = append(all, p.nodeName(i))
	}
	return all
}

// ProviderID returns the ID that the cloud has for a node.
func (p Profile) ProviderID(name string) string {
	for i := range p.Nodes {
		if p.nodeName(i) == name && p.Platform == configv1.AWSPlatformType {
			return fmt.Sprintf("aws:///%s/i-%017x", p.zone(i), i+1)
		}
	}
	return ""
}

func (p Profile) node(index int) *corev1.Node {
	name, master, zone := p.nodeName(index), index < p.ControlPlaneNodes(), p.zone(index)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:           name,
			corev1.LabelOSStable:           "linux",
			corev1.LabelArchStable:         "amd64",
			corev1.LabelTopologyRegion:     p.Region,
			corev1.LabelTopologyZone:       zone,
			corev1.LabelInstanceTypeStable: "m6i.xlarge",
			"node.openshift.io/os_id":      "rhel",
		}},
		Status: corev1.NodeStatus{
			Capacity:    resources("4", "16Gi", "120Gi"),
			Allocatable: resources("3500m", "14Gi", "100Gi"),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", index/nodesPerSubnet, 10+index%nodesPerSubnet)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: kubeletVersion,
				ContainerRuntimeVersion: "cri-o://1.36.0", KernelVersion: "6.12.0", OSImage: "fake node of a devcluster",
			},
		},
	}
	node.Spec.ProviderID = p.ProviderID(name)
	if index >= p.Nodes-p.RealNodes {
		// The node's kubelet reports the status.
		node.Labels[RealLabel], node.Status = "true", corev1.NodeStatus{}
	}
	single := p.Topology == configv1.SingleReplicaTopologyMode
	if master {
		node.Labels[masterLabel], node.Labels[controlPlaneLabel] = "", ""
	}
	if master && !single {
		node.Spec.Taints = []corev1.Taint{{Key: masterLabel, Effect: corev1.TaintEffectNoSchedule}}
	}
	if !master || single {
		node.Labels[workerLabel] = ""
	}
	return node
}

// zone returns the zone of a node. The nodes are spread over three zones.
func (p Profile) zone(index int) string {
	letter := string("abc"[index%3])
	if p.Platform == configv1.AWSPlatformType {
		return p.Region + letter
	}
	return p.Region + "-" + letter
}

func resources(cpu, memory, storage string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(cpu),
		corev1.ResourceMemory:           resource.MustParse(memory),
		corev1.ResourceEphemeralStorage: resource.MustParse(storage),
		corev1.ResourcePods:             resource.MustParse("250"),
	}
}
