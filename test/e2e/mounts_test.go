package e2e

import (
	"errors"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// watching are the objects of the program that watches mounts.
func watching() []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: name}
	}
	return []client.Object{
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "efs-node-health-binding"}},
		&corev1.Service{ObjectMeta: meta("aws-efs-node-health-metrics")},
		&monitoringv1.ServiceMonitor{ObjectMeta: meta("aws-efs-node-health-monitor")},
		&appsv1.DaemonSet{ObjectMeta: meta("aws-efs-node-health")},
	}
}

// whatWatchesMountsIs waits until all of watching are there, or none.
func whatWatchesMountsIs(t *testing.T, cluster *env.Cluster, there bool) {
	t.Helper()
	env.Eventually(t, "what watches mounts", func() error {
		var problems []error
		for _, object := range watching() {
			if there {
				problems = append(problems, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			} else {
				problems = append(problems, cluster.Gone(t.Context(), object))
			}
		}
		return errors.Join(problems...)
	})
}

// One installation sees operators come and go: the first one has settings and lists kinds as with older API servers, the others have none.
func TestOperatorsComeAndGo(t *testing.T) {
	cluster := clean(t)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	// The list of one kind after another, instead of one stream, is what older API servers need.
	first := operateWith(t, cluster, append(settings(), "WATCH_MOUNTS=true", "KUBE_FEATURE_WatchListClient=false")...)
	create(t, cluster)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	if lists := env.Filter(requests, func(r env.Request) bool { return r.Verb == "list" }); len(lists) == 0 {
		t.Error("no kind was listed: this test no longer shows what it is about")
	}
	whatWatchesMountsIs(t, cluster, true)
	settle(t, cluster, first, rollouts{1, 1})
	settingsReachThePods(t, cluster)
	for _, object := range watching() {
		env.Must(t, cluster.Client.Delete(t.Context(), object))
	}
	whatWatchesMountsIs(t, cluster, true)
	env.Must(t, first.Stop())

	second := operate(t, cluster)
	whatWatchesMountsIs(t, cluster, false)
	env.Eventually(t, "the driver at rest", func() error { return cluster.Settled(t.Context()) })
	env.Quiet(t, second)
	env.Must(t, second.Stop())
	mark, err = cluster.Audit.Now()
	env.Must(t, err)
	play(t, cluster, operate(t, cluster), func(*testing.T) {}, []scene{
		{"TestARestartedOperatorWritesNothing", func(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
			aRestartedOperatorWritesNothing(t, cluster, operator, mark)
		}},
		{"TestObjectsThatLostOurLabelsWhileTheOperatorWasAwayAreRemoved", objectsThatLostOurLabelsWhileTheOperatorWasAwayAreRemoved},
	})
}

func settings() []string {
	return []string{
		"NODE_MEMORY_LIMIT=3Gi", "DELETE_ACCESS_POINT_ROOT_DIR=true", "PROVISIONER_WORKERS=7", "PROVISIONER_TIMEOUT=90s", "VOLUME_ATTACH_LIMIT=33",
		"FIPS_ENABLED=true",
	}
}

// settingsReachThePods looks for settings in the pods.
func settingsReachThePods(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	text := pods(t, cluster)
	for _, want := range []string{
		`"limits":{"memory":"3Gi"}`, "--delete-access-point-root-dir=true", "--worker-threads=7", "--timeout=90s", "--volume-attach-limit=33",
		`{"name":"FIPS_ENABLED","value":"true"}`, `{"name":"AWS_USE_FIPS_ENDPOINT","value":"true"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the pods have no %s:\n%s", want, text)
		}
	}
}
