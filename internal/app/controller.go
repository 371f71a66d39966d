package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/credential"
	"github.com/csi-operators/csi-operators/internal/derived"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/follow"
	"github.com/csi-operators/csi-operators/internal/manager"
	"github.com/csi-operators/csi-operators/internal/migration"
	"github.com/csi-operators/csi-operators/internal/nodes"
	"github.com/csi-operators/csi-operators/internal/pending"
	"github.com/csi-operators/csi-operators/internal/watch"
)

// FromEnvironment makes the controller of a driver with all that the environment says, and refuses what is wrong there.
func FromEnvironment(d driver.Driver, lookup func(variable string) string) (*clustercsidriver.Reconciler, error) {
	environment := clustercsidriver.Environment{
		Images:  values(d.Images(), lookup),
		Version: lookup("OPERAND_IMAGE_VERSION"),
	}
	err := d.CheckImages(environment.Images)
	if err != nil {
		return nil, err
	}
	if environment.Settings, err = d.ReadSettings(lookup); err != nil {
		return nil, err
	}
	if environment.RoleARNs, err = d.ReadRoles(lookup); err != nil {
		return nil, err
	}
	environment.FIPS, err = fipsMode(lookup("FIPS_ENABLED"))
	return &clustercsidriver.Reconciler{
		Driver: d, Environment: environment, Migration: &migration.Migration{Driver: d, Inheritable: d.Inheritable(lookup)},
		Credentials: &credential.Source{Driver: d}, Derived: &derived.Source{Driver: d, Version: environment.Version},
		Pending: &pending.PVCs{Driver: d}, Nodes: &nodes.Updater{Driver: d.Name},
	}, err
}

// Attach gives a controller what it needs of its manager. SetupWithManager is left to the caller.
func Attach(mgr ctrl.Manager, controller *clustercsidriver.Reconciler, options Options, kinds map[schema.GroupKind]bool) error {
	namespace := controller.Driver.OperandNamespace(manager.Namespace(options.Options))
	secrets, err := watch.SecretCaches(mgr, controller.Driver, namespace)
	if err != nil {
		return err
	}
	controller.Client, controller.Live = mgr.GetClient(), mgr.GetAPIReader()
	controller.Events = mgr.GetEventRecorder(controller.Driver.Operator)
	controller.Namespace, controller.Kinds = namespace, kinds
	controller.Process.SetLogLevel, controller.Now = options.Verbosity.Follow, time.Now
	keys := controller.Credentials
	keys.Client, keys.Namespace, keys.Kinds, keys.Secrets = controller.Client, namespace, kinds, secrets
	inputs := controller.Derived
	inputs.Client, inputs.Live, inputs.Namespace, inputs.Kinds = controller.Client, controller.Live, namespace, kinds
	moves := controller.Migration
	moves.Client, moves.Live, moves.Events = controller.Client, controller.Live, controller.Events
	moves.Namespace, moves.Now = namespace, time.Now
	updater := controller.Nodes
	updater.Client, updater.Live, updater.Now = controller.Client, controller.Live, time.Now
	api, err := follow.NewClient(mgr)
	if err != nil {
		return err
	}
	updater.Registered = follow.CSINodes(api, controller.Driver.Name, ctrl.Request{NamespacedName: client.ObjectKey{Name: controller.Driver.Name}})
	waiting := controller.Pending
	waiting.Client, waiting.Live, waiting.Namespace, waiting.Now = controller.Client, controller.Live, namespace, time.Now
	return nil
}

// Run serves one driver. The operator is ready when its caches are filled, further ones included. The version is that of the program.
func Run(ctx context.Context, mgr ctrl.Manager, controller *clustercsidriver.Reconciler, version string, further ...manager.Cache) error {
	caches := append([]manager.Cache{mgr.GetCache()}, further...)
	for _, secret := range controller.Credentials.Secrets {
		caches = append(caches, secret)
	}
	return Serve(ctx, mgr, controller.Alive, caches, "driver", controller.Driver.Name, "namespace", controller.Namespace, "version", version)
}

// Serve adds the checks for the probes, and runs the manager until ctx ends. The keys and values are logged.
func Serve(ctx context.Context, mgr ctrl.Manager, alive healthz.Checker, caches []manager.Cache, keysAndValues ...any) error {
	err := errors.Join(
		mgr.AddHealthzCheck("reconcile", alive), mgr.AddHealthzCheck("log", logs), mgr.AddReadyzCheck("caches", manager.Filled(caches...)),
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

// fipsMode reports whether the nodes run in FIPS mode: as the variable FIPS_ENABLED says, or else as the kernel of the
// operator's own node does, as all nodes of a cluster are installed in the same mode.
func fipsMode(variable string) (bool, error) {
	switch variable {
	case "true", "false":
		return variable == "true", nil
	case "":
		kernel, err := os.ReadFile("/proc/sys/crypto/fips_enabled")
		return err == nil && strings.TrimSpace(string(kernel)) == "1", nil
	default:
		return false, fmt.Errorf("environment variable FIPS_ENABLED=%q: must be true or false: correct it, or leave it out "+
			"to follow the operator's own node", variable)
	}
}

func values(variables []string, lookup func(string) string) map[string]string {
	found := map[string]string{}
	for _, name := range variables {
		found[name] = lookup(name)
	}
	return found
}
