package nodes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
	// pullRoom is how long a pod that pulls images may remain unscheduled, for example because its node lacks room. After this time, the operator
	// replaces the node pod without pulling the images first.
	pullRoom = 2 * time.Minute
	// pullInterval is the time between two checks of the pods that pull images. A check costs no request.
	pullInterval = 5 * time.Second
	// missingConfigMap is the name of a ConfigMap that does not exist, so that no container of a pod that pulls images ever starts. The kubelet's event
	// contains this name, so the name says what the pod is for.
	missingConfigMap = "this-pod-only-pulls-images"
	// pullTemplate is the label of pods that pull images. Its value is the hash of the template whose images they pull.
	pullTemplate = "operator.openshift.io/node-pod-template"
)

// pull is the state of pulling the new images on one node. done is true if the node has the images, or if the pod that pulls them found no room on
// the node.
type pull struct {
	since time.Time
	done  bool
	// failed is the kubelet's message about the first failure of the pull. It is empty if the pull has not failed. The kubelet retries, so a failed pull
	// can still succeed.
	failed string
}

// pull chooses nodes in use on which pods pull the images of the new node pod. Once a node has the images, the operator replaces its node pod. At
// most Plan.Most nodes pull images at a time. The next nodes follow when these nodes have their new node pod.
func (s *state) pull(plan *Plan, seen facts) {
	s.pulls = maps.Clone(s.pulls)
	maps.DeleteFunc(s.pulls, func(name string, _ pull) bool { return !plan.wantsImages(name) })
	pulling, failed, done := false, []string{}, false
	for _, name := range slices.Sorted(maps.Keys(s.pulls)) {
		next := s.pulls[name].next(seen.pulls[name], seen.now)
		s.pulls[name] = next
		switch {
		case next.done:
			done = true
		case next.failed != "":
			failed = append(failed, name)
		default:
			pulling = true
		}
	}
	if !pulling {
		s.batch = failed
		if !done && (len(failed) == 0 || plan.Now) {
			s.pullMore(plan, seen.now)
		}
	}
	for _, name := range plan.Named((*Node).waits) {
		if next := s.pulls[name]; plan.wantsImages(name) && !next.done {
			plan.Nodes[name].AwaitsImages = true
			if next.failed != "" {
				plan.PullFailed = append(plan.PullFailed, fmt.Sprintf("%s (%s)", name, next.failed))
			} else if !next.since.IsZero() {
				plan.Pulling = append(plan.Pulling, name)
			}
		}
	}
}

// pullMore adds the next nodes to the batch of nodes on which pods pull the new images.
func (s *state) pullMore(plan *Plan, now time.Time) {
	next := plan.candidates()
	if !plan.Proven {
		next = plan.canary()
	}
	images := map[string]bool{}
	for _, name := range next {
		if _, known := s.pulls[name]; known || !plan.wantsImages(name) || len(s.batch) >= plan.Most() {
			continue
		}
		if s.pulls == nil {
			s.pulls = map[string]pull{}
		}
		s.pulls[name], s.batch = pull{since: now}, append(s.batch, name)
	}
	for _, name := range s.batch {
		for _, image := range plan.Nodes[name].NewImages {
			images[image] = true
		}
	}
	if len(images) > 0 {
		s.images = slices.Sorted(maps.Keys(images))
	}
	slices.Sort(s.batch)
}

// next returns the state of the pull after a check of the pod that pulls the images. pod is nil if the node has no such pod.
func (p pull) next(pod *corev1.Pod, now time.Time) pull {
	switch {
	case p.done:
	case pod == nil || pod.Spec.NodeName == "":
		p.done = now.Sub(p.since) >= pullRoom
	case hasImages(pod):
		p.done, p.failed = true, ""
	case p.failed == "":
		p.failed = pullProblem(pod)
	}
	return p
}

// hasImages reports whether the kubelet has the images of all containers. The kubelet pulls an image before it makes the container's configuration.
// So an error of the configuration shows that the image is there. After such an error, the kubelet continues with the next container (Kubernetes
// v1.36.3, pkg/kubelet/kuberuntime: startContainer, and step 9 of SyncPod).
func hasImages(pod *corev1.Pod) bool {
	pulled := []string{"CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "RunContainerError", "CrashLoopBackOff"}
	lacks := slices.ContainsFunc(pod.Status.ContainerStatuses, func(container corev1.ContainerStatus) bool {
		state := container.State
		return state.Running == nil && state.Terminated == nil && (state.Waiting == nil || !slices.Contains(pulled, state.Waiting.Reason))
	})
	return !lacks && len(pod.Status.ContainerStatuses) > 0
}

// pullProblem returns the kubelet's message about a pull that fails repeatedly. The message names the image. It is empty if the pull has not failed
// repeatedly.
func pullProblem(pod *corev1.Pod) string {
	// These are reasons of Kubernetes v1.36.3, pkg/kubelet/images/types.go.
	hopeless := []string{"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil && slices.Contains(hopeless, waiting.Reason) {
			return status.Clip(strings.Join(append([]string{waiting.Reason + ":"}, strings.Fields(waiting.Message)...), " "))
		}
	}
	return ""
}

// wantsImages reports whether a node must have the new images before the operator replaces its node pod. The node must have them if it is in use, and
// if its node pod serves.
func (p Plan) wantsImages(name string) bool {
	node := p.Nodes[name]
	return node != nil && node.Outdated != nil && node.waits() && node.Serves && node.InUse() && len(node.NewImages) > 0 && !p.keeps(node)
}

// newImages maps the hash of each template to the images of the newest template that this template lacks. The key "" is for unknown templates. A node
// keeps the images of its running containers, so no pod has to pull these images.
func newImages(daemonSet *appsv1.DaemonSet, templates map[string]string) map[string][]string {
	all := imagesOf(daemonSet.Spec.Template.Spec)
	found := map[string][]string{"": all}
	for hash, text := range templates {
		revision := appsv1.DaemonSet{}
		if json.Unmarshal([]byte(text), &revision) != nil {
			continue
		}
		has := imagesOf(revision.Spec.Template.Spec)
		found[hash] = slices.DeleteFunc(slices.Clone(all), func(image string) bool { return slices.Contains(has, image) })
	}
	return found
}

// imagesOf returns the images of a pod, sorted.
func imagesOf(pod corev1.PodSpec) []string {
	images := map[string]bool{}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		images[container.Image] = true
	}
	return slices.Sorted(maps.Keys(images))
}

// imagePods returns the DaemonSet whose pods pull images on these nodes. The containers of these pods never start. The DaemonSet has an owner
// reference to the DaemonSet of the node pods, so Kubernetes deletes both together. The pods have the ServiceAccount of the node pods, and so the
// pull secrets of that ServiceAccount.
func imagePods(of *appsv1.DaemonSet, hash string, nodes, images []string) *appsv1.DaemonSet {
	name, template := driver.ImagesOf(of.Name), of.Spec.Template.Spec
	made := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"}}
	made.Namespace, made.Name = of.Namespace, name
	made.Labels = map[string]string{openshift.ManagedByLabel: of.Labels[openshift.ManagedByLabel]}
	made.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet", Name: of.Name, UID: of.UID,
	}}
	made.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	// With OnDelete, a changed list of nodes does not restart the pods on nodes that are in the old list and in the new list.
	made.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	pod := &made.Spec.Template
	pod.Labels = map[string]string{"app": name, pullTemplate: hash}
	pod.Annotations = map[string]string{"openshift.io/required-scc": "restricted-v2"}
	pod.Spec = corev1.PodSpec{
		ServiceAccountName: template.ServiceAccountName, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		ImagePullSecrets: template.ImagePullSecrets, NodeSelector: template.NodeSelector, Tolerations: template.Tolerations,
		TerminationGracePeriodSeconds: new(int64(1)), Affinity: onNodes(nodes),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	for i, image := range images {
		pod.Spec.Containers = append(pod.Spec.Containers, puller(fmt.Sprintf("image-%d", i), image))
	}
	return made
}

// puller returns a container that never starts, because its ConfigMap does not exist.
func puller(name, image string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Env: []corev1.EnvVar{{Name: "NEVER", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: missingConfigMap}, Key: "none",
		}}}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi"),
		}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// onNodes selects nodes by name. A NodeSelectorTerm can name only one node.
func onNodes(names []string) *corev1.Affinity {
	chosen := &corev1.NodeSelector{}
	for _, name := range names {
		chosen.NodeSelectorTerms = append(chosen.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
		}}})
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: chosen}}
}
