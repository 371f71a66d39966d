package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// releaseLabel is a label that Helm charts and kustomize files of drivers set on all pods and in all selectors. This operator can't adopt pods with
// this label.
const releaseLabel = "app.kubernetes.io/instance"

// findBlocker looks for the two things that block the installation of the driver: another operator, which would undo our changes, and another node
// pod, which would replace our socket. If our DaemonSet exists, findBlocker looks only for another operator, and checks whether a Helm chart
// installed the DaemonSet.
func (m *Migration) findBlocker(ctx context.Context, cr *operatorv1.ClusterCSIDriver, ours *appsv1.DaemonSet, state *State) error {
	for _, predecessor := range m.Predecessors {
		running, err := predecessor.running(ctx)
		if err != nil {
			return err
		}
		if running != nil {
			m.ran, m.clear = true, ""
			state.SharesStatus = predecessor.Operator == m.Driver.Operator
			state.Blocker, err = m.whileRunning(ctx, predecessor, running)
			return err
		}
	}
	if ours != nil {
		if selector := ours.Spec.Selector; selector != nil && selector.MatchLabels[releaseLabel] != "" {
			state.Blocker = fmt.Sprintf("waiting for the removal of DaemonSet %s/%s%s", ours.Namespace, ours.Name,
				ofRelease(selector.MatchLabels[releaseLabel], ours.Namespace))
		}
		return nil
	}
	evidence, err := m.evidence(ctx, cr, *state)
	if err != nil || evidence == "" || evidence == m.clear {
		return err
	}
	if err := m.findPods(ctx, state); err != nil || state.Blocked() {
		return err
	}
	m.clear = evidence
	return nil
}

// whileRunning returns the message about a running predecessor.
func (m *Migration) whileRunning(ctx context.Context, predecessor *Predecessor, running *appsv1.Deployment) (string, error) {
	if predecessor.Operator == m.Driver.Operator {
		all, err := predecessor.deployments(ctx)
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(all, func(one appsv1.Deployment) bool { return predecessor.isSelf(&one) }) {
			return fmt.Sprintf("this operator changes nothing while Deployment %s/%s runs: it is OpenShift's operator or another copy of this operator, "+
				"and each would revert the other's changes. Delete the Subscription of package %s in namespace %s, and then its ClusterServiceVersion. "+
				"Without a Subscription, delete the Deployment", running.Namespace, running.Name, predecessor.Package, running.Namespace), nil
		}
		// Both operators may be copies of this program. In that case, each copy writes a message into the same condition. The messages must be the same.
		// Otherwise each copy would overwrite the message of the other copy for ever.
		both := []string{running.Namespace + "/" + running.Name, m.Namespace + "/" + m.Driver.Operator}
		slices.Sort(both)
		return fmt.Sprintf("this operator changes nothing while both Deployments %s run: each would revert the other's changes. The driver keeps running. "+
			"One of them may be OpenShift's operator. Decide which one to keep. In the namespace of the other, delete the Subscription of package %s, and "+
			"then its ClusterServiceVersion. Without a Subscription, delete the Deployment. Keep this ClusterCSIDriver",
			strings.Join(both, " and "), predecessor.Package), nil
	}
	return fmt.Sprintf("this operator changes nothing while Deployment %s/%s runs: %s would revert this operator's changes to the driver, and replace "+
		"node pods immediately, even where pods use volumes. To continue, %s. Don't delete SharedVolumes or their CustomResourceDefinition",
		running.Namespace, running.Name, predecessor.Title, predecessor.howToStop(running)), nil
}

// findPods reads live for pods that block an installation: pods of operators whose Deployment is deleted, and node pods that would run beside ours.
func (m *Migration) findPods(ctx context.Context, state *State) error {
	for _, predecessor := range m.Predecessors {
		message, err := m.lastPods(ctx, predecessor)
		if err != nil || message != "" {
			state.Blocker, state.SharesStatus = message, predecessor.Operator == m.Driver.Operator
			return err
		}
	}
	var err error
	state.Blocker, err = m.strays(ctx, *state)
	return err
}

// lastPods returns a message with the running pods of a predecessor whose Deployment is deleted. The message is empty if there are no such pods.
func (m *Migration) lastPods(ctx context.Context, predecessor *Predecessor) (string, error) {
	younger, err := predecessor.younger(ctx)
	if err != nil {
		return "", err
	}
	pods := &corev1.PodList{}
	if err := m.Live.List(ctx, pods, client.MatchingFields{"spec.serviceAccountName": predecessor.Operator}); err != nil {
		return "", fmt.Errorf("look for pods of %s: %w", predecessor.Title, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		isSelf := predecessor.Operator == m.Driver.Operator && pod.Namespace == m.Namespace
		if isSelf || pod.Spec.NodeName == "" || volume.HasEnded(pod) || slices.Contains(younger, pod.Namespace) {
			continue
		}
		may, err := predecessor.may(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName})
		if err != nil {
			return "", err
		}
		if may {
			return fmt.Sprintf("waiting until Pod %s/%s ends: %s would revert this operator's changes to the driver. If the pod stays: "+
				"oc delete pod %s -n %s", pod.Namespace, pod.Name, predecessor.Title, pod.Name, pod.Namespace), nil
		}
	}
	return "", nil
}

// strays returns a message with the node pods that would run beside our node pods. Such a pod is in another namespace, or has no DaemonSet that this
// operator can adopt. The message is empty if no such pod exists.
func (m *Migration) strays(ctx context.Context, state State) (string, error) {
	found, err := m.strayPods(ctx, state)
	if err != nil || len(found) == 0 {
		return "", err
	}
	namespace, release := "", client.ObjectKey{}
	names := make([]string, 0, len(found))
	for _, pod := range found {
		names = append(names, pod.Namespace+"/"+pod.Name)
		if name := pod.Labels[releaseLabel]; name != "" {
			release = client.ObjectKey{Namespace: pod.Namespace, Name: name}
		}
		if pod.Namespace != m.Namespace {
			namespace = cmp.Or(namespace, pod.Namespace)
		}
	}
	slices.Sort(names)
	text := fmt.Sprintf("waiting for the removal of %d node pods of a predecessor, because two node pods on one "+
		"node would replace each other's sockets: %s",
		len(names), status.Shorten(names))
	switch {
	case release.Name != "":
		text += ofRelease(release.Name, release.Namespace)
	case m.active(namespace):
		text += fmt.Sprintf(". Their priority is lower than that of this operator's node pods: the scheduler would evict them immediately, and volumes "+
			"could not be mounted or unmounted until the new pods run. Drain the nodes and delete DaemonSet %s/%s, or set annotation %s=true on "+
			"ClusterCSIDriver %s",
			namespace, m.Driver.DaemonSet, AcceptRemountAnnotation, m.Driver.Name)
	case slices.Contains(m.Driver.OldNamespaces(), namespace):
		text += fmt.Sprintf(". To let this operator replace them one by one, bind ClusterRole %s to its ServiceAccount %s/%s in namespace %s; the "+
			"cluster-storage-operator does this when it starts", m.Driver.NamespaceRole(), m.Namespace, m.Driver.Operator, namespace)
	case namespace != "":
		text += fmt.Sprintf(". Only an operator in their namespace can replace them one by one: install it into namespace %s instead of %s. Or drain the "+
			"nodes where pods use volumes of the driver, and then delete the DaemonSet of these node pods", namespace, m.Namespace)
	}
	return text, nil
}

// ofRelease returns the advice to uninstall the upstream chart. This operator can't adopt the chart's DaemonSet, because the selector has labels of
// the chart and is immutable. To delete only the DaemonSet is not enough, because the chart's controller would keep running
// (kubernetes-sigs/aws-efs-csi-driver v3.4.1, charts/aws-efs-csi-driver).
func ofRelease(release, namespace string) string {
	return fmt.Sprintf(". This operator can't adopt workloads of Helm release %s/%s or of kustomize. When no pod uses volumes of the driver, "+
		"uninstall all of it: helm -n %s uninstall %s. PersistentVolumes and PVCs stay. See docs/guide/from-the-helm-chart.md",
		namespace, release, namespace, release)
}

func (m *Migration) strayPods(ctx context.Context, state State) ([]corev1.Pod, error) {
	existing := &appsv1.DaemonSet{}
	err := m.Live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Driver.DaemonSet}, existing)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read DaemonSet %s: %w", m.Driver.DaemonSet, err)
	}
	plugins, err := m.plugins(ctx)
	return slices.DeleteFunc(plugins, func(pod corev1.Pod) bool {
		if volume.HasEnded(&pod) || m.active(pod.Namespace) && (state.accepted || !lowPriority(&pod)) {
			// The pod is no stray, because it has finished or the migration replaces it.
			return true
		}
		if pod.Namespace != m.Namespace {
			return false
		}
		owner := metav1.GetControllerOf(&pod)
		switch {
		case pod.Labels["app"] != m.Driver.DaemonSet:
			// The pod is no stray, because our node pod waits until the predecessor's pod has left the node.
			return true
		case owner == nil:
			// The pod is no stray, because our DaemonSet adopts the pod. It does not adopt a pod that is being deleted.
			return pod.DeletionTimestamp == nil
		default:
			return owner.UID == existing.UID
		}
	}), err
}

// plugins lists node pods of the driver in all namespaces, whoever owns them.
func (m *Migration) plugins(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := m.Live.List(ctx, pods, client.MatchingLabelsSelector{Selector: driver.WithApp(m.Driver.NodeApps()...)}); err != nil {
		return nil, fmt.Errorf("look for node pods in all namespaces: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Spec.NodeName == "" || !m.Driver.MountsSocket(pod.Spec.Volumes)
	}), nil
}
