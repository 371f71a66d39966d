package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/pki"
	"github.com/csi-operators/csi-operators/devcluster/internal/program"
)

// Files that components read. The paths are relative to the cluster's directory, which is the components' working directory.
const (
	tokensFile           = "tokens.csv"
	auditPolicyFile      = "audit-policy.yaml"
	auditLogFile         = "audit.log"
	stagesFile           = "kwok-stages.yaml"
	etcdDir              = "etcd"
	pkiDir               = "pki"
	caFile               = pkiDir + "/ca.crt"
	caKeyFile            = pkiDir + "/ca.key"
	servingFile          = pkiDir + "/apiserver.crt"
	servingKeyFile       = pkiDir + "/apiserver.key"
	frontCAFile          = pkiDir + "/front-proxy-ca.crt"
	frontFile            = pkiDir + "/front-proxy-client.crt"
	frontKeyFile         = pkiDir + "/front-proxy-client.key"
	kubeletClientFile    = pkiDir + "/kubelet-client.crt"
	kubeletClientKeyFile = pkiDir + "/kubelet-client.key"
	tokenKeyFile         = pkiDir + "/service-account.key"
	tokenPublicFile      = pkiDir + "/service-account.pub"
	serviceCAFile        = pkiDir + "/service-ca.crt"
	serviceCAKeyFile     = pkiDir + "/service-ca.key"
	systemCAFile         = pkiDir + "/system-ca.crt"
	serviceNetwork       = node.ServiceNetwork
	apiserverClientIP    = "172.30.0.1"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages:
- RequestReceived
rules:
- level: Metadata
`

// podDelete lets KWOK delete a pod at once, unless a program still runs for the pod.
const podDelete = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-delete
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchExpressions:
    - key: '.metadata.deletionTimestamp'
      operator: Exists
    - key: '.metadata.finalizers.[]'
      operator: NotIn
      values: ["` + program.Finalizer + `"]
  next:
    delete: true
`

func (l layout) writeFiles(state *State) error {
	for _, dir := range []string{pkiDir, kubeconfigs, etcdDir, l.rel(l.logs()), l.rel(l.requests()), l.rel(l.programs())} {
		if err := os.MkdirAll(l.path(dir), 0o700); err != nil {
			return fmt.Errorf("make directory %s: %w", l.path(dir), err)
		}
	}
	ca, err := l.writePKI(state)
	if err != nil {
		return err
	}
	if err := l.writeUsers(state.URL, ca.Cert); err != nil {
		return err
	}
	stages := []string{
		nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podDelete,
	}
	return l.write(map[string][]byte{
		auditPolicyFile: []byte(auditPolicy),
		stagesFile:      []byte(strings.Join(stages, "\n---\n")),
	})
}

// writePKI writes the certificates. It returns the CA that signs the certificates of servers and clients.
func (l layout) writePKI(state *State) (*pki.Authority, error) {
	authorities := map[string]*pki.Authority{}
	for _, name := range []string{"ca", "front-proxy-ca", "service-ca", "system-ca"} {
		made, err := pki.NewAuthority("devcluster-" + name)
		if err != nil {
			return nil, err
		}
		authorities[name] = made
	}
	ca, frontCA, serviceCA := authorities["ca"], authorities["front-proxy-ca"], authorities["service-ca"]
	hosts := []string{
		host, apiserverClientIP, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + node.Domain,
	}
	if state.Network != nil {
		hosts = append(hosts, state.Network.API.String())
	}
	serving, err := ca.Serving("kube-apiserver", hosts...)
	if err != nil {
		return nil, err
	}
	kubelets, err := ca.Client("kube-apiserver-kubelet-client", mastersGroup)
	if err != nil {
		return nil, err
	}
	front, err := frontCA.Client("front-proxy-client")
	if err != nil {
		return nil, err
	}
	private, public, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	return ca, l.write(map[string][]byte{
		caFile: ca.Cert, caKeyFile: ca.Key,
		servingFile: serving.Cert, servingKeyFile: serving.Key,
		frontCAFile: frontCA.Cert, kubeletClientFile: kubelets.Cert, kubeletClientKeyFile: kubelets.Key,
		frontFile: front.Cert, frontKeyFile: front.Key,
		tokenKeyFile: private, tokenPublicFile: public,
		serviceCAFile: serviceCA.Cert, serviceCAKeyFile: serviceCA.Key,
		systemCAFile: authorities["system-ca"].Cert,
	})
}

func (l layout) write(files map[string][]byte) error {
	for name, data := range files {
		if err := os.WriteFile(l.path(name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", l.path(name), err)
		}
	}
	return nil
}

// rel returns the path of a file in the cluster's directory as a component sees it.
func (l layout) rel(path string) string {
	relative, err := filepath.Rel(l.dir, path)
	if err != nil {
		// This can't happen, because both paths are absolute and the directory contains the file.
		return path
	}
	return relative
}
