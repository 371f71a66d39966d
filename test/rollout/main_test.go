// Package rollout changes the node pods of EFS on a cluster of 10 nodes, and of 20 in make soak, while a recorder notes on which nodes they are
// replaced, in which order, and how many nodes are without one.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	driverName = "efs.csi.aws.com"
	daemonSet  = "efs-csi-node"
	project    = "shop"
)

// scene is a cluster with the driver, and with applications on some nodes.
type scene struct {
	env.Scene
	operator *env.Operator
	through  *env.Proxy
	// workers are all of them; applications are on the first ones.
	workers []string
	level   operatorv1.LogLevel
	// count is how many nodes there are, used on how many of them pods use volumes, and bound how many may be without a plugin.
	count, used, bound int
}

// open makes the cluster. The operator reaches it through a proxy.
func open(t *testing.T) *scene {
	t.Helper()
	s := &scene{level: operatorv1.Normal, count: 10, used: 3, bound: 1}
	if env.IsSoak(t) {
		s.count, s.used, s.bound = 20, 5, 2
	}
	cluster, err := env.Start(t.Context(), "--nodes", fmt.Sprint(s.count))
	env.Must(t, err)
	s.Scene = env.Scene{Cluster: cluster, T: t}
	t.Cleanup(func() {
		if err := errors.Join(cluster.Audit.NoRefusals(0, env.OperatorUser), cluster.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	})
	env.Must(t, cluster.InstallManifests(t.Context()))
	workers := &corev1.NodeList{}
	env.Must(t, cluster.Client.List(t.Context(), workers, client.HasLabels{"node-role.kubernetes.io/worker"}))
	for i := range workers.Items {
		s.workers = append(s.workers, workers.Items[i].Name)
	}
	slices.Sort(s.workers)
	s.through = env.NewProxy(t, cluster)
	s.start()
	env.Must(t, cluster.Client.Create(t.Context(), env.CR(driverName, operatorv1.Managed)))
	s.Until("the driver runs", s.settled)
	env.Must(t, errors.Join(cluster.Namespace(t.Context(), project), cluster.PutVolume(t.Context(), driverName, project, "data")))
	for _, node := range s.workers[:s.used] {
		s.application(t, "web-"+node, node)
	}
	return s
}

// start starts the operator, with more variables. It checks no AWS, of which there is none.
func (s *scene) start(environment ...string) {
	s.T.Helper()
	var err error
	s.operator, err = s.StartOperator(s.T.Context(), []string{
		"--kubeconfig", s.through.Kubeconfig(s.T, s.Cluster, env.OperatorNamespace), "--leader-elect=false",
	}, append(environment, "LOOK_AT_AWS=false"))
	env.Must(s.T, err)
	env.StopAtEnd(s.T, s.operator)
}

// application runs a pod that uses the volume.
func (s *scene) application(t *testing.T, name, node string) *corev1.Pod {
	t.Helper()
	return s.RunPod(t, env.Application(project, name, node, "data"))
}

// change gives the node pods another template.
func (s *scene) change(t *testing.T) {
	t.Helper()
	levels := []operatorv1.LogLevel{operatorv1.Normal, operatorv1.Debug, operatorv1.Trace}
	s.level = levels[(slices.Index(levels, s.level)+1)%len(levels)]
	s.Patch(env.CR(driverName, ""), fmt.Sprintf(`{"spec":{"logLevel":%q}}`, s.level))
	env.Eventually(t, "the DaemonSet has another template", func() error {
		if have := s.number(t); have == "" {
			return errors.New("none")
		}
		return s.applied(t)
	})
}

// applied checks that the template has the log level.
func (s *scene) applied(t *testing.T) error {
	t.Helper()
	want := fmt.Sprintf("--v=%d", driver.LogVerbosity(s.level))
	if args := s.daemonSet(t).Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, want) {
		return fmt.Errorf("arguments %v, want %s", args, want)
	}
	return nil
}

// annotate sets or removes an annotation of the ClusterCSIDriver.
func (s *scene) annotate(name, value string) {
	s.T.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	s.Patch(env.CR(driverName, ""), fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, name, text))
}

func (s *scene) daemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	found := &appsv1.DaemonSet{}
	env.Must(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: env.OperatorNamespace, Name: daemonSet}, found))
	return found
}

// number is that of the template.
func (s *scene) number(t *testing.T) string {
	t.Helper()
	return s.daemonSet(t).Annotations[appsv1.DeprecatedTemplateGeneration]
}

// settled checks that the driver is available, and all node pods have the newest template.
func (s *scene) settled() error { return s.SettledOf(s.T.Context(), driverName) }

// says waits for the reason of the nodes' condition Progressing, and texts in its message.
func (s *scene) says(t *testing.T, reason string, texts ...string) {
	t.Helper()
	env.Eventually(t, "condition "+reason, func() error {
		return s.Says(t.Context(), driverName, "AWSEFSDriverNodeServiceControllerProgressing", "True/"+reason, texts...)
	})
}

// replaceNow is the annotation for the roll-out that is under way.
func (s *scene) replaceNow(t *testing.T) {
	t.Helper()
	s.annotate(nodes.ReplaceNowAnnotation, s.number(t))
}

// policy sets how node pods are replaced until the test ends.
func (s *scene) policy(t *testing.T, policy driver.RolloutPolicy) {
	t.Helper()
	s.annotate(driver.RolloutPolicyAnnotation, string(policy))
	t.Cleanup(func() { s.annotate(driver.RolloutPolicyAnnotation, "") })
}

// plugin is the node pod of a node.
func (s *scene) plugin(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	env.Must(t, s.Client.List(t.Context(), pods, client.InNamespace(env.OperatorNamespace), client.MatchingLabels{"app": daemonSet},
		client.MatchingFields{"spec.nodeName": node}))
	if len(pods.Items) == 0 {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	}
	return &pods.Items[0]
}
