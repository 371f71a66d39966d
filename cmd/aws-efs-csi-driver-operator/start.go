package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/operator"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

// start reads the environment, checks the cluster, adds the controllers to a manager, and runs the manager.
func start(ctx context.Context, options operator.Options) error {
	controller, err := fromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	connected, err := operator.Connect(options.Options)
	if err != nil {
		return err
	}
	options.PodUID = os.Getenv("POD_UID")
	namespace := manager.Namespace(options.Options)
	efs := controller.Driver
	cluster, err := inspect(ctx, connected, namespace, efs)
	if err != nil {
		return err
	}
	caches := watch.CacheOptions(efs, namespace, cluster.kinds)
	maps.Copy(caches, sharedvolume.CacheOptions(efs.Operator, cluster.sharedVolumes, cluster.policies))
	mgr, err := manager.New(connected.Config, options.Options, cluster.singleNode, caches, sharedvolume.Strip)
	if err != nil {
		return err
	}
	if err := operator.Attach(mgr, controller, options, cluster.kinds); err != nil {
		return err
	}
	for _, names := range efs.Predecessors {
		predecessor, err := migration.WatchPredecessor(mgr, efs, names, namespace, cluster.constraints)
		if err != nil {
			return err
		}
		controller.Migration.Predecessors = append(controller.Migration.Predecessors, predecessor)
	}
	if err := controller.SetupWithManager(mgr); err != nil {
		return err
	}
	systems, err := checkAWS(mgr, controller, os.Getenv)
	if err != nil {
		return err
	}
	if cluster.kinds[driver.ServiceMonitorKind()] {
		err := mgr.Add(manager.ServerName{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: namespace, Monitor: efs.Operator, Service: efs.Operator + "-metrics",
		})
		if err != nil {
			return fmt.Errorf("set up the correction of the operator's ServiceMonitor: %w", err)
		}
	}
	if err := serveSharedVolumes(mgr, controller, systems.Shares, cluster.policies); err != nil {
		return err
	}
	return operator.Run(ctx, mgr, controller, os.Getenv("OPERATOR_IMAGE_VERSION"), systems)
}

// serveSharedVolumes adds the controllers of SharedVolumes. These controllers start when the API server serves SharedVolumes.
func serveSharedVolumes(mgr ctrl.Manager, drivers *clustercsidriver.Reconciler, shares sharedvolume.Shares, policies bool) error {
	operator, namespace := drivers.Driver.Operator, drivers.Namespace
	others := sharedvolume.Others{
		Community: drivers.Migration.Predecessor(awsefs.CommunityOperator), Namesake: drivers.Migration.Predecessor(operator),
	}
	shared := &sharedvolume.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(operator), Owner: operator,
		Others: others, Policies: policies, Shares: shares, Now: time.Now,
	}
	volumes := &sharedvolume.VolumeReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Others: others}
	served := make(chan struct{})
	admission := &sharedvolume.AdmissionReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Owner: operator, Namespace: namespace, Others: others, Policies: policies,
		Prefix: drivers.Driver.ConditionPrefix, Now: time.Now,
		Serve: func() { close(served) },
	}
	err := mgr.Add(manager.Late{Manager: mgr, When: served, SetUp: func(mgr ctrl.Manager) error {
		return errors.Join(shared.SetupWithManager(mgr), volumes.SetupWithManager(mgr))
	}})
	if err != nil {
		return fmt.Errorf("add the controllers of SharedVolumes: %w", err)
	}
	return admission.SetupWithManager(mgr)
}

// cluster has the facts about the cluster on which the manager's options depend.
type cluster struct {
	singleNode bool
	kinds      map[schema.GroupKind]bool
	// constraints means that the cluster serves SecurityContextConstraints.
	constraints bool
	// sharedVolumes means that the API server serves SharedVolumes. policies means that it serves admission policies.
	sharedVolumes, policies bool
}

// inspect checks that the operator can work in this cluster, and reads the facts.
func inspect(ctx context.Context, connected operator.Connection, namespace string, d driver.Driver) (cluster, error) {
	preflight := connected.Preflight
	var found cluster
	var err error
	if found.kinds, err = connected.Check(ctx, namespace, d); err != nil {
		return cluster{}, err
	}
	if found.constraints, err = preflight.Serves(migration.SecurityContextConstraintsKind(), "v1"); err != nil {
		return cluster{}, err
	}
	if found.policies, err = preflight.Serves(sharedvolume.PolicyKind()); err != nil {
		return cluster{}, err
	}
	if found.sharedVolumes, err = preflight.Serves(sharedvolume.Kind()); err != nil {
		return cluster{}, err
	}
	if found.kinds[openshift.InfrastructureKind()] {
		found.singleNode = preflight.SingleNode(ctx)
	}
	return found, nil
}

// fromEnvironment configures the ClusterCSIDriver controller from the environment. It rejects invalid values.
func fromEnvironment(lookup func(variable string) string) (*clustercsidriver.Reconciler, error) {
	controller, err := clustercsidriver.New(awsefs.Driver(), lookup)
	return controller, errors.Join(err, checkVariables(lookup))
}
