package prometheus

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const namespace = "openshift-cluster-csi-drivers"

// serve starts a server with a certificate, and returns a Client for it.
func serve(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &Client{URL: server.URL, Namespace: namespace, TokenFile: write("token", []byte("secret\n")), CAFile: write("service-ca.crt", bundle)}
}

func respond(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// The handler of the test stands in for kube-rbac-proxy and prom-label-proxy in front of Prometheus: they decide by the method, by the token and by
// parameter namespace.
func TestAQueryReturnsTheSamplesOfItsNamespace(t *testing.T) {
	recorded, err := os.ReadFile("testdata/problems.json")
	if err != nil {
		t.Fatal(err)
	}
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/api/v1/query" || r.Header.Get("Authorization") != "Bearer secret" ||
			r.URL.Query().Get("namespace") != namespace || r.URL.Query().Get("query") != "a == 1" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
		_, _ = w.Write(recorded)
	})
	got, err := client.Query(t.Context(), "a == 1")
	if err != nil {
		t.Fatal(err)
	}
	want := []Sample{{Value: 75, Labels: map[string]string{
		"__name__": "efs_node_mount_problem_seconds", "namespace": namespace, "node": "worker-1", "pod_uid": "0f6a4a0e-8a6e-4f0b-9c57-5b0f1c2d3e4f",
		"problem": "stalled", "volume": "pv-data", "instance": "127.0.0.1:18301", "job": "aws-efs-node-health-metrics",
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the samples differ (-want +got):\n%s", diff)
	}
	if client.Requests() != 1 {
		t.Errorf("the client counts %d requests, want 1", client.Requests())
	}
}

func TestAnAnswerThatIsNoVectorIsAnError(t *testing.T) {
	const sample = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":VALUE}]}}`
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"no right":     {http.StatusForbidden, "Forbidden (user=system:serviceaccount:a:b, verb=get, resource=pods, subresource=)\n", "403 Forbidden: \"Forbidden (user="},
		"a long error": {http.StatusBadGateway, strings.Repeat("x", 10_000), "502 Bad Gateway: \"" + strings.Repeat("x", 200) + "\""},
		"a failure":    {http.StatusOK, `{"status":"error","error":"no"}`, `status "error"`},
		"no Prometheus": {
			http.StatusOK, `{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["no store"]}`, `warning "no store"`,
		},
		"another type":     {http.StatusOK, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, `result type "matrix"`},
		"a page":           {http.StatusOK, "<html>", "decode"},
		"a number":         {http.StatusOK, strings.Replace(sample, "VALUE", "[1,2]", 1), "decode the value"},
		"no number":        {http.StatusOK, strings.Replace(sample, "VALUE", `[1,"many"]`, 1), `value "many"`},
		"a histogram":      {http.StatusOK, strings.Replace(sample, `"value":VALUE`, `"histogram":[1,{}]`, 1), "a sample has 0 elements"},
		"a redirect":       {http.StatusFound, "", "302 Found"},
		"a truncated text": {http.StatusOK, `{"status":"success","data":{"resultType":"vector"`, "decode"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := serve(t, respond(test.status, test.body)).Query(t.Context(), "a")
			if err == nil || got != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, error %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestALongAnswerIsNotRead(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range longest/1024 + 1 {
			_, _ = io.WriteString(w, strings.Repeat(" ", 1024))
		}
	})
	if _, err := client.Query(t.Context(), "a"); !errors.Is(err, ErrTooLong) {
		t.Errorf("got %v, want %v", err, ErrTooLong)
	}
}

func TestTheTokenGoesOnlyToAServerWithACertificate(t *testing.T) {
	asked := false
	client := serve(t, func(http.ResponseWriter, *http.Request) { asked = true })
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, client.URL, http.StatusTemporaryRedirect)
	})
	if _, err := other.Query(t.Context(), "a"); err == nil || asked {
		t.Errorf("the client followed a redirect: %v", err)
	}
	client.CAFile = foreign(t)
	if _, err := client.Query(t.Context(), "a"); err == nil || asked || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the client asked a server with the certificate of another CA: %v", err)
	}
}

// The condition repeats the error, so that an error with a port or a time would change it at each request.
func TestAnErrorDoesNotChange(t *testing.T) {
	for _, resets := range []bool{false, true} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			// The error of a reset connection has the port of the client, which differs each time.
			if encrypted, ok := connection.(*tls.Conn); resets && ok {
				plain, _ := encrypted.NetConn().(*net.TCPConn)
				if err := errors.Join(plain.SetLinger(0), plain.Close()); err != nil {
					t.Error(err)
				}
				return
			}
			_ = connection.Close()
		})
		_, first := client.Query(t.Context(), "a")
		_, second := client.Query(t.Context(), "a")
		if first == nil || second == nil || first.Error() != second.Error() || strings.Contains(first.Error(), "query=") {
			t.Errorf("resets: %t: got %v, then %v", resets, first, second)
		}
	}
}

// foreign writes the certificate of a CA that no server of these tests has.
func foreign(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	made, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "other.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Each pod reports what it likes, and must not hide the others.
func TestValuesThatAreNotFiniteAreLeftOut(t *testing.T) {
	const text = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"+Inf"]},` +
		`{"metric":{"node":"b"},"value":[1,"2"]},{"metric":{"node":"c"},"value":[1,"NaN"]}]}}`
	got, err := serve(t, respond(http.StatusOK, text)).Query(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Sample{{Value: 2, Labels: map[string]string{"node": "b"}}}, got); diff != "" {
		t.Errorf("the samples differ (-want +got):\n%s", diff)
	}
}
