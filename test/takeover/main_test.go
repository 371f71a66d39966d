// Package takeover moves clusters from the operators of others to this one, while a sampler watches that no application
// notices. Each test has a control plane to itself until it ends.
package takeover

import (
	"os"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

const (
	driverName    = "efs.csi.aws.com"
	nodeDaemonSet = "efs-csi-node"
	// many and few are numbers of nodes, of which three are the control plane's. test/rollout has more: here a node is worth 0.1 s of processor.
	many, few = 8, 6
	// accepted is the annotation by which an administrator gives up the mounts of nodes in use.
	accepted = "operator.openshift.io/accept-remount"
)

// pool lends one cluster, because a start costs more than a sweep, and other packages run meanwhile.
var pool = &env.Pool{Size: 1, Sweeps: true, Flags: []string{"--nodes", strconv.Itoa(few)}}

func TestMain(m *testing.M) { os.Exit(pool.Run(m)) }

// open gives a test a cluster with what this operator needs to run in a namespace. At the end no request of the operator may have been refused.
func open(t *testing.T, nodes int, namespace string) *scene {
	t.Helper()
	s := &scene{Cluster: pool.Lend(t), namespace: namespace}
	var err error
	s.lent, err = s.Audit.Now()
	env.Must(t, err)
	t.Cleanup(func() {
		if err := s.Audit.NoRefusals(s.lent, env.OperatorUserIn(namespace)); err != nil && !s.restarted {
			t.Error(err)
		}
	})
	env.Must(t, s.AddWorkers(t.Context(), nodes))
	env.Must(t, s.InstallManifestsIn(t.Context(), namespace))
	s.workers = s.nodesOf(t, client.HasLabels{"node-role.kubernetes.io/worker"})
	return s
}

// newSampler looks at the driver of EFS and at the applications of projects; at most as many nodes as the budget may lack a plugin.
func newSampler(budget int, projects ...string) *env.Sampler {
	return env.NewSampler(env.Sampled{Driver: driverName, IsPlugin: isPlugin, IsOld: isOld, Budget: budget, Projects: projects})
}

// isPlugin is true for the node pods of any operator.
func isPlugin(pod *corev1.Pod) bool {
	return pod.Labels["app"] == nodeDaemonSet || pod.Labels["app"] == predecessors.OpenShiftDaemonSet
}

// isOld is true for node pods of an operator before ours.
func isOld(pod *corev1.Pod) bool {
	return pod.Labels["app"] != nodeDaemonSet || pod.Spec.ServiceAccountName != predecessors.NodeAccount
}
