package main

import (
	"context"
	"fmt"
	"os"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/manager"
)

// start joins everything: environment, checks, manager, controller.
func start(ctx context.Context, options manager.Options) error {
	efs, err := awsefs.Driver()
	if err != nil {
		return err
	}
	images := environment(efs.Images())
	if err := efs.CheckImages(images); err != nil {
		return err
	}
	config, err := manager.Connect(options)
	if err != nil {
		return err
	}
	namespace := manager.Namespace(options)
	cluster, err := look(ctx, config, namespace)
	if err != nil {
		return err
	}
	mgr, err := manager.New(config, options, cluster.singleNode, clustercsidriver.CacheOptions(efs, namespace, cluster.kinds))
	if err != nil {
		return err
	}
	controller := &clustercsidriver.Reconciler{
		Client:    mgr.GetClient(),
		Live:      mgr.GetAPIReader(),
		Driver:    efs,
		Namespace: namespace,
		Images:    images,
		RoleARNs:  environment(roleVariables(efs)),
		Version:   os.Getenv("OPERAND_IMAGE_VERSION"),
		Kinds:     cluster.kinds,
		Now:       time.Now,
	}
	if err := controller.SetupWithManager(mgr); err != nil {
		return err
	}
	mgr.GetLogger().Info("starting", "driver", efs.Name, "namespace", namespace, "version", os.Getenv("OPERATOR_IMAGE_VERSION"))
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// cluster is what has to be known before the manager starts.
type cluster struct {
	singleNode bool
	kinds      map[schema.GroupKind]bool
}

// look checks that the operator can work in this cluster, with a sentence for each thing that can be wrong.
func look(ctx context.Context, config *rest.Config, namespace string) (cluster, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return cluster{}, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return cluster{}, fmt.Errorf("client for the API server: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return cluster{}, fmt.Errorf("discover the API server's kinds: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return cluster{}, fmt.Errorf("client for the API server: %w", err)
	}
	preflight := manager.Preflight{Live: live, Mapper: mapper}
	if err := preflight.CheckNamespace(ctx, namespace); err != nil {
		return cluster{}, err
	}
	const hint = "it comes with OpenShift; elsewhere apply its CustomResourceDefinition from github.com/openshift/api first"
	if err := preflight.Require(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"), hint); err != nil {
		return cluster{}, err
	}
	found := cluster{kinds: map[schema.GroupKind]bool{}}
	for kind, version := range clustercsidriver.OptionalKinds() {
		if found.kinds[kind], err = preflight.Serves(kind, version); err != nil {
			return cluster{}, err
		}
	}
	if found.kinds[clustercsidriver.InfrastructureKind()] {
		found.singleNode = preflight.SingleNode(ctx)
	}
	return found, nil
}

func roleVariables(d driver.Driver) []string {
	var names []string
	for _, credentials := range d.Credentials {
		names = append(names, credentials.RoleARNVariable)
	}
	return names
}

func environment(names []string) map[string]string {
	values := map[string]string{}
	for _, name := range names {
		values[name] = os.Getenv(name)
	}
	return values
}
