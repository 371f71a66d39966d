package e2e

import (
	"errors"
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

func TestMountsAreWatchedOnlyWhereTheAdministratorWantsIt(t *testing.T) {
	cluster := clean(t)
	operator := operateWith(t, cluster, "WATCH_MOUNTS=true")
	create(t, cluster)
	settle(t, cluster, operator, rollouts{1, 1})
	whatWatchesMountsIs(t, cluster, true)
	for _, object := range watching() {
		env.Must(t, cluster.Client.Delete(t.Context(), object))
	}
	whatWatchesMountsIs(t, cluster, true)
	env.Must(t, operator.Stop())

	operateWith(t, cluster)
	uninstallAtEnd(t, cluster)
	whatWatchesMountsIs(t, cluster, false)
}
