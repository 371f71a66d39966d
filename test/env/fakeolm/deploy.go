package fakeolm

import (
	"context"
	"os"
	"path"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/release/olm"
	"github.com/csi-operators/csi-operators/test/env"
)

// Deploy applies what OLM makes of the bundle of the EFS operator. Its Deployment is left to the nodes of the cluster: real ones run it.
func Deploy(ctx context.Context, cluster *env.Cluster, namespace string) error {
	root, err := env.Root()
	if err != nil {
		return err
	}
	files, err := olm.ReadFiles(os.DirFS(root), path.Join("bundle", env.OperatorName))
	if err != nil {
		return err
	}
	csv, err := ReadBundle(files)
	if err != nil {
		return err
	}
	if err := cluster.Namespace(ctx, namespace); err != nil {
		return err
	}
	objects, err := csv.Objects(namespace, nil)
	if err != nil {
		return err
	}
	for _, object := range slices.Concat(csv.CRDs, objects) {
		configuration := client.ApplyConfigurationFromUnstructured(object)
		if err := cluster.Client.Apply(ctx, configuration, client.FieldOwner(olmManager), client.ForceOwnership); err != nil {
			return err
		}
	}
	return nil
}
