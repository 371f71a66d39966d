package status

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Unready lists the pods that are not ready, sorted. Each entry is "node (reason)". For a pod that has no node yet, the entry has the pod's name
// instead. Pods that are being deleted do not count.
func Unready(pods []corev1.Pod) []string {
	var found []string
	for i := range pods {
		reason := PodProblem(&pods[i])
		if reason == "" || pods[i].DeletionTimestamp != nil {
			continue
		}
		found = append(found, fmt.Sprintf("%s (%s)", cmp.Or(pods[i].Spec.NodeName, pods[i].Name), reason))
	}
	sort.Strings(found)
	return found
}

// Failing reports whether at least one pod is not ready, although it was created StuckAfter ago or earlier.
func Failing(pods []corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && now.Sub(pod.CreationTimestamp.Time) >= StuckAfter && PodProblem(&pod) != ""
	})
}

// PodProblem returns the reason why a pod is not ready, as kubectl shows it. It returns an empty text if the pod is ready.
func PodProblem(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return ""
		}
	}
	if pod.Status.Reason != "" {
		return pod.Status.Reason
	}
	for _, containers := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, container := range containers {
			if problem := containerProblem(container.State); problem != "" {
				return problem
			}
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason != "" {
			return condition.Reason
		}
	}
	return "NotReady"
}

func containerProblem(state corev1.ContainerState) string {
	switch {
	case state.Waiting != nil && state.Waiting.Reason != "PodInitializing":
		return state.Waiting.Reason
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return state.Terminated.Reason
	default:
		return ""
	}
}

// Shorten returns a text with the first five names, and the number of the omitted names.
func Shorten(names []string) string { return ShortenTo(names, 5) }

// ShortenTo returns a text with at most this many names, and the number of the omitted names.
func ShortenTo(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Clip shortens a text to the limit of an event (1024 bytes, KEP-383).
func Clip(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
