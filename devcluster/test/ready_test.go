package test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	securityv1 "github.com/openshift/api/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
)

// One cluster serves all tests of what a cluster is and of what the stand-ins do.
func TestCluster(t *testing.T) {
	r := up(t, filepath.Join(t.TempDir(), "cluster"))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *running)
	}{
		{"nodes are ready and labelled", nodesAreReady},
		{"singletons exist", singletonsExist},
		{"kubectl says the version", kubectlSaysVersion},
		{"a service account token is worth what RBAC says", tokensAreBound},
		{"clients of delegated authentication find what they need", delegatedAuthentication},
		{"pods of a DaemonSet run and go", podsRunAndGo},
		{"a node that is added is ready, and changes its zone", nodesComeAndMove},
		{"nothing listens outside loopback", nothingListensOutsideLoopback},
		{"stand-in: credentials are minted, kept and taken back", credentialsAreMinted},
		{"stand-in: credentials wait for their namespace", credentialsWaitForNamespace},
		{"stand-in: manual mode provides nothing", manualModeProvidesNothing},
		{"stand-in: STS provides what a role needs", stsProvidesRole},
		{"stand-in: serving certificates are signed and kept", servingCertificatesAreKept},
		{"stand-in: a foreign Secret is not overwritten", foreignSecretIsKept},
		{"stand-in: the service CA is injected", serviceCAIsInjected},
		{"stand-in: the trusted bundle follows the Proxy", trustedBundleFollowsProxy},
		{"stand-in: pull secrets are put back", pullSecretsArePutBack},
		{"stand-ins are idle when nothing changes", standInsAreIdle},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := *r
			own.t = t
			test.run(t, &own)
		})
	}
}

func nodesAreReady(t *testing.T, r *running) {
	nodes := &corev1.NodeList{}
	if err := r.client.List(context.Background(), nodes); err != nil {
		t.Fatal(err)
	}
	zones := map[string]bool{}
	for _, node := range nodes.Items {
		ready := false
		for _, condition := range node.Status.Conditions {
			ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}
		if !ready {
			t.Errorf("node %s is not ready", node.Name)
		}
		if node.Labels[corev1.LabelOSStable] != "linux" || node.Labels[corev1.LabelHostname] != node.Name {
			t.Errorf("node %s has the labels %v", node.Name, node.Labels)
		}
		zones[node.Labels[corev1.LabelTopologyZone]] = true
	}
	if len(nodes.Items) != 6 || len(zones) != 3 {
		t.Errorf("got %d nodes in %d zones, want 6 in 3", len(nodes.Items), len(zones))
	}
	assertTopology(t, r, 3, 3, configv1.HighlyAvailableTopologyMode)
}

func nodesComeAndMove(t *testing.T, r *running) {
	ctx := context.Background()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "later", Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}}
	if err := r.client.Create(ctx, node); err != nil {
		t.Fatal(err)
	}
	is := func(zone string) {
		t.Helper()
		eventually(t, func() error {
			if err := r.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && node.Labels[corev1.LabelTopologyZone] == zone {
					return nil
				}
			}
			return fmt.Errorf("node with labels %v and conditions %v, want it ready in %s", node.Labels, node.Status.Conditions, zone)
		})
	}
	is("us-east-1a")
	label := []string{"kubectl", "--dir", r.dir, "--", "label", "node", node.Name, "--overwrite", corev1.LabelTopologyZone + "=us-east-1b"}
	if got := devcluster(t, label...); got.code != 0 {
		t.Fatalf("label the node: exit code %d: %s", got.code, got.stderr)
	}
	is("us-east-1b")
	if err := r.client.Delete(ctx, node); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(node), node); !apierrors.IsNotFound(err) {
		t.Errorf("get the deleted node: got %v, want not found", err)
	}
}

func singletonsExist(t *testing.T, r *running) {
	ctx := context.Background()
	version := &configv1.ClusterVersion{}
	infrastructure := &configv1.Infrastructure{}
	for name, objects := range map[string][]client.Object{
		"cluster": {
			infrastructure, &configv1.Proxy{}, &configv1.APIServer{}, &configv1.Authentication{}, &configv1.FeatureGate{},
			&operatorv1.CloudCredential{}, &operatorv1.Storage{},
		},
		"version":                 {version},
		"privileged":              {&securityv1.SecurityContextConstraints{}},
		openshift.DriverNamespace: {&corev1.Namespace{}},
	} {
		for _, object := range objects {
			if err := r.client.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
				t.Errorf("get %T: %v", object, err)
			}
		}
	}
	if got := version.Status.Desired.Version; got != openshift.ReleaseVersion {
		t.Errorf("ClusterVersion desires %q, want %q", got, openshift.ReleaseVersion)
	}
	status := infrastructure.Status
	if status.PlatformStatus == nil || status.PlatformStatus.AWS == nil || status.PlatformStatus.AWS.Region != "us-east-1" || status.InfrastructureName == "" {
		t.Errorf("Infrastructure has the status %+v", status)
	}
}

func kubectlSaysVersion(t *testing.T, r *running) {
	for _, args := range [][]string{
		{"kubectl", "--dir", r.dir, "version"},
		{"kubectl", "--dir", r.dir, "--", "version"},
		{"--dir", r.dir, "kubectl", "version"},
	} {
		got := devcluster(t, args...)
		if got.code != 0 || !strings.Contains(got.stdout, "Server Version: v1.36.3") || !strings.Contains(got.stdout, "Client Version: v1.36.3") {
			t.Errorf("devcluster %v: exit code %d, %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
	if got := devcluster(t, "kubectl", "--dir", r.dir, "-n", "default", "get", "configmap", "nothing"); got.code != 1 {
		t.Errorf("get of what is missing: exit code %d, want 1", got.code)
	}
	// Translations would make each program of a control plane start later.
	help := exec.CommandContext(t.Context(), binary(), "kubectl", "--dir", r.dir, "--", "uncordon", "--help")
	help.Env = append(help.Environ(), "LC_ALL=de_DE.UTF-8")
	if output, err := help.CombinedOutput(); err != nil || !strings.Contains(string(output), "Mark node as schedulable") {
		t.Errorf("kubectl's help in a German shell: %v\n%s", err, output)
	}
	for _, kill := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		kubectlEnds(t, r, kill)
	}
}

// kubectlEnds checks that a command of kubectl that goes on for ever ends at a signal.
func kubectlEnds(t *testing.T, r *running, kill os.Signal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	proxy := exec.CommandContext(ctx, binary(), "kubectl", "--dir", r.dir, "--", "proxy", "--port=0")
	output, err := proxy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "Starting to serve") {
		t.Errorf("kubectl proxy says %q (%v)", line, err)
	}
	if err := proxy.Process.Signal(kill); err != nil {
		t.Error(err)
	}
	if err := proxy.Wait(); ctx.Err() != nil {
		t.Errorf("kubectl proxy does not end at signal %s: %v", kill, err)
	}
}

func tokensAreBound(t *testing.T, r *running) {
	ctx := context.Background()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: openshift.DriverNamespace, Name: "default"}}
	request := &authenticationv1.TokenRequest{}
	if err := r.client.SubResource("token").Create(ctx, account, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(r.config)
	config.BearerToken = request.Status.Token
	c, err := client.New(config, client.Options{Scheme: r.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		t.Fatal(err)
	}
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:"+openshift.DriverNamespace+":default"; got != want {
		t.Errorf("the token is %q's, want %q", got, want)
	}
	if err := c.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("list Secrets: got %v, want forbidden", err)
	}
}

func delegatedAuthentication(t *testing.T, r *running) {
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: "kube-system", Name: "extension-apiserver-authentication"}
	if err := r.client.Get(context.Background(), key, config); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"client-ca-file", "requestheader-client-ca-file"} {
		if config.Data[want] == "" {
			t.Errorf("ConfigMap %s lacks %s", key, want)
		}
	}
}

func podsRunAndGo(t *testing.T, r *running) {
	ctx := context.Background()
	labels := map[string]string{"app": "every-node"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: openshift.DriverNamespace, Name: "every-node"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					HostNetwork: true,
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers:  []corev1.Container{{Name: "main", Image: "registry.invalid/nothing"}},
				},
			},
		},
	}
	if err := r.client.Create(ctx, set); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.NumberAvailable != 6 {
			return fmt.Errorf("%d of 6 pods are available", set.Status.NumberAvailable)
		}
		return nil
	})
	if err := r.client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		pods := &corev1.PodList{}
		if err := r.client.List(ctx, pods, client.InNamespace(set.Namespace), client.MatchingLabels(labels)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are left", len(pods.Items))
		}
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get the deleted DaemonSet: got %w, want not found", err)
		}
		return nil
	})
}
