package node

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/nodeimages"
)

const (
	registryAddress = "127.0.0.1:5055"
	// slow begins the tags that the registry thinks about for slowness before its first answer.
	slow     = "slow-"
	slowness = 10 * time.Second
)

// slowRegistry is at an address of the node's own loopback, which containerd asks without TLS.
type slowRegistry struct {
	mutex sync.Mutex
	made  int
	// asked are the first requests of the node for each tag.
	asked map[string]env.Span
}

// startRegistry serves the image of the EFS driver to the node, under any tag.
func startRegistry(t *testing.T) *slowRegistry {
	t.Helper()
	driver, err := nodeimages.Program("aws-efs-csi-driver")
	env.Must(t, err)
	found := &slowRegistry{asked: map[string]env.Span{}}
	all := registry.New()
	here, err := net.Listen("tcp", "127.0.0.1:0")
	env.Must(t, err)
	serve(t, here, all)
	to, err := name.NewTag(here.Addr().String()+"/efs:image", name.Insecure)
	env.Must(t, err)
	env.Must(t, remote.Write(to, driver, remote.WithContext(t.Context())))
	pid, err := suite.cluster.NodeProcess(suite.nodes[0])
	env.Must(t, err)
	there, err := listenInside(pid)
	env.Must(t, err)
	serve(t, there, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, tag, is := strings.Cut(r.URL.Path, "/v2/efs/manifests/"); is && !strings.Contains(tag, ":") {
			found.delay(r, tag)
			r.URL.Path = "/v2/efs/manifests/image"
		}
		all.ServeHTTP(w, r)
	}))
	return found
}

func serve(t *testing.T, listener net.Listener, handler http.Handler) {
	t.Helper()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// delay waits at the first request for a tag, and takes note of it.
func (s *slowRegistry) delay(r *http.Request, tag string) {
	s.mutex.Lock()
	_, known := s.asked[tag]
	began := uptime()
	if !known {
		s.asked[tag] = env.Span{From: began}
	}
	s.mutex.Unlock()
	if known || !strings.HasPrefix(tag, slow) {
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(slowness):
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.asked[tag] = env.Span{From: began, To: uptime()}
}

// tag returns a new tag, which the node has not pulled yet.
func (s *slowRegistry) tag(prefix string) string {
	s.made++
	return fmt.Sprintf("%s%d", prefix, s.made)
}

// pulled is when the node waited for an image.
func (s *slowRegistry) pulled(t *testing.T, tag string) env.Span {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.asked[tag]
	if found.To == 0 {
		t.Fatalf("the node has not pulled %s: %+v", tag, s.asked)
	}
	return found
}

// uptime is the time since the machine started, as the lines of the writer have it.
func uptime() float64 {
	var up float64
	text, _ := os.ReadFile("/proc/uptime")
	_, _ = fmt.Sscan(string(text), &up)
	return up
}
