package real

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// startProxy plays kube-rbac-proxy, of which no module is served. It obeys the rendered arguments, refuses those that are not in the list
// made from kube-rbac-proxy's source, and asks the API server under the same ServiceAccount. As there, a set of ciphers that HTTP/2 can't work
// with is an error of Go's server.
func (p *pod) startProxy(ctx context.Context, container corev1.Container) error {
	lists, err := parseLists()
	if err != nil {
		return err
	}
	list, found := listOf(lists, p.v.folder, container.Name)
	if !found {
		return errors.New("there is no list of the arguments of kube-rbac-proxy")
	}
	if err := errors.Join(list.check(container.Args)...); err != nil {
		return err
	}
	if err := p.servingCertificate(ctx, container); err != nil {
		return err
	}
	args, _, err := p.outside(container)
	if err != nil {
		return err
	}
	given := map[string]string{}
	for _, argument := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		given[name] = value
	}
	upstream, err := url.Parse(given["upstream"])
	if err != nil || upstream.Host == "" {
		return fmt.Errorf("--upstream=%s is no URL (%w)", given["upstream"], err)
	}
	config, err := serverConfig(given)
	if err != nil {
		return err
	}
	handler, err := p.guard(httputil.NewSingleHostReverseProxy(upstream))
	if err != nil {
		return err
	}
	return p.serve(ctx, given["secure-listen-address"], config, given["http2-disable"] != "true", handler)
}

// serverConfig is what the arguments say about TLS.
func serverConfig(given map[string]string) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(given["tls-cert-file"], given["tls-private-key-file"])
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
	}
	version, known := map[string]uint16{
		"VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11, "VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
	}[given["tls-min-version"]]
	if !known {
		return nil, fmt.Errorf("--tls-min-version=%s is no version of TLS", given["tls-min-version"])
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: version}
	suites := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	for name := range strings.SplitSeq(given["tls-cipher-suites"], ",") {
		i := slices.IndexFunc(suites, func(suite *tls.CipherSuite) bool { return suite.Name == name })
		switch {
		case i >= 0:
			config.CipherSuites = append(config.CipherSuites, suites[i].ID)
		case name != "":
			return nil, fmt.Errorf("--tls-cipher-suites: Go has no %s", name)
		}
	}
	return config, nil
}

// guard lets through who the API server says may get the path. It asks as k8s.io/apiserver does: who has the token, and whether they may.
func (p *pod) guard(handler http.Handler) (http.Handler, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "kube-rbac-proxy/0.20.0"
	asker, err := client.New(config, client.Options{Scheme: suite.cluster.Scheme})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if code := access(request, asker); code != http.StatusOK {
			http.Error(writer, http.StatusText(code), code)
			return
		}
		handler.ServeHTTP(writer, request)
	}), nil
}

// access is the code of the answer to a request, as the API server decides.
func access(request *http.Request, asker client.Client) int {
	token, found := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !found {
		return http.StatusUnauthorized
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := asker.Create(request.Context(), review); err != nil {
		return http.StatusInternalServerError
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized
	}
	decision := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: review.Status.User.Username, UID: review.Status.User.UID, Groups: review.Status.User.Groups,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: strings.ToLower(request.Method)},
	}}
	if err := asker.Create(request.Context(), decision); err != nil {
		return http.StatusInternalServerError
	}
	if !decision.Status.Allowed {
		return http.StatusForbidden
	}
	return http.StatusOK
}

// servingCertificate writes the files of the Secret that the stand-in of service-ca makes for the rendered Service.
func (p *pod) servingCertificate(ctx context.Context, container corev1.Container) error {
	for _, volume := range p.spec.Volumes {
		if volume.Secret == nil || len(container.VolumeMounts) != 1 || container.VolumeMounts[0].Name != volume.Name {
			continue
		}
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: env.OperatorNamespace, Name: volume.Secret.SecretName}
		err := env.Await(ctx, "Secret of volume "+volume.Name, func() error { return suite.cluster.Client.Get(ctx, key, secret) })
		if err != nil {
			return err
		}
		folder := filepath.Join(p.folder, volume.Name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		for name, content := range secret.Data {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("it mounts no Secret with a serving certificate, and nothing else")
}

// serve answers at an address until the pod ends; without TLS if config is nil.
func (p *pod) serve(ctx context.Context, address string, config *tls.Config, http2 bool, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("is another program at the pod's port? %w", err)
	}
	server := &http.Server{Handler: handler, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	if !http2 {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	p.servers = append(p.servers, server)
	failed := make(chan error, 1)
	go func() {
		if config == nil {
			failed <- server.Serve(listener)
			return
		}
		failed <- server.ServeTLS(listener, "", "")
	}()
	url := "http://" + localhost(address)
	if config != nil {
		url = "https://" + localhost(address)
	}
	// One that can't work with its configuration ends at once.
	var ended error
	err = env.Await(ctx, "answer at "+address, func() error {
		select {
		case ended = <-failed:
			return nil
		default:
		}
		_, err := env.Ask(ctx, url, "", env.Trusting(0))
		return err
	})
	return errors.Join(ended, err)
}

// localhost is where this machine reaches an address at which a server listens.
func localhost(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return net.JoinHostPort("127.0.0.1", port)
}
