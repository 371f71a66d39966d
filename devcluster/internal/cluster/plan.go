package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/program"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// process returns how to start a component. Most paths in the arguments are relative to the cluster's directory. The absolute path of the directory
// can contain commas or spaces, and some flags would split their value there.
func (l layout) process(name string, state *State) supervise.Process {
	var args []string
	var namespaces uintptr
	switch name {
	case Etcd:
		args = etcdArgs(state.Ports)
	case APIServer:
		args = slices.Concat(l.apiserverArgs(state), realNodesArgs(state), versionArgs(state))
	case ControllerManager:
		args = append(l.controllerManagerArgs(state), versionArgs(state)...)
	case Scheduler:
		args = append(l.schedulerArgs(), versionArgs(state)...)
	case Kwok:
		args = l.kwokArgs(state)
	case StandIns:
		args = l.standInArgs()
	case Programs:
		args = l.programArgs(state)
	case Network:
		args, namespaces = []string{"--config=" + node.File(l.dir, name), "--kubeconfig=" + l.rel(l.kubeconfig(name))}, node.NetworkIsolation
	default:
		args, namespaces = []string{node.File(l.dir, strings.TrimPrefix(name, Node))}, node.Isolation
	}
	return supervise.Process{Name: name, Args: append([]string{name}, args...), Namespaces: namespaces}
}

// versionArgs returns the flags for feature gates, and the flag that makes a component emulate an earlier Kubernetes version. A component that
// emulates a version has the feature gates and API versions of that version.
func versionArgs(state *State) []string {
	var args []string
	if version := state.Options.EmulatedVersion; version != "" {
		args = append(args, "--emulated-version="+version)
	}
	if gates := state.Options.Profile.FeatureGates; len(gates) > 0 {
		args = append(args, "--feature-gates="+gatesText(gates))
	}
	return args
}

// etcdName is etcd's only member.
const etcdName = "devcluster"

func etcdURL(port int) string { return fmt.Sprintf("http://%s:%d", host, port) }

func etcdArgs(p ports) []string {
	client, peer := etcdURL(p.Etcd), etcdURL(p.EtcdPeer)
	return []string{
		"--name=" + etcdName,
		"--data-dir=" + etcdDir,
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + etcdName + "=" + peer,
		// If the machine crashes, the data of a development cluster may be lost.
		"--unsafe-no-fsync",
		// A cluster without work needs a third less of the processor for etcd if etcd commits, and ticks, less often than ten times a second.
		"--backend-batch-interval=1s",
		"--heartbeat-interval=300",
		"--election-timeout=3000",
		"--log-level=warn",
	}
}

func (l layout) apiserverArgs(state *State) []string {
	return []string{
		"--bind-address=" + host,
		fmt.Sprintf("--secure-port=%d", state.Ports.API),
		"--etcd-servers=" + etcdURL(state.Ports.Etcd),
		"--tls-cert-file=" + servingFile,
		"--tls-private-key-file=" + servingKeyFile,
		"--client-ca-file=" + caFile,
		"--requestheader-client-ca-file=" + frontCAFile,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontFile,
		"--proxy-client-key-file=" + frontKeyFile,
		"--service-account-issuer=" + state.Options.Profile.Issuer(),
		"--service-account-key-file=" + tokenPublicFile,
		"--service-account-signing-key-file=" + tokenKeyFile,
		"--token-auth-file=" + tokensFile,
		"--allow-privileged",
		"--service-cluster-ip-range=" + serviceNetwork,
		// Do not publish the API server's address. It is a loopback address, which is invalid in an EndpointSlice, so the attempt only fills the log
		// with errors.
		"--endpoint-reconciler-type=none",
		"--advertise-address=" + apiserverClientIP,
		"--audit-policy-file=" + auditPolicyFile,
		"--audit-log-path=" + auditLogFile,
		// Measurements count requests in the audit log, so the log must have the request before the client gets the answer.
		"--audit-log-mode=blocking",
		// By default, the API server begins a new audit log after 100 MB. A large cluster writes 100 MB within minutes.
		"--audit-log-maxsize=100000",
		"--disable-admission-plugins=" + strings.Join(unusedAdmission(state), ","),
		"--profiling=false",
	}
}

// unusedAdmission returns the admission plugins that the API server must not run. MutatingAdmissionPolicy reads the whole API description every five
// seconds, and only pods on nodes with a kubelet need this plugin. ValidatingAdmissionWebhook calls servers in pods, but pods on fake nodes run no
// servers. If the failure policy of such a webhook is Fail, the API server would refuse all objects that the webhook checks.
func unusedAdmission(state *State) []string {
	if state.Network != nil {
		return []string{"ValidatingAdmissionWebhook"}
	}
	return []string{"MutatingAdmissionPolicy", "ValidatingAdmissionWebhook"}
}

// realNodesArgs returns the API server's flags for nodes with a kubelet. With these flags, the API server can connect to kubelets, and kubelets have
// the same permissions as on OpenShift.
func realNodesArgs(state *State) []string {
	if state.Network == nil {
		return []string{"--authorization-mode=RBAC"}
	}
	return []string{
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + kubeletClientFile,
		"--kubelet-client-key=" + kubeletClientKeyFile,
		"--kubelet-certificate-authority=" + caFile,
		"--kubelet-preferred-address-types=InternalIP",
	}
}

func (l layout) controllerManagerArgs(state *State) []string {
	// KWOK renews the leases of fake nodes rarely. So a cluster with only fake nodes needs a long time after which a node counts as lost.
	grace := "1h"
	if state.Network != nil {
		grace = "50s"
	}
	return []string{
		"--kubeconfig=" + l.rel(l.kubeconfig(ControllerManager)),
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + tokenKeyFile,
		"--root-ca-file=" + caFile,
		"--cluster-signing-cert-file=" + caFile,
		"--cluster-signing-key-file=" + caKeyFile,
		"--leader-elect=false",
		// The default is 20 requests in a second. With this default, a few hundred objects take minutes.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--node-monitor-grace-period=" + grace,
		// 0 means: do not listen.
		"--secure-port=0",
		"--profiling=false",
	}
}

func (l layout) schedulerArgs() []string {
	return []string{
		"--kubeconfig=" + l.rel(l.kubeconfig(Scheduler)),
		"--leader-elect=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--secure-port=0",
		"--profiling=false",
	}
}

func (l layout) kwokArgs(state *State) []string {
	args := []string{
		"--kubeconfig=" + l.rel(l.kubeconfig(Kwok)),
		"--config=" + stagesFile,
		"--cidr=10.128.0.0/14",
	}
	if state.Network != nil {
		return append(args, "--manage-all-nodes=false", "--manage-nodes-with-label-selector=!"+openshift.RealLabel)
	}
	// KWOK renews a node's lease after a quarter of this time. The time is long, because each renewal would disturb a measurement.
	return append(args, "--manage-all-nodes", "--node-lease-duration-seconds=1200")
}

func (l layout) programArgs(state *State) []string {
	args := []string{
		"--kubeconfig=" + l.rel(l.kubeconfig(Programs)),
		"--dir=" + l.rel(l.programs()),
		"--logs=" + l.rel(l.logs()),
	}
	for _, p := range state.Options.Programs {
		args = append(args, p.Flag())
	}
	for _, name := range state.Options.Profile.RealNodeNames() {
		args = append(args, fmt.Sprintf("--%s=%s", program.RealNodeFlag, name))
	}
	return args
}

func (l layout) standInArgs() []string {
	return []string{
		"--kubeconfig=" + l.rel(l.kubeconfig(StandIns)),
		"--service-ca-cert=" + serviceCAFile,
		"--service-ca-key=" + serviceCAKeyFile,
		"--system-ca-cert=" + systemCAFile,
	}
}
