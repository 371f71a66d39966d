package env

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Proxy stands between one operator and the API server. It counts what passes and disturbs what a test wants disturbed.
type Proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy

	mutex   sync.Mutex
	disturb func(*http.Request) Fault
	// passed are the requests that have reached the API server; no watches and no leases.
	passed []string
	// opened is how many watches were asked for.
	opened int
}

// Fault answers a request in place of the API server. Forward sends it there all the same.
type Fault func(w http.ResponseWriter, forward func(http.ResponseWriter))

// NewProxy starts a proxy that stops at the end of the test.
func NewProxy(t *testing.T, cluster *Cluster) *Proxy {
	t.Helper()
	target, err := url.Parse(cluster.Config.Host)
	Must(t, err)
	trust, err := rest.TLSConfigFor(cluster.Config)
	Must(t, err)
	p := &Proxy{forward: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{TLSClientConfig: trust, MaxIdleConnsPerHost: 100},
		// The events of a watch must not wait for one another.
		FlushInterval: -1,
		// A connection that ends is what this is about.
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	// A connection that is dropped shall hit one request.
	p.server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS13}
	p.server.StartTLS()
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Kubeconfig is the access of the operator of a namespace through the proxy.
func (p *Proxy) Kubeconfig(t *testing.T, cluster *Cluster, namespace string) string {
	t.Helper()
	return p.KubeconfigOf(t, cluster, namespace, OperatorName)
}

// KubeconfigOf is the access of any account through the proxy.
func (p *Proxy) KubeconfigOf(t *testing.T, cluster *Cluster, namespace, account string) string {
	t.Helper()
	direct, err := cluster.AccountKubeconfig(t.Context(), namespace, account)
	Must(t, err)
	config, err := clientcmd.LoadFromFile(direct)
	Must(t, err)
	for _, access := range config.Clusters {
		access.Server = p.server.URL
		access.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	Must(t, clientcmd.WriteToFile(*config, file))
	return file
}

// ServeHTTP forwards or disturbs a request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	if IsWatch(r) {
		p.opened++
	}
	var answer Fault
	if p.disturb != nil {
		answer = p.disturb(r)
	}
	p.mutex.Unlock()
	forward := func(w http.ResponseWriter) {
		if IsWork(r) {
			p.mutex.Lock()
			p.passed = append(p.passed, r.Method+" "+r.URL.Path)
			p.mutex.Unlock()
		}
		p.forward.ServeHTTP(w, r)
	}
	if answer == nil {
		forward(w)
		return
	}
	answer(w, forward)
}

// Disconnect breaks all connections, those of streams too.
func (p *Proxy) Disconnect() { p.server.CloseClientConnections() }

// Set replaces what disturbs, nil for nothing, and counts anew.
func (p *Proxy) Set(disturb func(*http.Request) Fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.disturb, p.passed, p.opened = disturb, nil, 0
}

// KillAt kills an operator at its n-th request that matches, never if n is negative, and drops the connection of that one, which arrives at
// the API server or does not. Who learns that the kill is certain has to wait for the operator's end. After another Set, the answer is final.
func (p *Proxy) KillAt(match func(*http.Request) bool, n int, arrives bool, kill func()) (certain func() bool) {
	var killed atomic.Bool
	p.Set(func(r *http.Request) Fault {
		if !match(r) {
			return nil
		}
		if n--; n != 0 {
			return nil
		}
		// Set it first: otherwise the operator could be killed after a reader has seen false.
		killed.Store(true)
		return func(w http.ResponseWriter, forward func(http.ResponseWriter)) {
			if arrives {
				forward(httptest.NewRecorder())
			}
			kill()
			Drop(w)
		}
	})
	return killed.Load
}

// Work returns the requests that have reached the API server since Set.
func (p *Proxy) Work() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return append([]string(nil), p.passed...)
}

// Streams is how many watches were asked for since Set.
func (p *Proxy) Streams() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.opened
}

// Writes are those requests of Work that write, in order of their names. How often the status is written and events are
// told depends on how fast pods start, so these are left out.
func (p *Proxy) Writes() []string {
	var found []string
	for _, request := range p.Work() {
		if !strings.HasPrefix(request, http.MethodGet) && !strings.HasSuffix(request, "/status") && !strings.Contains(request, "/events") {
			found = append(found, request)
		}
	}
	sort.Strings(found)
	return found
}

// IsWork is true for what the operator asks for to do its job: no watch, and nothing about leader election.
func IsWork(r *http.Request) bool {
	return !IsWatch(r) && !strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
}

// IsWatch is true for a stream of events.
func IsWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// IsWrite is true for a request that may change the cluster.
func IsWrite(r *http.Request) bool { return r.Method != http.MethodGet }

// Drop ends the connection without an answer.
func Drop(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
}
