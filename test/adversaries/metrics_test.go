package adversaries

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// junkTokens are sent by pods that nobody knows, each with an address of its own.
	junkTokens, junkSenders = 600, 4
	// mostReviews of tokens are asked for because of them: each sender has 20, and another one each second.
	mostReviews = junkTokens / 3
	// scrapes of Prometheus fall among them.
	scrapes = 10
)

// Each token that nobody knows would be a question to the API server, and would push what is known of Prometheus out of memory.
func TestJunkTokensCostLittleAndPrometheusIsAnswered(t *testing.T) {
	cluster := suite.cluster
	address, err := env.FreeAddress(t.Context())
	env.Must(t, err)
	operate(t, cluster, alone, "--metrics-secure=true", "--metrics-bind-address", address)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prometheus"}}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{account, role, binding} {
		env.Must(t, cluster.Client.Create(t.Context(), object))
	}
	token, err := cluster.Token(t.Context(), account.Namespace, account.Name)
	env.Must(t, err)
	senders := make([]*http.Client, 1+junkSenders)
	for i := range senders {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i))}}
		senders[i] = &http.Client{Transport: &http.Transport{
			TLSClientConfig: env.Trusting(tls.VersionTLS13), MaxIdleConnsPerHost: 64, DialContext: dialer.DialContext,
		}}
	}
	ask := func(sender int, token string) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			return 0, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := senders[sender].Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, err
	}
	env.Eventually(t, "Prometheus is answered", func() error {
		code, err := ask(0, token)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("code %d", code)
		}
		return err
	})

	mark := now(t)
	var codes [600]atomic.Int64
	env.Must(t, each(junkTokens, func(number int) error {
		if number%(junkTokens/scrapes) == 0 {
			if code, err := ask(0, token); err != nil || code != http.StatusOK {
				return fmt.Errorf("Prometheus was answered %d after %d junk tokens (%w)", code, number, err)
			}
		}
		code, err := ask(1+number%junkSenders, fmt.Sprintf("junk-%d", number))
		codes[code].Add(1)
		return err
	}))
	// A token that Prometheus has just been given is unknown, as junk is.
	fresh, err := cluster.Token(t.Context(), account.Namespace, account.Name)
	env.Must(t, err)
	env.Eventually(t, "Prometheus is answered with a new token", func() error {
		code, err := ask(0, fresh)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("code %d", code)
		}
		return err
	})
	counts := ""
	for code := range codes {
		if count := codes[code].Load(); count > 0 {
			counts += fmt.Sprintf(" %d: %d", code, count)
		}
	}
	if good := codes[http.StatusOK].Load(); good > 0 {
		t.Errorf("%d junk tokens were answered", good)
	}
	reviews := requests(t, mark, env.OperatorUser, func(r env.Request) bool { return r.Object.Resource == "tokenreviews" })
	t.Logf("%d junk tokens were answered by code:%s; %d reviews of tokens", junkTokens, counts, len(reviews))
	if len(reviews) > mostReviews {
		t.Errorf("%d tokens were reviewed because of %d junk tokens, at most %d are allowed", len(reviews), junkTokens, mostReviews)
	}
}
