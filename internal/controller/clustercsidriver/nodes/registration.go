package nodes

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// registrationTime is how long the kubelet may take to register the driver of a ready node pod. The kubelet retries with growing pauses: one new node
// took 26 s, and pauses of 32 s and more can follow.
const registrationTime = 2 * time.Minute

// Unregistered names the nodes whose kubelet has not registered the driver although the node pod is ready. It returns an empty string if no such node
// exists. Result "after" is the time until the next check.
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
	return fmt.Sprintf("pods with volumes of driver %s can't start on %s: the node pod is ready there, but the CSINode does not list the driver. Look "+
		"at the logs of the kubelet and of container csi-node-driver-registrar in the node pod", u.Driver, status.Shorten(missing)), after
}
