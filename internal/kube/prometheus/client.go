// Package prometheus asks the Prometheus of an OpenShift cluster for the present values of metrics of one namespace.
//
// Service thanos-querier answers for all Prometheus servers of the cluster. Its port 9092 returns only series of the namespace in the request. In
// this namespace, the client needs the permission to get pods.metrics.k8s.io (cluster-monitoring-operator f581865b,
// assets/thanos-querier/service.yaml, deployment.yaml and kube-rbac-proxy-secret.yaml). Port 9091 needs a permission for all namespaces.
//
// We tried Client with these settings of kube-rbac-proxy v0.19.1 and prom-label-proxy v0.11.1. Client gets no series of other namespaces. Without the
// permission, or for another namespace, the answer is 403. If a query names a namespace other than the Client's namespace, the answer is 400.
package prometheus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// Address is the address that Client asks in a cluster.
	Address = "https://thanos-querier.openshift-monitoring.svc:9092"
	// Token is the file with the token of the pod's ServiceAccount.
	Token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	// longest is the maximum length of an answer, in bytes. A sample takes about 200 bytes.
	longest = 4 << 20
	// longestError is the maximum number of bytes of an answer that an error quotes.
	longestError = 200
	timeout      = 30 * time.Second
)

// ErrTooLong means that an answer is longer than the Client reads.
var ErrTooLong = errors.New("the answer is too long")

// Client asks for metrics. Package cmd sets the fields.
type Client struct {
	// URL is the address of the server. Namespace is the namespace of the metrics.
	URL, Namespace string
	// TokenFile and CAFile are files with the client's token, and with the CA certificates of the server. Both change while the operator runs, so the
	// Client reads them for each request.
	TokenFile, CAFile string

	requests atomic.Int64
}

// Sample is the present value of a series.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Requests returns how many requests the Client has sent.
func (c *Client) Requests() int64 { return c.requests.Load() }

// Query evaluates a PromQL query whose result is a vector. It leaves out samples whose value is infinite or NaN.
func (c *Client) Query(ctx context.Context, query string) ([]Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := c.ask(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus at %s: %w", c.URL, err)
	}
	samples, err := parse(body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of Prometheus at %s: %w", c.URL, err)
	}
	return samples, nil
}

func (c *Client) ask(ctx context.Context, query string) ([]byte, error) {
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the ServiceAccount's token: %w", err)
	}
	bundle, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificates of services: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("file %s has no CA certificate", c.CAFile)
	}
	// Send a GET. For a POST, kube-rbac-proxy would check verb "create" (kube-rbac-proxy v0.19.1, pkg/proxy/proxy.go).
	values := url.Values{"namespace": {c.Namespace}, "query": {query}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/api/v1/query?"+values.Encode(), http.NoBody)
	if err != nil {
		return nil, err //nolint:wrapcheck // Query names the address.
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	// The server is in the cluster, so the client uses no proxy. The client follows no redirect, because a redirect would send the token to another
	// server.
	client := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.requests.Add(1)
	response, err := client.Do(request)
	if err != nil {
		return nil, reasonOf(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, longest+1))
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // Query names the address.
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %q", response.Status, strings.TrimSpace(string(body[:min(len(body), longestError)])))
	case len(body) > longest:
		return nil, ErrTooLong
	}
	return body, nil
}

// reasonOf returns the reason for a failed request. The reason contains neither the query nor ports, which would differ each time.
func reasonOf(err error) error {
	var failed *url.Error
	var network *net.OpError
	switch {
	case errors.As(err, &network):
		return fmt.Errorf("no connection: %s: %w", network.Op, network.Err)
	case errors.As(err, &failed):
		return failed.Err
	}
	return err
}

// answer is an answer to a query (Prometheus v3.15.0, web/api/v1/api.go Response and QueryData). A newer server may add fields.
type answer struct {
	Status string `json:"status"`
	// Warnings say why series are missing. Thanos Querier v0.42.4 answers with success and no series if it reaches no Prometheus.
	Warnings []string `json:"warnings"`
	Data     struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string `json:"metric"`
			// Value has two elements: the time in seconds, and the value as a text. A native histogram has field "histogram" instead of field "value".
			Value []json.RawMessage `json:"value"`
		} `json:"result"`
	} `json:"data"`
}

func parse(body []byte) ([]Sample, error) {
	var read answer
	if err := json.Unmarshal(body, &read); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if read.Status != "success" || read.Data.ResultType != "vector" {
		return nil, fmt.Errorf("status %q with result type %q, want status success with result type vector", clip(read.Status), clip(read.Data.ResultType))
	}
	if len(read.Data.Result) == 0 && len(read.Warnings) > 0 {
		return nil, fmt.Errorf("no series, and the warning %q", clip(read.Warnings[0]))
	}
	samples := make([]Sample, 0, len(read.Data.Result))
	for _, one := range read.Data.Result {
		if len(one.Value) != 2 {
			return nil, fmt.Errorf("a sample has %d elements, want two: time and value", len(one.Value))
		}
		var text string
		if err := json.Unmarshal(one.Value[1], &text); err != nil {
			return nil, fmt.Errorf("decode the value of a sample: %w", err)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("value %q of a sample is no number", clip(text))
		}
		// A pod can report such a value. Skip this sample, so that the samples of other pods still count.
		if math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		samples = append(samples, Sample{Labels: one.Metric, Value: value})
	}
	return samples, nil
}

func clip(text string) string { return text[:min(len(text), longestError)] }
