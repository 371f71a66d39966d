package nodes

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// registrationTime is how long a node pod may be ready before the kubelet has registered its driver. After a failure the kubelet tries again later
// and later: 26 s were seen on a node that was just made, and pauses of 32 s and more come after that.
const registrationTime = 2 * time.Minute

// Unregistered says on which nodes the kubelet has not registered the driver although the node pod is ready: no pod with a volume of the driver
// starts there. It is empty if there are none, and after is when one may be.
func (u *Updater) Unregistered(pods []corev1.Pod) (problem string, after time.Duration) {
	if u.Registered == nil {
		return "", 0
	}
	var missing []string
	for i := range pods {
		pod := &pods[i]
		if !Serves(pod) || u.Registered.Has(pod.Spec.NodeName) {
			continue
		}
		if wait := registrationTime - u.Now().Sub(readinessSince(pod)); wait > 0 {
			after = status.MinRequeue(after, wait)
			continue
		}
		missing = append(missing, pod.Spec.NodeName)
	}
	if len(missing) == 0 {
		return "", after
	}
	slices.Sort(missing)
	return fmt.Sprintf("the node pod is ready, but the CSINode does not list driver %s, and no pod with a volume of it starts on: %s; look at the log "+
		"of container csi-node-driver-registrar of its pod, and at that of the kubelet", u.Driver, status.Shorten(missing)), after
}
