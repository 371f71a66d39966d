package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	containerregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/csi-operators/csi-operators/internal/release/image"
)

// The login of both registries.
const user, password = "me", "right"

// authority is a CA of the registry alone: machines do not trust it by default.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// text is the certificate in PEM format.
	text []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of the rehearsal"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// serving is a certificate for an address.
func (a *authority) serving(address net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "registry"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{address}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// registry is a registry that asks for a login.
type registry struct {
	host, port string
	authority  *authority
	handler    http.Handler
	servers    []*http.Server
	// refused counts requests without the login, and tags the manifests requested by tag. pulled has the manifests requested by digest.
	refused, tags atomic.Int64
	pulled        sync.Map
}

// newRegistry starts a registry that listens on loopback, and keeps its blobs in a folder.
func newRegistry(a *authority, folder string) (*registry, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	handler := containerregistry.New(
		containerregistry.Logger(log.New(io.Discard, "", 0)), containerregistry.WithBlobHandler(containerregistry.NewDiskBlobHandler(folder)),
	)
	r := &registry{authority: a, handler: handler}
	address, err := r.listen("127.0.0.1", "0")
	if err != nil {
		return nil, err
	}
	r.host = address
	_, r.port, err = net.SplitHostPort(address)
	return r, err
}

// listen also serves the registry at another address. It returns the address with the port.
func (r *registry) listen(address, port string) (string, error) {
	certificate, err := r.authority.serving(net.ParseIP(address))
	if err != nil {
		return "", err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(address, port))
	if err != nil {
		return "", fmt.Errorf("registry: %w", err)
	}
	// The registry of go-containerregistry v0.22.1 holds a lock while it reads a blob (pkg/registry/blobs.go). In HTTP/2, the blobs that wait for the
	// lock use up the window of the connection, so that no byte of the first one arrives any more.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	server := &http.Server{
		Protocols: &protocols, Handler: r, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
	r.servers = append(r.servers, server)
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return listener.Addr().String(), nil
}

// close ends all servers. No request writes a blob afterwards.
func (r *registry) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var problems []error
	for _, server := range r.servers {
		problems = append(problems, server.Shutdown(ctx))
	}
	r.servers = nil
	return errors.Join(problems...)
}

// ServeHTTP serves who has logged in, and remembers what nodes pull.
func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if _, given, _ := request.BasicAuth(); given != password {
		r.refused.Add(1)
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if image, reference, is := strings.Cut(request.URL.Path, "/manifests/"); is && strings.HasPrefix(request.UserAgent(), "containerd") {
		if strings.HasPrefix(reference, "sha256:") {
			r.pulled.Store(strings.TrimPrefix(image, "/v2/"), true)
		} else {
			r.tags.Add(1)
		}
	}
	r.handler.ServeHTTP(w, request)
}

// images is how many images nodes have pulled by digest. It is an error if they have pulled one by tag.
func (r *registry) images() (int, error) {
	count := 0
	r.pulled.Range(func(any, any) bool { count++; return true })
	if tags := r.tags.Load(); tags > 0 {
		return count, fmt.Errorf("nodes have asked %d times for an image by tag", tags)
	}
	return count, nil
}

// openRegistry starts the first registry, logs in, and puts there what others publish: stand-ins, with the programs of test/node in them.
func (r *rehearsal) openRegistry(ctx context.Context) (err error) {
	if r.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := os.WriteFile(r.file("ca.pem"), r.authority.text, 0o600); err != nil {
		return err
	}
	if r.first, err = newRegistry(r.authority, r.file("first")); err != nil {
		return err
	}
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	if err := os.WriteFile(r.file("config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, r.first.host, auth), 0o600); err != nil {
		return err
	}
	r.say("A registry with a login and a certificate of its own CA: %s. It has copies of the images of others.", r.first.host)
	return r.putOthers(ctx)
}

// options are those of a client that has logged in and trusts the CA.
func (r *rehearsal) options(ctx context.Context) ([]remote.Option, error) {
	transport, err := image.Transport(r.file("ca.pem"))
	login := &authn.Basic{Username: user, Password: password}
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(transport), remote.WithAuth(login)}, err
}

// push pushes an image, or an index, and returns its pull spec by digest.
func (r *rehearsal) push(ctx context.Context, pullSpec string, what remote.Taggable) (string, error) {
	tag, err := name.NewTag(pullSpec)
	if err != nil {
		return "", err
	}
	options, err := r.options(ctx)
	if err != nil {
		return "", err
	}
	var digest v1.Hash
	switch what := what.(type) {
	case v1.ImageIndex:
		if err := remote.WriteIndex(tag, what, options...); err != nil {
			return "", err
		}
		digest, err = what.Digest()
	case v1.Image:
		if err := remote.Write(tag, what, options...); err != nil {
			return "", err
		}
		digest, err = what.Digest()
	}
	return tag.Context().Name() + "@" + digest.String(), err
}

// pull reads an image for this machine. When the first registry is switched off, it asks the mirror instead, as a node does.
func (r *rehearsal) pull(ctx context.Context, pullSpec string) (v1.Image, error) {
	if r.off {
		pullSpec = strings.Replace(pullSpec, r.first.host+"/", r.mirror.host+"/", 1)
	}
	reference, err := name.ParseReference(pullSpec)
	if err != nil {
		return nil, err
	}
	options, err := r.options(ctx)
	if err != nil {
		return nil, err
	}
	return remote.Image(reference, options...)
}
