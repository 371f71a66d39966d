package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// FromCluster makes a Source that reads a running cluster. The Source can check an account's permissions, but it can't write.
func FromCluster(cluster client.Client, d driver.Driver) (Source, error) {
	preflight := kube.Preflight{Live: cluster, Mapper: cluster.RESTMapper()}
	kinds, err := watch.ServedKinds(preflight, d)
	if err != nil {
		return Source{}, err
	}
	constraints, err := preflight.Serves(migration.SecurityContextConstraintsKind(), "v1")
	return Source{cluster: readOnly{cluster}, kinds: kinds, constraints: constraints, may: migration.AskAccess(cluster)}, err
}

// fromFolder makes a Source that reads a must-gather folder. If the folder has an Infrastructure, the cluster is OpenShift.
func fromFolder(ctx context.Context, path string, d driver.Driver, warn func(string)) (Source, error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return Source{}, err
	}
	folder, err := mustgather.Open(path, scheme)
	if err != nil {
		return Source{}, fmt.Errorf("must-gather: %w", err)
	}
	for _, name := range folder.Skipped() {
		warn("left out, because it can't be read: " + name)
	}
	if err := warnOfGaps(ctx, folder, warn); err != nil {
		return Source{}, err
	}
	kinds := map[schema.GroupKind]bool{}
	if infrastructure, err := openshift.ReadInfrastructure(ctx, folder); err == nil && infrastructure != nil {
		for kind := range watch.OptionalKinds(d) {
			kinds[kind] = true
		}
	}
	found, err := folder.Client()
	may := func(context.Context, client.ObjectKey, authorizationv1.ResourceAttributes) (bool, error) {
		return true, nil
	}
	return Source{cluster: found, kinds: kinds, constraints: true, may: may}, err
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
		warn(fmt.Sprintf("the folder has no pods of namespaces with EFS volumes: %s. The plan can't tell which nodes they use; "+
			"gather these namespaces with \"oc adm inspect\", too", strings.Join(slices.Sorted(maps.Keys(gaps)), ", ")))
	}
	return nil
}
