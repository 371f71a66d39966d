package faults

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
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csi-operators/csi-operators/test/env"
)

// proxy stands between one operator and the API server. It counts what passes and disturbs what it is told to.
type proxy struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy

	mutex   sync.Mutex
	disturb func(*http.Request) fault
	// passed are the requests that have reached the API server; no watches and no leases.
	passed []string
	// opened is how many watches were asked for.
	opened int
}

// fault answers a request in place of the API server. Forward sends it there all the same.
type fault func(w http.ResponseWriter, forward func(http.ResponseWriter))

func newProxy(t *testing.T, cluster *env.Cluster) *proxy {
	t.Helper()
	target, err := url.Parse(cluster.Config.Host)
	env.Must(t, err)
	trust, err := rest.TLSConfigFor(cluster.Config)
	env.Must(t, err)
	p := &proxy{forward: &httputil.ReverseProxy{
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

// kubeconfig is the operator's access through the proxy.
func (p *proxy) kubeconfig(t *testing.T, cluster *env.Cluster) string {
	t.Helper()
	direct, err := cluster.AccountKubeconfig(t.Context(), env.OperatorNamespace, env.OperatorName)
	env.Must(t, err)
	config, err := clientcmd.LoadFromFile(direct)
	env.Must(t, err)
	for _, access := range config.Clusters {
		access.Server = p.server.URL
		access.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	env.Must(t, clientcmd.WriteToFile(*config, file))
	return file
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	if isWatch(r) {
		p.opened++
	}
	var answer fault
	if p.disturb != nil {
		answer = p.disturb(r)
	}
	p.mutex.Unlock()
	forward := func(w http.ResponseWriter) {
		if isWork(r) {
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

// set replaces what disturbs, nil for nothing, and counts anew.
func (p *proxy) set(disturb func(*http.Request) fault) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.disturb, p.passed, p.opened = disturb, nil, 0
}

// work returns the requests that have reached the API server since set.
func (p *proxy) work() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return append([]string(nil), p.passed...)
}

// streams is how many watches were asked for since set.
func (p *proxy) streams() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.opened
}

// writes are those requests of work that write, in order of their names. How often the status is written and events are
// told depends on how fast pods start, so these are left out.
func (p *proxy) writes() []string {
	var found []string
	for _, request := range p.work() {
		if !strings.HasPrefix(request, http.MethodGet) && !strings.HasSuffix(request, "/status") && !strings.Contains(request, "/events") {
			found = append(found, request)
		}
	}
	sort.Strings(found)
	return found
}

// isWork is true for what the operator asks for to do its job: no watch, and nothing about leader election.
func isWork(r *http.Request) bool {
	return !isWatch(r) && !strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet }

// drop ends the connection without an answer.
func drop(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
}
