package real

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// metricsPort is a port of a pod at which its metrics are offered over TLS.
type metricsPort struct {
	container, address string
}

// metrics are the ports of the pod's proxies. Each must be one that the rendered Service leads to.
func (p *pod) metrics(t *testing.T) (found []metricsPort) {
	t.Helper()
	for _, container := range p.spec.Containers {
		if !strings.Contains(container.Name, proxyName) {
			continue
		}
		port := container.Ports[0]
		if !p.v.leadsTo(port.Name) {
			t.Errorf("%s: no Service leads to port %s of %s", p.v, port.Name, container.Name)
		}
		found = append(found, metricsPort{container.Name, fmt.Sprintf("https://127.0.0.1:%d/metrics", port.ContainerPort)})
	}
	return found
}

// leadsTo reports whether a Service of the variant has a port of this name as its target.
func (v *variant) leadsTo(name string) bool {
	for _, object := range v.objects {
		var service corev1.Service
		if object.GetKind() != "Service" || convert(object, &service) != nil {
			continue
		}
		for _, port := range service.Spec.Ports {
			if port.TargetPort.StrVal == name {
				return true
			}
		}
	}
	return false
}

// check asks as Prometheus, as somebody else, and as nobody.
func (m metricsPort) check(t *testing.T, p *pod) {
	t.Helper()
	ctx := t.Context()
	prometheus, stranger := scrapers(t)
	err := p.await(ctx, "metrics of "+m.container, func() error {
		code, err := env.Ask(ctx, m.address, prometheus, env.Trusting(0))
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%s answers Prometheus with %d, want 200", m.container, code)
		}
		return err
	})
	env.Must(t, err)
	for token, want := range map[string]int{stranger: http.StatusForbidden, "": http.StatusUnauthorized, "junk": http.StatusUnauthorized} {
		code, err := env.Ask(ctx, m.address, token, env.Trusting(0))
		if err != nil || code != want {
			t.Errorf("%s: %s answers %d, want %d (%v)", p.v, m.container, code, want, err)
		}
	}
}

// scrapers returns the tokens of an account that may read metrics, as OpenShift's Prometheus, and of one that may not.
func scrapers(t *testing.T) (prometheus, stranger string) {
	t.Helper()
	ctx := t.Context()
	const reader, other = "metrics-reader", "stranger"
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: reader},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceDefault, Name: reader}},
	}
	for _, object := range []client.Object{role, binding, account(reader), account(other)} {
		env.Must(t, created(ctx, object))
	}
	var err error
	prometheus, err = suite.cluster.Token(ctx, metav1.NamespaceDefault, reader)
	env.Must(t, err)
	stranger, err = suite.cluster.Token(ctx, metav1.NamespaceDefault, other)
	env.Must(t, err)
	return prometheus, stranger
}

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
}

// created makes an object, unless a test before has.
func created(ctx context.Context, object client.Object) error {
	err := suite.cluster.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil || err == nil {
		return err
	}
	return suite.cluster.Client.Create(ctx, object)
}
