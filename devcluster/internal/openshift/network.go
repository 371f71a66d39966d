package openshift

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
)

const (
	dnsNamespace = "openshift-dns"
	dnsService   = "dns-default"
)

// realNodes returns the objects that pods on nodes with a kubelet need. These are the namespace and the Service of the DNS, the EndpointSlices of the
// DNS and of the API server, and the policy that gives users to pods. The DNS and the API server do not run in pods, so no selector of a Service can
// find them.
func realNodes(plan *node.Plan) []client.Object {
	if plan == nil {
		return nil
	}
	ports := []corev1.ServicePort{
		{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53},
		{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53},
	}
	return append(constraints(),
		namespace(dnsNamespace),
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: dnsNamespace, Name: dnsService},
			Spec:       corev1.ServiceSpec{ClusterIP: node.DNSAddress, Ports: ports},
		},
		endpoints(dnsNamespace, dnsService, plan.API,
			discoveryv1.EndpointPort{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolUDP), Port: ptr.To[int32](53)},
			discoveryv1.EndpointPort{Name: ptr.To("dns-tcp"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](53)}),
		endpoints("default", "kubernetes", plan.API,
			discoveryv1.EndpointPort{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](node.APIPort)}),
	)
}

func endpoints(namespace, service string, address netip.Addr, ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: service,
			Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "devcluster"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}},
		Ports: ports,
	}
}
