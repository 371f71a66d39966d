package env

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ask asks an address and returns the code; empty token: none is sent.
func Ask(ctx context.Context, url, token string, config *tls.Config) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, fmt.Errorf("request: %w", err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// A connection of its own, so that a changed TLS profile counts.
	httpClient := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// Trusting skips the check of a certificate that an operator has invented.
func Trusting(most uint16) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MaxVersion: most}
}

// FreeAddress returns a free address of this machine. Another process could take a port of 127.0.0.1 before the operator listens. A random one
// of 4 million loopback addresses avoids that.
func FreeAddress(ctx context.Context) (string, error) {
	host := net.IPv4(127, byte(64+rand.IntN(64)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host.String(), "0"))
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// Token is one of a ServiceAccount, for a day.
func (c *Cluster) Token(ctx context.Context, namespace, name string) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	day := int64(24 * 60 * 60)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	if err := c.Client.SubResource("token").Create(ctx, account, token); err != nil {
		return "", fmt.Errorf("token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	return token.Status.Token, nil
}
