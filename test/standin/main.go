// Command standin stands for the operator of a CSI driver that others wrote, as the Deployment of the cluster-storage-operator starts
// it: IBM VPC Block and the like. It makes a driver that consists of pods, roles and a CSIDriver, and reports in the
// ClusterCSIDriver with the conditions that these operators have. It needs the RBAC that their sources say, and does nothing without it.
// An annotation of the ClusterCSIDriver makes it misbehave.
//
// It knows which one it is by the name of its pod, and uses $KUBECONFIG. Its arguments are those of the real operators and mean
// nothing to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube"
)

func main() {
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	ctrl.SetLogger(klog.Background())
	entry, err := entryOf(os.Getenv("POD_NAME")) //nolint:forbidigo // A program of its own.
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) //nolint:forbidigo // A program of its own.
	if err != nil {
		return err
	}
	scheme, err := kube.Scheme()
	if err != nil {
		return err
	}
	namespaces := map[string]cache.Config{}
	for _, workload := range entry.Workloads {
		namespaces[workload.Namespace] = cache.Config{}
	}
	follows := followedBy(entry.Name).options(slices.Collect(maps.Keys(namespaces)))
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: namespaces, ByObject: follows},
	})
	if err != nil {
		return err
	}
	for object := range follows {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	image := os.Getenv("DRIVER_IMAGE") //nolint:forbidigo // A program of its own.
	if image == "" {
		return errors.New("DRIVER_IMAGE is empty")
	}
	own := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: entry.Name}}}
	})
	made := &standIn{
		client: mgr.GetClient(), entry: entry, image: image,
		version: os.Getenv("OPERATOR_IMAGE_VERSION"), //nolint:forbidigo // A program of its own.
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(entry.Operator).
		For(&operatorv1.ClusterCSIDriver{}).
		Watches(&appsv1.Deployment{}, own).
		Watches(&appsv1.DaemonSet{}, own).
		Watches(&rbacv1.ClusterRole{}, own).
		Watches(&rbacv1.ClusterRoleBinding{}, own).
		Complete(made)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// entryOf finds the driver by the name of a pod of its operator.
func entryOf(pod string) (catalogue.Entry, error) {
	found := catalogue.Entry{}
	for _, entry := range catalogue.All() {
		if strings.HasPrefix(pod, entry.Operator+"-") && len(entry.Operator) > len(found.Operator) {
			found = entry
		}
	}
	if found.Name == "" {
		return found, fmt.Errorf("POD_NAME is %q, which is no pod of an operator", pod)
	}
	return found, nil
}
