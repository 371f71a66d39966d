package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Domain is the last part of the DNS name of every Service.
	Domain = "cluster.local"
	// timeToLive is how long a client may cache an answer, in seconds. It is short, because a Service that is deleted and created again gets another
	// address.
	timeToLive = 5
	// longestQuestion is the size limit of a question over UDP.
	longestQuestion = 512
	// answerLimit is how long the DNS waits for the cache, which is empty until the API server has answered. The limit is below 5 s, after which a
	// resolver asks again.
	answerLimit = 2 * time.Second
)

// errNoName means that a name does not exist. After every other error, the name may exist.
var errNoName = errors.New("there is no such name")

// dns replaces the cluster's DNS. It answers only questions about names of Services and names in the hosts file.
type dns struct {
	// cluster reads Services and EndpointSlices from a cache.
	cluster client.Reader
	address string
	hosts   string
}

func (d *dns) serve(ctx context.Context) error {
	packets, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", d.address)
	if err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	streams, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.address)
	if err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	go d.serveStreams(ctx, streams)
	question := make([]byte, longestQuestion)
	for {
		n, from, err := packets.ReadFrom(question)
		if err != nil {
			return fmt.Errorf("DNS: read a question: %w", err)
		}
		message := slices.Clone(question[:n])
		// Answer each question in its own goroutine, because one answer may wait for the cache, while another comes from the hosts file.
		go func() {
			if answer := d.answer(ctx, message); answer != nil {
				_, _ = packets.WriteTo(answer, from)
			}
		}()
	}
}

func (d *dns) serveStreams(ctx context.Context, listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = connection.Close() }()
			for {
				size := make([]byte, 2)
				if _, err := io.ReadFull(connection, size); err != nil {
					return
				}
				question := make([]byte, int(size[0])<<8|int(size[1]))
				if _, err := io.ReadFull(connection, question); err != nil {
					return
				}
				answer := d.answer(ctx, question)
				if _, err := connection.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
					return
				}
			}
		}()
	}
}

// answer returns the response to a message. If the message is no question, the result is nil.
func (d *dns) answer(ctx context.Context, message []byte) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(message)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	addresses, err := d.find(limited, strings.ToLower(strings.TrimSuffix(question.Name.String(), ".")))
	reply := dnsmessage.Header{
		ID: header.ID, Response: true, Authoritative: true,
		RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
	}
	switch {
	case errors.Is(err, errNoName):
		reply.RCode = dnsmessage.RCodeNameError
	case err != nil:
		// Do not answer that the name does not exist, because a resolver remembers this answer. After a server failure, the resolver asks again.
		reply.RCode = dnsmessage.RCodeServerFailure
		fmt.Fprintf(os.Stderr, "DNS: %s: %v\n", question.Name, err)
	}
	builder := dnsmessage.NewBuilder(nil, reply)
	builder.EnableCompression()
	err = errors.Join(builder.StartQuestions(), builder.Question(question), builder.StartAnswers())
	if question.Type == dnsmessage.TypeA || question.Type == dnsmessage.TypeALL {
		for _, address := range addresses {
			resource := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: timeToLive}
			err = errors.Join(err, builder.AResource(resource, dnsmessage.AResource{A: address.As4()}))
		}
	}
	answer, finish := builder.Finish()
	if err != nil || finish != nil {
		return nil
	}
	return answer
}

// find returns the addresses of a name. If there is no such name, the error is errNoName. After every other error, the name may exist.
func (d *dns) find(ctx context.Context, name string) ([]netip.Addr, error) {
	parts := strings.Split(strings.TrimSuffix(name, ".svc."+Domain), ".")
	if !strings.HasSuffix(name, ".svc."+Domain) || len(parts) < 2 {
		return d.host(name)
	}
	// The last two parts are the name and the namespace of a Service. If another part comes before these two, it is the hostname of a pod.
	pod, parts := parts[:len(parts)-2], parts[len(parts)-2:]
	service := &corev1.Service{}
	err := d.cluster.Get(ctx, client.ObjectKey{Namespace: parts[1], Name: parts[0]}, service)
	if apierrors.IsNotFound(err) || len(pod) > 1 {
		return nil, errNoName
	}
	if err != nil {
		return nil, fmt.Errorf("read Service %s/%s: %w", parts[1], parts[0], err)
	}
	if service.Spec.ClusterIP == corev1.ClusterIPNone || len(pod) > 0 {
		return d.endpoints(ctx, service, pod)
	}
	address, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		// A Service of type ExternalName has no address. This DNS does not support aliases.
		return nil, errNoName
	}
	return []netip.Addr{address}, nil
}

// endpoints returns the addresses of a Service's pods. If argument "pod" has a hostname, endpoints returns only the addresses of the pod with that
// hostname.
func (d *dns) endpoints(ctx context.Context, service *corev1.Service, pod []string) ([]netip.Addr, error) {
	all := &discoveryv1.EndpointSliceList{}
	selector := client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}
	if err := d.cluster.List(ctx, all, client.InNamespace(service.Namespace), selector); err != nil {
		return nil, fmt.Errorf("list the endpoints of Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	var addresses []netip.Addr
	for _, slice := range all.Items {
		for _, endpoint := range slice.Endpoints {
			if len(pod) > 0 && (endpoint.Hostname == nil || *endpoint.Hostname != pod[0]) {
				continue
			}
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
					addresses = append(addresses, address)
				}
			}
		}
	}
	if len(addresses) == 0 && len(pod) > 0 {
		return nil, errNoName
	}
	return addresses, nil
}

// host looks for a name in the hosts file.
func (d *dns) host(name string) ([]netip.Addr, error) {
	data, err := os.ReadFile(d.hosts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the names of hosts: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		for _, other := range words[1:] {
			if address, err := netip.ParseAddr(words[0]); err == nil && address.Is4() && strings.EqualFold(other, name) {
				return []netip.Addr{address}, nil
			}
		}
	}
	return nil, errNoName
}
