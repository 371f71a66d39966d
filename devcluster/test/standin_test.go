package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
)

func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: openshift.DriverNamespace, Name: name,
			Annotations: map[string]string{"service.beta.openshift.io/serving-cert-secret-name": name + "-cert"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: openshift.DriverNamespace, Name: name}}
}

// serviceCA returns the authority of serving certificates, as a client of the cluster gets it.
func serviceCA(r *running) *x509.CertPool {
	config := configMap("service-ca")
	config.Annotations = map[string]string{"service.beta.openshift.io/inject-cabundle": "true"}
	r.create(config)
	pool := x509.NewCertPool()
	r.expect(config, func() error {
		if !pool.AppendCertsFromPEM([]byte(config.Data["service-ca.crt"])) {
			return fmt.Errorf("ConfigMap %s holds no certificate: %v", config.Name, config.Data)
		}
		return nil
	})
	r.delete(config)
	return pool
}

func servingCertificatesAreKept(t *testing.T, r *running) {
	roots := serviceCA(r)
	served := service("served")
	r.create(served)
	made := secret(openshift.DriverNamespace, "served-cert")
	trusted := func() error {
		pair, err := tls.X509KeyPair(made.Data["tls.crt"], made.Data["tls.key"])
		if err != nil {
			return err
		}
		cert, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			return err
		}
		for _, host := range []string{"served." + made.Namespace + ".svc", "served." + made.Namespace + ".svc.cluster.local"} {
			if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
				return err
			}
		}
		return nil
	}
	r.expect(made, trusted)
	if made.Type != corev1.SecretTypeTLS || len(made.OwnerReferences) != 1 || made.OwnerReferences[0].UID != served.UID {
		t.Errorf("the Secret has type %s and owners %v", made.Type, made.OwnerReferences)
	}
	r.expect(served, func() error {
		if served.Annotations["service.beta.openshift.io/serving-cert-signed-by"] == "" {
			return fmt.Errorf("the Service has the annotations %v", served.Annotations)
		}
		return nil
	})
	r.delete(made)
	r.expect(made, trusted)
	r.change(made, func() { made.Data["tls.crt"] = []byte("damaged") })
	r.expect(made, trusted)
	r.delete(served)
	r.expectGone(made)
}

func foreignSecretIsKept(t *testing.T, r *running) {
	foreign := secret(openshift.DriverNamespace, "taken-cert")
	foreign.Data = map[string][]byte{"mine": []byte("yes")}
	r.create(foreign)
	served := service("taken")
	r.create(served)
	r.expect(served, func() error {
		if served.Annotations["service.beta.openshift.io/serving-cert-generation-error"] == "" {
			return fmt.Errorf("the Service has the annotations %v", served.Annotations)
		}
		return nil
	})
	r.expect(foreign, func() error { return nil })
	if len(foreign.Data) != 1 || len(foreign.OwnerReferences) != 0 {
		t.Errorf("the Secret holds %v and has the owners %v", foreign.Data, foreign.OwnerReferences)
	}
	r.delete(served)
	r.delete(foreign)
}

func serviceCAIsInjected(t *testing.T, r *running) {
	config := configMap("wants-service-ca")
	config.Annotations = map[string]string{"service.beta.openshift.io/inject-cabundle": "true"}
	config.Data = map[string]string{"other": "kept"}
	r.create(config)
	injected := func() error {
		if config.Data["service-ca.crt"] == "" {
			return fmt.Errorf("ConfigMap %s holds %v", config.Name, config.Data)
		}
		return nil
	}
	r.expect(config, injected)
	r.change(config, func() { delete(config.Data, "service-ca.crt") })
	r.expect(config, injected)
	if config.Data["other"] != "kept" {
		t.Errorf("another key was changed: %v", config.Data)
	}
	r.delete(config)
}

func trustedBundleFollowsProxy(_ *testing.T, r *running) {
	config := configMap("wants-trusted-ca")
	config.Labels = map[string]string{"config.openshift.io/inject-trusted-cabundle": "true"}
	r.create(config)
	contains := func(users bool) func() error {
		return func() error {
			got := config.Data["ca-bundle.crt"]
			if !strings.Contains(got, "BEGIN CERTIFICATE") || strings.Contains(got, "the user's") != users {
				return fmt.Errorf("the bundle is %q, want the system's, and the user's: %v", got, users)
			}
			return nil
		}
	}
	r.expect(config, contains(false))
	user := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "user-ca"},
		Data:       map[string]string{"ca-bundle.crt": "# the user's\n"},
	}
	proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	r.change(proxy, func() { proxy.Spec.TrustedCA.Name = user.Name })
	r.create(user)
	r.expect(config, contains(true))
	r.change(config, func() { config.Data = nil })
	r.expect(config, contains(true))
	r.change(proxy, func() { proxy.Spec.TrustedCA.Name = "" })
	r.expect(config, contains(false))
	r.delete(user)
	r.delete(config)
}

func pullSecretsArePutBack(t *testing.T, r *running) {
	account := &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Namespace: openshift.DriverNamespace, Name: "driver"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "the-users-own"}},
	}
	r.create(account)
	name := ""
	listed := func() error {
		for _, reference := range account.ImagePullSecrets {
			if strings.HasPrefix(reference.Name, "driver-dockercfg-") {
				name = reference.Name
			}
		}
		if name == "" || !slices.Contains(account.ImagePullSecrets, corev1.LocalObjectReference{Name: "the-users-own"}) ||
			!slices.ContainsFunc(account.Secrets, func(r corev1.ObjectReference) bool { return r.Name == name }) {
			return fmt.Errorf("the ServiceAccount has imagePullSecrets %v and secrets %v", account.ImagePullSecrets, account.Secrets)
		}
		return nil
	}
	r.expect(account, listed)
	pull := secret(openshift.DriverNamespace, name)
	r.expect(pull, func() error { return nil })
	if pull.Type != corev1.SecretTypeDockercfg {
		t.Errorf("the Secret is of type %s", pull.Type)
	}
	r.change(account, func() { account.ImagePullSecrets, account.Secrets = account.ImagePullSecrets[:1], nil })
	first := name
	name = ""
	r.expect(account, listed)
	if name != first {
		t.Errorf("the ServiceAccount got another Secret: %s, then %s", first, name)
	}
	r.delete(pull)
	r.expect(pull, func() error { return nil })

	elsewhere := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "driver"}}
	r.create(elsewhere)
	// ServiceAccounts are dealt with in their order: when the later one has its Secret, the earlier one has had its turn.
	later := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: openshift.DriverNamespace, Name: "later"}}
	r.create(later)
	r.expect(later, func() error {
		if len(later.ImagePullSecrets) == 0 {
			return fmt.Errorf("the ServiceAccount has no pull secret")
		}
		return nil
	})
	r.delete(later)
	r.expect(elsewhere, func() error { return nil })
	if len(elsewhere.ImagePullSecrets) > 0 {
		t.Errorf("a ServiceAccount outside openshift-* got %v", elsewhere.ImagePullSecrets)
	}
	r.delete(elsewhere)
	r.delete(account)
	r.expectGone(pull)
}

// auditEvent is what the tests read of a line of the audit log.
type auditEvent struct {
	Verb       string                    `json:"verb"`
	RequestURI string                    `json:"requestURI"`
	User       struct{ Username string } `json:"user"`
	Received   metav1.MicroTime          `json:"requestReceivedTimestamp"`
}

// standInsAreIdle lets the server end a watch after ten seconds: they have passed when the answer comes, and the audit
// log holds everything that happened meanwhile.
func standInsAreIdle(t *testing.T, r *running) {
	r.settle()
	clients, err := kubernetes.NewForConfig(r.config)
	if err != nil {
		t.Fatal(err)
	}
	version := &configv1.ClusterVersion{}
	if err := r.client.Get(context.Background(), client.ObjectKey{Name: "version"}, version); err != nil {
		t.Fatal(err)
	}
	const seconds = 10
	watch, err := clients.CoreV1().Namespaces().Watch(context.Background(), metav1.ListOptions{
		TimeoutSeconds: ptr.To[int64](seconds), FieldSelector: "metadata.name=marker-of-the-idle-test",
	})
	if err != nil {
		t.Fatal(err)
	}
	for range watch.ResultChan() {
		t.Error("a namespace of that name should not exist")
	}
	var begin *metav1.MicroTime
	for _, event := range auditLog(t, r) {
		if strings.Contains(event.RequestURI, "marker-of-the-idle-test") {
			begin = &event.Received
			continue
		}
		write := event.Verb != "get" && event.Verb != "list" && event.Verb != "watch"
		if begin != nil && write && event.User.Username == "stand-ins" {
			t.Errorf("%s %s", event.Verb, event.RequestURI)
		}
	}
	if begin == nil {
		t.Error("the audit log lacks the watch that marks the time")
	}
}

func auditLog(t *testing.T, r *running) []auditEvent {
	t.Helper()
	file, err := os.Open(filepath.Join(r.dir, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var events []auditEvent
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("decode a line of the audit log: %v", err)
		}
		events = append(events, event)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}
