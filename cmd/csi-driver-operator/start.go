package main

import (
	"context"
	"fmt"
	"os"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/operator"
	"github.com/csi-operators/csi-operators/internal/operator/manager"
)

// start reads the environment, checks the cluster, adds the controller to a manager, and runs the manager.
func start(ctx context.Context, options operator.Options, d driver.Driver) error {
	controller, err := clustercsidriver.New(d, os.Getenv)
	if err != nil {
		return err
	}
	cluster, err := operator.Connect(options.Options)
	if err != nil {
		return err
	}
	options.PodUID = os.Getenv("POD_UID")
	namespace := manager.Namespace(options.Options)
	if err := checkPlace(d, namespace); err != nil {
		return err
	}
	kinds, err := cluster.Check(ctx, namespace, d)
	if err != nil {
		return err
	}
	singleNode := kinds[openshift.InfrastructureKind()] && cluster.Preflight.SingleNode(ctx)
	mgr, err := manager.New(cluster.Config, options.Options, singleNode, watch.CacheOptions(d, d.OperandNamespace(namespace), kinds), nil)
	if err != nil {
		return err
	}
	if err := operator.Attach(mgr, controller, options, kinds); err != nil {
		return err
	}
	if err := addCloud(mgr, controller); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	controller.Process.Restart = func(why string) {
		mgr.GetLogger().Info("exiting to restart", "why", why)
		end()
	}
	if err := controller.SetupWithManager(mgr); err != nil {
		return err
	}
	return operator.Run(ctx, mgr, controller, os.Getenv("OPERATOR_IMAGE_VERSION"))
}

// checkPlace returns an error if the operator of a payload driver runs outside of catalogue.Namespace. The leader's Lease belongs to a namespace. So
// if the operator ran in two namespaces, both copies would be leaders.
func checkPlace(d driver.Driver, namespace string) error {
	if d.Removable || namespace == catalogue.Namespace {
		return nil
	}
	return fmt.Errorf("namespace %s: the operator of driver %s works only in namespace %s, where the cluster-storage-operator starts it: "+
		"uninstall this copy, or pass --namespace %s", namespace, d.Name, catalogue.Namespace, catalogue.Namespace)
}
