package clustercsidriver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/status"
	"github.com/csi-operators/csi-operators/internal/volume"
)

// obstacle says what keeps the driver from being applied: to work beside an older operator would be a fight, and two plugins on
// a node take each other's sockets.
type obstacle struct {
	// message is empty if nothing is in the way.
	message string
	// sharesStatus means that somebody else writes the same conditions.
	sharesStatus bool
}

// obstacle looks for one. What is in the way only of a first installation is not looked for any more after that.
func (r *Reconciler) obstacle(ctx context.Context) (obstacle, error) {
	_, daemonSet, err := r.newestWorkloads(ctx)
	if err != nil {
		return obstacle{}, err
	}
	installed := daemonSet != nil
	for _, predecessor := range r.Predecessors {
		isNamesake := predecessor.Operator == r.Driver.Operator
		running, err := predecessor.running(ctx)
		if err != nil {
			return obstacle{}, err
		}
		switch {
		case running != nil && isNamesake:
			// It may be another one of this operator, which says the same. Two messages would be written in turns for ever.
			both := []string{running.Namespace + "/" + running.Name, r.Namespace + "/" + r.Driver.Operator}
			slices.Sort(both)
			return obstacle{sharesStatus: true, message: fmt.Sprintf("Deployments %s would undo each other's work; what is installed goes on "+
				"running. To go on, remove one of them, which may be OpenShift's operator: delete the Subscription of package %s in its "+
				"namespace, and then the ClusterServiceVersion, or, if there are none, the Deployment. Keep this ClusterCSIDriver",
				strings.Join(both, " and "), predecessor.Package)}, nil
		case running != nil:
			return obstacle{message: fmt.Sprintf("waiting for the end of Deployment %s/%s, %s, which would change the "+
				"driver back: it replaces node pods at once, also where pods use volumes. To go on, %s. Delete neither SharedVolumes nor their "+
				"CustomResourceDefinition", running.Namespace, running.Name, predecessor.Title, predecessor.howToStop(running))}, nil
		}
		if installed {
			continue
		}
		message, err := r.lastPods(ctx, predecessor)
		if err != nil || message != "" {
			return obstacle{message: message, sharesStatus: isNamesake}, err
		}
	}
	if installed {
		return obstacle{}, nil
	}
	message, err := r.strays(ctx)
	return obstacle{message: message}, err
}

// lastPods names pods of a predecessor that work on although their Deployment has gone.
func (r *Reconciler) lastPods(ctx context.Context, predecessor *Predecessor) (string, error) {
	younger, err := predecessor.younger(ctx)
	if err != nil {
		return "", err
	}
	pods := &corev1.PodList{}
	if err := r.Live.List(ctx, pods, client.MatchingFields{"spec.serviceAccountName": predecessor.Operator}); err != nil {
		return "", fmt.Errorf("look for pods of %s: %w", predecessor.Title, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		isSelf := predecessor.Operator == r.Driver.Operator && pod.Namespace == r.Namespace
		if isSelf || pod.Spec.NodeName == "" || volume.IsFinished(pod) || slices.Contains(younger, pod.Namespace) {
			continue
		}
		may, err := predecessor.may(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName})
		if err != nil {
			return "", err
		}
		if may {
			return fmt.Sprintf("waiting for the end of Pod %s/%s of %s, which would change the driver back", pod.Namespace, pod.Name, predecessor.Title), nil
		}
	}
	return "", nil
}

// strays names node pods beside which ours would run: in another namespace, or without the DaemonSet that ours is made from.
func (r *Reconciler) strays(ctx context.Context) (string, error) {
	found, err := r.strayPods(ctx)
	if err != nil || len(found) == 0 {
		return "", err
	}
	elsewhere := ""
	names := make([]string, 0, len(found))
	for _, pod := range found {
		names = append(names, pod.Namespace+"/"+pod.Name)
		if pod.Namespace != r.Namespace {
			elsewhere = cmp.Or(elsewhere, pod.Namespace)
		}
	}
	slices.Sort(names)
	text := fmt.Sprintf("waiting for the end of %d node pods of a former operator, as two on a node would take each other's sockets: %s",
		len(names), status.Shorten(names))
	switch {
	case r.elsewhere.active(elsewhere):
		text += fmt.Sprintf(". Their priority is lower than that of ours, so that the scheduler would end them at once, and nothing would be "+
			"mounted or unmounted meanwhile. Drain the nodes and delete DaemonSet %s/%s, or set annotation %s=true on ClusterCSIDriver %s",
			elsewhere, r.Driver.DaemonSet, AcceptRemountAnnotation, r.Driver.Name)
	case slices.Contains(r.Driver.OldNamespaces(), elsewhere):
		text += fmt.Sprintf(". To let this operator replace them one by one, bind ClusterRole %s to its ServiceAccount %s/%s in namespace %s, "+
			"which the cluster-storage-operator does when it starts", r.Driver.NamespaceRole(), r.Namespace, r.Driver.Operator, elsewhere)
	case elsewhere != "":
		text += fmt.Sprintf(". Install this operator into namespace %s, where it takes their DaemonSet over; or delete that when no pod uses "+
			"EFS volumes", elsewhere)
	}
	return text, nil
}

func (r *Reconciler) strayPods(ctx context.Context) ([]corev1.Pod, error) {
	existing := &appsv1.DaemonSet{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Driver.DaemonSet}, existing)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read DaemonSet %s: %w", r.Driver.DaemonSet, err)
	}
	plugins, err := r.plugins(ctx)
	return slices.DeleteFunc(plugins, func(pod corev1.Pod) bool {
		if volume.IsFinished(&pod) || r.elsewhere.active(pod.Namespace) && (r.elsewhere.accepted || !weak(&pod)) {
			// Where the operator may, it replaces them.
			return true
		}
		if pod.Namespace != r.Namespace {
			return false
		}
		owner := metav1.GetControllerOf(&pod)
		switch {
		case pod.Labels["app"] != r.Driver.DaemonSet:
			// Ours wait for their nodes.
			return true
		case owner == nil:
			// Ours adopts it, unless it is on its way out.
			return pod.DeletionTimestamp == nil
		default:
			return owner.UID == existing.UID
		}
	}), err
}

// plugins are node pods of the driver in all namespaces, whosever. Anybody can label a pod, but few may mount the driver's socket.
func (r *Reconciler) plugins(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := r.Live.List(ctx, pods, client.MatchingLabelsSelector{Selector: withApp(r.Driver.NodeApps())}); err != nil {
		return nil, fmt.Errorf("look for node pods in all namespaces: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Spec.NodeName == "" || !mountsSocket(pod.Spec.Volumes, r.Driver.Name)
	}), nil
}

// mountsSocket tells whether volumes have the folder of the driver's socket on the host.
func mountsSocket(volumes []corev1.Volume, driverName string) bool {
	return slices.ContainsFunc(volumes, func(volume corev1.Volume) bool {
		return volume.HostPath != nil && strings.HasSuffix(strings.TrimSuffix(volume.HostPath.Path, "/"), "/plugins/"+driverName)
	})
}
