package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/manager"
)

// start joins everything: environment, checks, manager, controller.
func start(ctx context.Context, options options) error {
	controller, err := fromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	config, err := manager.Connect(options.Options)
	if err != nil {
		return err
	}
	namespace := manager.Namespace(options.Options)
	cluster, err := look(ctx, config, namespace)
	if err != nil {
		return err
	}
	efs := controller.Driver
	caches := clustercsidriver.CacheOptions(efs, namespace, cluster.kinds)
	maps.Copy(caches, sharedvolume.CacheOptions(efs.Operator, cluster.sharedVolumes, cluster.policies))
	mgr, err := manager.New(config, options.Options, cluster.singleNode, caches)
	if err != nil {
		return err
	}
	secrets, err := clustercsidriver.SecretCaches(mgr, efs, namespace)
	if err != nil {
		return err
	}
	controller.Client, controller.Live, controller.Secrets = mgr.GetClient(), mgr.GetAPIReader(), secrets
	controller.Events = mgr.GetEventRecorder(efs.Operator)
	controller.Namespace, controller.Kinds = namespace, cluster.kinds
	controller.SetLogLevel, controller.Now = options.verbosity.follow, time.Now
	for _, names := range efs.Predecessors {
		predecessor, err := clustercsidriver.WatchPredecessor(mgr, efs, names, namespace, cluster.constraints)
		if err != nil {
			return err
		}
		controller.Predecessors = append(controller.Predecessors, predecessor)
	}
	if err := controller.SetupWithManager(mgr); err != nil {
		return err
	}
	systems, err := lookAtAWS(mgr, controller, os.Getenv)
	if err != nil {
		return err
	}
	if err := serveSharedVolumes(mgr, controller, systems, cluster.policies); err != nil {
		return err
	}
	filled := manager.Filled(append(slices.Collect(maps.Values(secrets)), mgr.GetCache(), systems.Volumes)...)
	if err := errors.Join(mgr.AddHealthzCheck("reconcile", controller.Alive), mgr.AddReadyzCheck("caches", filled)); err != nil {
		return fmt.Errorf("add health checks: %w", err)
	}
	mgr.GetLogger().Info("starting", "driver", efs.Name, "namespace", namespace, "version", os.Getenv("OPERATOR_IMAGE_VERSION"))
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// serveSharedVolumes adds the controllers of SharedVolumes. They begin when the kind is served, now or later.
func serveSharedVolumes(mgr ctrl.Manager, drivers *clustercsidriver.Reconciler, shares sharedvolume.Shares, policies bool) error {
	operator, namespace := drivers.Driver.Operator, drivers.Namespace
	// The first one, the community's operator, serves them as well.
	community := drivers.Predecessors[0]
	shared := &sharedvolume.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(operator), Owner: operator,
		Community: community, Policies: policies, Shares: shares, Now: time.Now,
	}
	volumes := &sharedvolume.VolumeReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Community: community}
	admission := &sharedvolume.AdmissionReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Owner: operator, Namespace: namespace, Policies: policies,
		Serve: func() error { return errors.Join(shared.SetupWithManager(mgr), volumes.SetupWithManager(mgr)) },
	}
	return admission.SetupWithManager(mgr)
}

// cluster is what has to be known before the manager starts.
type cluster struct {
	singleNode bool
	kinds      map[schema.GroupKind]bool
	// constraints tells whether pods are admitted by SecurityContextConstraints.
	constraints bool
	// sharedVolumes and policies tell whether the API server has SharedVolumes, and admission policies.
	sharedVolumes, policies bool
}

// connection reads a cluster without a cache.
type connection struct {
	live      client.Client
	preflight manager.Preflight
}

func connect(config *rest.Config) (connection, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return connection{}, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return connection{}, fmt.Errorf("client for the API server: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return connection{}, fmt.Errorf("discover the API server's kinds: %w", err)
	}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return connection{}, fmt.Errorf("client for the API server: %w", err)
	}
	return connection{live: live, preflight: manager.Preflight{Live: live, Mapper: mapper}}, nil
}

// optionalKinds are those kinds that the cluster need not have, and has.
func (c connection) optionalKinds() (map[schema.GroupKind]bool, error) {
	found := map[schema.GroupKind]bool{}
	for kind, version := range clustercsidriver.OptionalKinds() {
		var err error
		if found[kind], err = c.preflight.Serves(kind, version); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// look checks that the operator can work in this cluster, with a sentence for each thing that can be wrong.
func look(ctx context.Context, config *rest.Config, namespace string) (cluster, error) {
	connected, err := connect(config)
	if err != nil {
		return cluster{}, err
	}
	preflight := connected.preflight
	if err := preflight.CheckNamespace(ctx, namespace); err != nil {
		return cluster{}, err
	}
	const hint = "it comes with OpenShift; elsewhere apply its CustomResourceDefinition from github.com/openshift/api first"
	if err := preflight.Require(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"), hint); err != nil {
		return cluster{}, err
	}
	var found cluster
	if found.kinds, err = connected.optionalKinds(); err != nil {
		return cluster{}, err
	}
	if found.constraints, err = preflight.Serves(clustercsidriver.SecurityContextConstraintsKind(), "v1"); err != nil {
		return cluster{}, err
	}
	if found.policies, err = preflight.Serves(sharedvolume.PolicyKind()); err != nil {
		return cluster{}, err
	}
	if found.sharedVolumes, err = preflight.Serves(sharedvolume.Kind()); err != nil {
		return cluster{}, err
	}
	if found.kinds[clustercsidriver.InfrastructureKind()] {
		found.singleNode = preflight.SingleNode(ctx)
	}
	return found, nil
}

// fromEnvironment makes a controller with all that the environment says, and refuses what is wrong there.
func fromEnvironment(lookup func(variable string) string) (*clustercsidriver.Reconciler, error) {
	efs, err := awsefs.Driver()
	if err != nil {
		return nil, err
	}
	controller := &clustercsidriver.Reconciler{
		Driver:   efs,
		Images:   values(efs.Images(), lookup),
		RoleARNs: values(roleVariables(efs), lookup),
		Version:  lookup("OPERAND_IMAGE_VERSION"),
	}
	if err := efs.CheckImages(controller.Images); err != nil {
		return nil, err
	}
	if controller.Settings, err = efs.ReadSettings(lookup); err != nil {
		return nil, err
	}
	controller.FIPS, err = fipsMode(lookup("FIPS_ENABLED"))
	return controller, err
}

// fipsMode tells whether the nodes run in FIPS mode: as the variable FIPS_ENABLED says, or else as the kernel of the
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

func roleVariables(d driver.Driver) []string {
	var names []string
	for _, credentials := range d.Credentials {
		names = append(names, credentials.RoleARNVariable)
	}
	return names
}

func values(variables []string, lookup func(string) string) map[string]string {
	found := map[string]string{}
	for _, name := range variables {
		found[name] = lookup(name)
	}
	return found
}
