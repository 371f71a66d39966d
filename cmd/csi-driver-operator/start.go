package main

import (
	"context"
	"os"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/manager"
	"github.com/csi-operators/csi-operators/internal/program"
)

// start joins everything: environment, checks, manager, controller.
func start(ctx context.Context, options program.Options, d driver.Driver) error {
	controller, err := program.FromEnvironment(d, os.Getenv)
	if err != nil {
		return err
	}
	cluster, err := program.Connect(options.Options)
	if err != nil {
		return err
	}
	namespace := manager.Namespace(options.Options)
	kinds, err := cluster.Check(ctx, namespace, d)
	if err != nil {
		return err
	}
	singleNode := kinds[clustercsidriver.InfrastructureKind()] && cluster.Preflight.SingleNode(ctx)
	mgr, err := manager.New(cluster.Config, options.Options, singleNode, clustercsidriver.CacheOptions(d, namespace, kinds), nil)
	if err != nil {
		return err
	}
	if err := program.Attach(mgr, controller, options, kinds); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	controller.Restart = func(why string) {
		mgr.GetLogger().Info("ending, to be started anew", "why", why)
		end()
	}
	if err := controller.SetupWithManager(mgr); err != nil {
		return err
	}
	return program.Run(ctx, mgr, controller, os.Getenv("OPERATOR_IMAGE_VERSION"))
}
