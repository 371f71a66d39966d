package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/controller/storage"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/operator"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

// start reads the environment, checks the cluster, adds the controller to a manager, and runs the manager.
func start(ctx context.Context, options operator.Options) error {
	controller, err := fromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	cluster, err := operator.Connect(options.Options)
	if err != nil {
		return err
	}
	if controller.Namespace, err = check(ctx, cluster, options); err != nil {
		return err
	}
	scheme := cluster.Live.Scheme()
	if controller.Scope, err = storage.FindScope(ctx, cluster.Live, scheme, controller.Catalogue, cluster.Preflight.Serves); err != nil {
		return err
	}
	options.PodUID = os.Getenv("POD_UID")
	mgr, err := newManager(ctx, cluster, options, controller.Scope)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	controller.Client, controller.Live = mgr.GetClient(), mgr.GetAPIReader()
	controller.Events = mgr.GetEventRecorder(catalogue.Operator)
	controller.SetLogLevel, controller.Now = options.Verbosity.SetLevel, time.Now
	controller.Restart = func(why string) {
		mgr.GetLogger().Info("exiting to restart", "why", why)
		end()
	}
	conflicts, err := storage.NewConflicts(mgr)
	if err != nil {
		return err
	}
	controller.Conflicts = conflicts
	if err := controller.SetupWithManager(mgr, conflicts); err != nil {
		return err
	}
	caches := []manager.Cache{mgr.GetCache(), conflicts}
	return operator.Serve(ctx, mgr, controller.Alive, caches, "namespace", controller.Namespace, "version", controller.Version)
}

// fromEnvironment configures the controller from the environment. A missing image is no error here. The controller reports a missing image, and
// starts all drivers that do not need this image.
func fromEnvironment(lookup func(variable string) string) (*storage.Reconciler, error) {
	controller := &storage.Reconciler{Catalogue: catalogue.All(), Images: map[string]string{}, Version: lookup("OPERATOR_IMAGE_VERSION")}
	if controller.Version == "" {
		return nil, errors.New("environment variable OPERATOR_IMAGE_VERSION is empty: set it to the version of the release")
	}
	for _, entry := range controller.Catalogue {
		for _, variable := range entry.Variables() {
			controller.Images[variable] = lookup(variable)
		}
	}
	return controller, nil
}

// check checks that the operator can work in this cluster. It returns the operator's namespace.
func check(ctx context.Context, cluster operator.Connection, options operator.Options) (string, error) {
	namespace := manager.Namespace(options.Options)
	if namespace != catalogue.OperatorNamespace {
		// A Lease belongs to a namespace. So if the operator ran in two namespaces, both copies would be leaders.
		return "", fmt.Errorf("namespace %s: the cluster-storage-operator works only in namespace %s, where the cluster's release "+
			"installs it: uninstall this copy, or pass --namespace %s", namespace, catalogue.OperatorNamespace, catalogue.OperatorNamespace)
	}
	if err := cluster.Preflight.CheckNamespace(ctx, namespace); err != nil {
		return "", err
	}
	const hint = "OpenShift installs its CRD, and this program runs only on OpenShift"
	for _, kind := range []string{"Storage", "ClusterCSIDriver"} {
		if err := cluster.Preflight.Require(operatorv1.GroupVersion.WithKind(kind), hint); err != nil {
			return "", err
		}
	}
	for _, kind := range []string{"Infrastructure", "ClusterOperator", "FeatureGate", "Proxy", "APIServer"} {
		if err := cluster.Preflight.Require(configv1.GroupVersion.WithKind(kind), hint); err != nil {
			return "", err
		}
	}
	return namespace, nil
}

func newManager(ctx context.Context, cluster operator.Connection, options operator.Options, scope storage.Scope) (ctrl.Manager, error) {
	caches, err := scope.CacheOptions(cluster.Live.Scheme())
	if err != nil {
		return nil, err
	}
	return manager.New(cluster.Config, options.Options, cluster.Preflight.SingleNode(ctx), caches, nil)
}
