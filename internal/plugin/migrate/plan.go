package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube"
)

// Plan returns the changes that an operator in the namespace would make. If namespace is empty, Plan uses the namespace of the running operator, or
// else the namespace of the predecessor. Plan assumes the operator's default settings.
func Plan(ctx context.Context, source Source, d driver.Driver, namespace string) (migration.Plan, error) {
	controller, err := previewer(ctx, source, d, namespace)
	if err != nil {
		return migration.Plan{}, err
	}
	plan, err := controller.Preview(ctx)
	if err != nil {
		return plan, fmt.Errorf("read the cluster: %w", err)
	}
	return plan, addSharedVolumes(ctx, controller.Client, &plan)
}

// previewer makes a controller that serves only Preview.
func previewer(ctx context.Context, source Source, d driver.Driver, namespace string) (*clustercsidriver.Reconciler, error) {
	controller, err := clustercsidriver.New(d, func(variable string) string {
		if !strings.HasSuffix(variable, "_IMAGE") {
			return ""
		}
		// The plan does not depend on images.
		return "unknown"
	})
	if err != nil {
		return nil, err
	}
	moves := controller.Migration
	controller.Client, controller.Kinds = source.cluster, source.kinds
	controller.Live, controller.Now = controller.Client, time.Now
	moves.Client, moves.Live, moves.Now = controller.Client, controller.Client, time.Now
	if controller.Namespace = namespace; controller.Namespace == "" {
		controller.Namespace, err = moves.OperatorNamespace(ctx)
	}
	if controller.Namespace == "" {
		controller.Namespace = kube.DefaultNamespace
	}
	moves.Namespace = controller.Namespace
	keys := controller.Credentials
	keys.Client, keys.Namespace, keys.Kinds = controller.Client, controller.Namespace, controller.Kinds
	inputs := controller.Derived
	inputs.Client, inputs.Live, inputs.Namespace, inputs.Kinds = controller.Client, controller.Live, controller.Namespace, controller.Kinds
	for _, names := range d.Predecessors {
		moves.Predecessors = append(moves.Predecessors, &migration.Predecessor{
			Predecessor: names, Reader: controller.Client, May: source.may, Driver: d, Namespace: controller.Namespace,
			Constraints: source.constraints,
		})
	}
	return controller, err
}

// addSharedVolumes adds to the plan the SharedVolumes, PVs and PVCs that the operator would adopt.
func addSharedVolumes(ctx context.Context, reader client.Client, plan *migration.Plan) error {
	changed, err := sharedvolume.Preview(ctx, reader)
	if err != nil {
		return fmt.Errorf("plan the migration of SharedVolumes: %w", err)
	}
	for _, object := range changed {
		kind, err := apiutil.GVKForObject(object, reader.Scheme())
		if err != nil {
			return fmt.Errorf("kind of %T %s: %w", object, object.GetName(), err)
		}
		plan.Objects = append(plan.Objects, migration.PlannedObject{
			Action: migration.PlanAdopt, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		})
	}
	plan.Sort()
	return nil
}
