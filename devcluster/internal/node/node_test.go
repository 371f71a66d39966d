package node

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPlansDoNotOverlap(t *testing.T) {
	all := map[netip.Prefix]bool{}
	network := netip.MustParsePrefix("198.18.0.0/15")
	for i := range plans {
		p := NewPlan(i)
		if !network.Contains(p.Block.Addr()) || p.Block != p.Block.Masked() || all[p.Block] {
			t.Errorf("plan %d has the block %s", i, p.Block)
		}
		all[p.Block] = true
		if !p.Block.Contains(p.Node(MaxNodes-1)) || !p.Block.Overlaps(p.Pods(MaxNodes-1)) || p.nodes().Overlaps(p.Pods(0)) {
			t.Errorf("plan %d: node %s and pods %s are not of %s", i, p.Node(MaxNodes-1), p.Pods(MaxNodes-1), p.Block)
		}
	}
}

func TestAnArchiveOfSeveralNamesIsLoadedOnce(t *testing.T) {
	got, err := ParseArchives([]string{"quay.io/a:1=x.tar", "all.tar", "quay.io/b@sha256:1=x.tar", "/tmp/a=b.tar"})
	want := []Archive{{File: "x.tar", Names: []string{"quay.io/a:1", "quay.io/b@sha256:1"}}, {File: "all.tar"}, {File: "/tmp/a=b.tar"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, %s", err, diff)
	}
	for _, wrong := range []string{"", "=x.tar", "name="} {
		if _, err := ParseArchives([]string{wrong}); err == nil {
			t.Errorf("%q is no archive", wrong)
		}
	}
}

// services is a cluster with a Service, one without an IP of its own, and the endpoints of that.
type services struct{}

func (services) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if key.Name == "unknown" {
		return errors.New("the API server does not answer")
	}
	addresses := map[string]string{"web": "172.30.0.7", "headless": corev1.ClusterIPNone}
	address, known := addresses[key.Name]
	if !known || key.Namespace != "apps" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, key.Name)
	}
	service := object.(*corev1.Service)
	service.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	service.Spec.ClusterIP = address
	return nil
}

func (services) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if _, limited := ctx.Deadline(); !limited {
		return errors.New("a question may wait for the cache for ever")
	}
	name := "db-0"
	list.(*discoveryv1.EndpointSliceList).Items = []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{
		{Addresses: []string{"198.18.1.4"}, Hostname: &name}, {Addresses: []string{"198.18.1.5"}},
	}}}
	return nil
}

func TestNamesOfServicesAreAnswered(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("# clouds\n198.18.0.2 Cloud.example other.example\n::1 ipv6.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &dns{cluster: services{}, hosts: hosts}
	for name, want := range map[string][]string{
		"web.apps.svc.cluster.local.":           {"172.30.0.7"},
		"WEB.apps.svc.cluster.local.":           {"172.30.0.7"},
		"headless.apps.svc.cluster.local.":      {"198.18.1.4", "198.18.1.5"},
		"db-0.headless.apps.svc.cluster.local.": {"198.18.1.4"},
		"cloud.example.":                        {"198.18.0.2"},
		"web.other.svc.cluster.local.":          nil,
		"svc.cluster.local.":                    nil,
		"elsewhere.example.":                    nil,
		"ipv6.example.":                         nil,
		"db-9.headless.apps.svc.cluster.local.": nil,
	} {
		code := dnsmessage.RCodeSuccess
		if want == nil {
			code = dnsmessage.RCodeNameError
		}
		assertAnswer(t, d, name, want, code)
	}
	assertAnswer(t, d, "unknown.apps.svc.cluster.local.", nil, dnsmessage.RCodeServerFailure)
	d.hosts = filepath.Dir(hosts)
	assertAnswer(t, d, "cloud.example.", nil, dnsmessage.RCodeServerFailure)
	d.hosts = filepath.Join(d.hosts, "missing")
	assertAnswer(t, d, "cloud.example.", nil, dnsmessage.RCodeNameError)
	if answer := d.answer(context.Background(), []byte("no question")); answer != nil {
		t.Errorf("got the answer %q to what is no question", answer)
	}
}

func assertAnswer(t *testing.T, d *dns, name string, want []string, wantCode dnsmessage.RCode) {
	t.Helper()
	got, code := ask(t, d, name)
	if diff := cmp.Diff(want, got); diff != "" || code != wantCode {
		t.Errorf("%s: code %s, want %s; -want +got:\n%s", name, code, wantCode, diff)
	}
}

func ask(t *testing.T, d *dns, name string) ([]string, dnsmessage.RCode) {
	t.Helper()
	question := dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
	}}
	packed, err := question.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var answer dnsmessage.Message
	if err := answer.Unpack(d.answer(context.Background(), packed)); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, resource := range answer.Answers {
		all = append(all, netip.AddrFrom4(resource.Body.(*dnsmessage.AResource).A).String())
	}
	return all, answer.RCode
}
