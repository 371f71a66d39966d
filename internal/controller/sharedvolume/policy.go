package sharedvolume

import (
	"embed"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/manifest"
)

//go:embed assets
var assets embed.FS

// Policy is the ValidatingAdmissionPolicy that holds new SharedVolumes to AWS's IDs and keeps their spec from being changed,
// and its binding. Namespace is the operator's: its ServiceAccount may put back what was changed before there was a policy.
func Policy(scheme *runtime.Scheme, namespace string) ([]client.Object, error) {
	objects, err := manifest.LoadFile(assets, "assets/policy.yaml", manifest.Values{"NAMESPACE": namespace}, scheme)
	if err != nil {
		return nil, fmt.Errorf("admission policy of SharedVolumes: %w", err)
	}
	return objects, nil
}
