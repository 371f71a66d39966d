package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

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
	config, err := manager.Connect(options.Options)
	if err != nil {
		return err
	}
	cluster, err := program.Connect(config)
	if err != nil {
		return err
	}
	namespace := manager.Namespace(options.Options)
	kinds, err := cluster.Check(ctx, namespace, d)
	if err != nil {
		return err
	}
	singleNode := kinds[clustercsidriver.InfrastructureKind()] && cluster.Preflight.SingleNode(ctx)
	mgr, err := manager.New(config, options.Options, singleNode, clustercsidriver.CacheOptions(d, namespace, kinds))
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
	filled := manager.Filled(append(slices.Collect(maps.Values(controller.Secrets)), mgr.GetCache())...)
	if err := errors.Join(mgr.AddHealthzCheck("reconcile", controller.Alive), mgr.AddReadyzCheck("caches", filled)); err != nil {
		return fmt.Errorf("add health checks: %w", err)
	}
	mgr.GetLogger().Info("starting", "driver", d.Name, "namespace", namespace, "version", os.Getenv("OPERATOR_IMAGE_VERSION"))
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}
