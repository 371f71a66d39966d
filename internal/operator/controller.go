package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/kube/informer"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

// Attach sets the fields of a controller that depend on the manager. The caller calls SetupWithManager.
func Attach(mgr ctrl.Manager, controller *clustercsidriver.Reconciler, options Options, kinds map[schema.GroupKind]bool) error {
	namespace := controller.Driver.OperandNamespace(manager.Namespace(options.Options))
	secrets, err := watch.SecretCaches(mgr, controller.Driver, namespace)
	if err != nil {
		return err
	}
	controller.Client, controller.Live = mgr.GetClient(), mgr.GetAPIReader()
	controller.Events = mgr.GetEventRecorder(controller.Driver.Operator)
	controller.Namespace, controller.Kinds = namespace, kinds
	if controller.KubernetesMinor, err = kubernetesMinor(mgr); err != nil {
		return err
	}
	controller.Process.SetLogLevel, controller.Now = options.Verbosity.SetLevel, time.Now
	keys := controller.Credentials
	keys.Client, keys.Namespace, keys.Kinds, keys.Secrets = controller.Client, namespace, kinds, secrets
	inputs := controller.Derived
	inputs.Client, inputs.Live, inputs.Namespace, inputs.Kinds = controller.Client, controller.Live, namespace, kinds
	moves := controller.Migration
	moves.Client, moves.Live, moves.Events = controller.Client, controller.Live, controller.Events
	moves.Namespace, moves.Now = namespace, time.Now
	updater := controller.Nodes
	updater.Client, updater.Live, updater.Now = controller.Client, controller.Live, time.Now
	api, err := informer.NewClient(mgr)
	if err != nil {
		return err
	}
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: controller.Driver.Name}}
	updater.Registered = informer.CSINodes(api, controller.Driver.Name, request)
	if key := controller.Driver.StartupTaint; key != "" {
		controller.Taints = &nodes.Taints{
			Client: controller.Client, Now: time.Now, Key: key, Tainted: informer.TaintedNodes(api, key, request), Registered: updater.Registered,
		}
	}
	waiting := controller.Pending
	waiting.Client, waiting.Live, waiting.Namespace, waiting.Now = controller.Client, controller.Live, namespace, time.Now
	return nil
}

// Run runs the operator of one driver. The readiness probe succeeds when the manager's cache, the caches of Secrets and the caches in argument
// "further" have synced. Argument "version" is the version of the program.
func Run(ctx context.Context, mgr ctrl.Manager, controller *clustercsidriver.Reconciler, version string, further ...manager.Cache) error {
	caches := append([]manager.Cache{mgr.GetCache()}, further...)
	for _, secret := range controller.Credentials.Secrets {
		caches = append(caches, secret)
	}
	return Serve(ctx, mgr, controller.Alive, caches, "driver", controller.Driver.Name, "namespace", controller.Namespace, "version", version)
}

// Serve adds the checks for the probes, and logs "starting" with keysAndValues. It then runs the manager until ctx ends.
func Serve(ctx context.Context, mgr ctrl.Manager, alive healthz.Checker, caches []manager.Cache, keysAndValues ...any) error {
	err := errors.Join(
		mgr.AddHealthzCheck("reconcile", alive), mgr.AddHealthzCheck("log", checkLog), mgr.AddReadyzCheck("caches", manager.Filled(caches...)),
	)
	if err != nil {
		return fmt.Errorf("add health checks: %w", err)
	}
	mgr.GetLogger().Info("starting", keysAndValues...)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}
