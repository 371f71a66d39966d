package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/watch"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/plugin/mustgather"
)

// Source is the input of a plan.
type Source struct {
	cluster     client.Client
	kinds       map[schema.GroupKind]bool
	constraints bool
	may         func(context.Context, client.ObjectKey, authorizationv1.ResourceAttributes) (bool, error)
}

// FromCluster makes a Source that reads a running cluster. The Source can ask whether a ServiceAccount has a permission. It can't write.
func FromCluster(cluster client.Client, d driver.Driver) (Source, error) {
	preflight := kube.Preflight{Live: cluster, Mapper: cluster.RESTMapper()}
	kinds, err := watch.ServedKinds(preflight, d)
	if err != nil {
		return Source{}, err
	}
	constraints, err := preflight.Serves(migration.SecurityContextConstraintsKind(), "v1")
	return Source{cluster: readOnly{cluster}, kinds: kinds, constraints: constraints, may: migration.AskAccess(cluster)}, err
}

// fromFolder makes a Source that reads a folder or an archive. If the folder has an Infrastructure, fromFolder assumes that the cluster is OpenShift.
// Result "installed" is true if the folder has the ClusterCSIDriver.
func fromFolder(ctx context.Context, path string, d driver.Driver, warn func(string)) (found Source, installed bool, err error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return found, false, err
	}
	folder, err := mustgather.Open(path, scheme)
	if err != nil {
		return found, false, fmt.Errorf("--from: %w", err)
	}
	for _, name := range folder.Skipped() {
		warn("left out, because it can't be read: " + name)
	}
	if err := warnOfGaps(ctx, folder, warn); err != nil {
		return found, false, err
	}
	kinds := map[schema.GroupKind]bool{}
	if infrastructure, err := openshift.ReadInfrastructure(ctx, folder); err == nil && infrastructure != nil {
		for kind := range watch.OptionalKinds(d) {
			kinds[kind] = true
		}
	}
	if found.cluster, err = folder.Client(); err != nil {
		return found, false, err
	}
	may := func(context.Context, client.ObjectKey, authorizationv1.ResourceAttributes) (bool, error) {
		return true, nil
	}
	found.kinds, found.constraints, found.may = kinds, true, may
	err = folder.Get(ctx, client.ObjectKey{Name: d.Name}, &operatorv1.ClusterCSIDriver{})
	return found, err == nil, client.IgnoreNotFound(err) //nolint:wrapcheck // The folder says what failed.
}

// warnOfGaps warns if namespaces have EFS volumes but no pods in the folder. By default, must-gather omits the pods of applications.
func warnOfGaps(ctx context.Context, folder client.Reader, warn func(string)) error {
	volumes, pods := &corev1.PersistentVolumeList{}, &corev1.PodList{}
	if err := errors.Join(folder.List(ctx, volumes), folder.List(ctx, pods)); err != nil {
		return fmt.Errorf("must-gather: %w", err)
	}
	gaps := map[string]bool{}
	for _, volume := range volumes.Items {
		if volume.Spec.CSI != nil && volume.Spec.CSI.Driver == awsefs.Name && volume.Status.Phase == corev1.VolumeBound && volume.Spec.ClaimRef != nil {
			gaps[volume.Spec.ClaimRef.Namespace] = true
		}
	}
	for _, pod := range pods.Items {
		delete(gaps, pod.Namespace)
	}
	if len(gaps) > 0 {
		warn(fmt.Sprintf("the folder has no pods of namespaces with EFS volumes: %s. The plan can't tell which nodes use these volumes; "+
			"also gather these namespaces, with \"oc adm inspect\"", strings.Join(slices.Sorted(maps.Keys(gaps)), ", ")))
	}
	return nil
}
