package idle

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

const (
	// mostStorageMemory is the resident memory of the cluster-storage-operator in MiB.
	mostStorageMemory = 50
	// pdOperator is the operator that is started on GCP.
	pdOperator = "gcp-pd-csi-driver-operator"
)

// always are the kinds that the cluster-storage-operator watches on every platform.
func always() []string {
	return []string{
		"apiservers", "clustercsidrivers", "clusteroperators", "configmaps", "featuregates", "infrastructures", "proxies", "storageclasses",
		"storages", "volumeattributesclasses",
	}
}

// withDriver are the kinds besides where it starts operators of this repository.
func withDriver() []string {
	return []string{"clusterrolebindings", "csidrivers", "deployments", "rolebindings", "serviceaccounts", "servicemonitors", "services"}
}

func TestStorageOperatorWatchesWhatItsPlatformNeedsAndIdles(t *testing.T) {
	cluster := suite.cluster
	platform(t, cluster, &configv1.PlatformStatus{Type: configv1.NonePlatformType})
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	reached := func() error { return cluster.Reached(t.Context(), env.ClusterRelease) }
	env.Must(t, cluster.ApplyRelease(t.Context(), env.Release{Version: env.ClusterRelease, Edit: shorten(t)}))
	settled(t, cluster, env.CSOUser, mark, reached)
	watches(t, cluster, mark, always())

	mark, err = cluster.Audit.Now()
	env.Must(t, err)
	platform(t, cluster, &configv1.PlatformStatus{
		Type: configv1.GCPPlatformType, GCP: &configv1.GCPPlatformStatus{Region: "us-east1", ProjectID: "test"},
	})
	end := settled(t, cluster, env.CSOUser, mark, func() error {
		operator, err := cluster.ClusterOperator(t.Context())
		if err == nil && len(operator.Status.Versions) != 2 {
			err = errors.New("the driver's operator has not been started")
		}
		return errors.Join(err, reached())
	})
	watches(t, cluster, mark, slices.Concat(always(), withDriver()))
	waitIdle(t, cluster, env.CSOUser, end, span(t)/2, "with a driver")
	waitIdle(t, cluster, env.DriverOperatorUser(pdOperator), end, 1, "with an installed driver")
	if memory, known := resident(t, processOf(t, cluster)); known && memory > mostStorageMemory {
		t.Errorf("the operator holds %d MiB, at most %d are allowed", memory, mostStorageMemory)
	}
}

// platform makes the Infrastructure say where the cluster is.
func platform(t *testing.T, cluster *env.Cluster, status *configv1.PlatformStatus) {
	t.Helper()
	infrastructure := &configv1.Infrastructure{}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, infrastructure))
	infrastructure.Status.PlatformStatus = status
	env.Must(t, cluster.Client.Status().Update(t.Context(), infrastructure))
}

// shorten gives the cluster-storage-operator a lease that is renewed often.
func shorten(t *testing.T) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		if object.GetKind() != "Deployment" || object.GetName() != env.CSO {
			return true
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		env.Must(t, err)
		first, _ := containers[0].(map[string]any)
		args, _ := first["args"].([]any)
		first["args"] = append(args, shortLease)
		env.Must(t, unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers"))
		return true
	}
}

// watches compares the kinds that the cluster-storage-operator has watched since a mark, while it was started last.
func watches(t *testing.T, cluster *env.Cluster, mark env.Mark, want []string) {
	t.Helper()
	requests, err := cluster.Audit.Since(mark, env.CSOUser)
	env.Must(t, err)
	count := map[string]int{}
	var found []string
	for _, request := range requests {
		if request.Verb == "watch" {
			count[request.Object.Resource]++
			found = append(found, request.Object.Resource)
		}
	}
	slices.Sort(found)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Compact(found)); diff != "" {
		t.Errorf("watched kinds (-want +got):\n%s", diff)
	}
	t.Logf("%d kinds are watched, by %v watches", len(want), count)
}

// processOf is the number of the process of the cluster-storage-operator.
func processOf(t *testing.T, cluster *env.Cluster) int {
	t.Helper()
	pods := &corev1.PodList{}
	env.Must(t, cluster.Client.List(t.Context(), pods, client.InNamespace(env.CSONamespace)))
	for _, pod := range pods.Items {
		if pid, err := strconv.Atoi(pod.Annotations["devcluster/pid"]); err == nil && strings.HasPrefix(pod.Name, env.CSO) {
			return pid
		}
	}
	t.Fatalf("none of %d pods has a process", len(pods.Items))
	return 0
}
