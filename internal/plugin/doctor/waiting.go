package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// mostWaiting is the largest number of waiting pods that doctor checks in one run. Each pod costs some requests.
const mostWaiting = 10

// patience is how long a pod may wait before doctor checks it. Mounting a volume takes the kubelet some seconds.
const patience = time.Minute

// waitingPod is a pod that waits for its volumes, with the findings about it.
type waitingPod struct {
	pod      string
	findings []Finding
}

// readWaiting checks pods that wait for volumes. If the subject is a node, these are the pods of this node. If the subject is a bound volume, these
// are the pods that use its PersistentVolumeClaim. Without a subject, these are all pods with a volume of a driver.
func (r *reader) readWaiting(ctx context.Context) {
	s, uses := r.subject, r.usesDriver
	where := client.MatchingFields{"status.phase": string(corev1.PodPending)}
	namespace := ""
	switch {
	case s == nil:
	case s.kind == kindNode && s.node != nil:
		where["spec.nodeName"] = s.name
		uses = func(pod *corev1.Pod) bool { return len(volume.PVCsOf(pod)) > 0 || hasInline(pod) }
	case s.isMounted():
		namespace = s.namespace
		uses = func(pod *corev1.Pod) bool { return slices.Contains(volume.PVCsOf(pod), s.claims[0].name) }
	default:
		return
	}
	pods := &corev1.PodList{}
	r.list("waiting pods", func() (plugin.Answer, error) { return r.TryList(ctx, pods, where, client.InNamespace(namespace)) })
	found := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !waitsForVolumes(&pod, r.now) || !uses(&pod) })
	slices.SortStableFunc(found, func(a, b corev1.Pod) int {
		// Pods with a node come first, because only these pods have reached the driver.
		return cmp.Or(cmp.Compare(min(len(b.Spec.NodeName), 1), min(len(a.Spec.NodeName), 1)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	for i := range found {
		name := found[i].Namespace + "/" + found[i].Name
		if i >= mostWaiting {
			r.unchecked = append(r.unchecked, name)
			continue
		}
		r.waiting = append(r.waiting, waitingPod{pod: name, findings: r.findingsOf(ctx, &found[i])})
	}
}

// isMounted reports whether pods can mount the subject's volume. The subject must be a PersistentVolumeClaim, a PersistentVolume or a SharedVolume,
// and its claim must be Bound.
func (s *subject) isMounted() bool {
	if !slices.Contains([]string{kindClaim, kindVolume, kindShared}, s.kind) || len(s.claims) == 0 || s.claims[0].pvc == nil {
		return false
	}
	pvc := s.claims[0].pvc
	return pvc.Status.Phase == corev1.ClaimBound && pvc.DeletionTimestamp == nil
}

// usesDriver reports whether a pod uses a volume of a driver of the cluster.
func (r *reader) usesDriver(pod *corev1.Pod) bool {
	known := func(driver string) bool { return driver != "" && r.driver(driver) != nil }
	return slices.ContainsFunc(volume.PVCsOf(pod), func(name string) bool {
		return known(r.driverOf[types.NamespacedName{Namespace: pod.Namespace, Name: name}])
	}) || slices.ContainsFunc(pod.Spec.Volumes, func(one corev1.Volume) bool { return known(volume.InlineDriverOf(&one)) })
}

// readVolumes sets the facts about all PersistentVolumes and PersistentVolumeClaims: failed, refused, unbound and driverOf.
func (r *reader) readVolumes(ctx context.Context) {
	volumes, claims := &corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}
	r.list("PersistentVolumes", func() (plugin.Answer, error) { return r.TryList(ctx, volumes) })
	r.list("PersistentVolumeClaims", func() (plugin.Answer, error) { return r.TryList(ctx, claims) })
	drivers, takes := map[string]string{}, map[string]accept.Table{}
	for i := range volumes.Items {
		one := &volumes.Items[i]
		drivers[one.Name] = volume.DriverOf(one)
		if one.Status.Phase == corev1.VolumeFailed {
			r.failed = append(r.failed, *one)
		}
		if one.Spec.CSI == nil {
			continue
		}
		if _, is := takes[one.Spec.CSI.Driver]; !is {
			takes[one.Spec.CSI.Driver] = r.accepts(one.Spec.CSI.Driver)
		}
		if problems := refusedIn(takes[one.Spec.CSI.Driver], one); len(problems) > 0 {
			r.refused = append(r.refused, one.Name+" ("+problems[0].What+")")
		}
	}
	r.driverOf = map[types.NamespacedName]string{}
	for i := range claims.Items {
		one := &claims.Items[i]
		r.driverOf[client.ObjectKeyFromObject(one)] = drivers[one.Spec.VolumeName]
		if one.Spec.VolumeName == "" {
			r.driverOf[client.ObjectKeyFromObject(one)] = r.provisioner(one.Spec.StorageClassName)
		}
		if one.Status.Phase != corev1.ClaimBound {
			r.unbound = append(r.unbound, one.Namespace+"/"+one.Name)
		}
	}
	slices.Sort(r.unbound)
}

// provisioner returns the driver of a class, also of one with an in-tree provisioner. If the cluster has no such class, the result is empty.
func (r *reader) provisioner(class *string) string {
	for i := range r.classes.items {
		if class != nil && r.classes.items[i].Name == *class {
			return volume.Provisioner(r.classes.items[i].Provisioner)
		}
	}
	return ""
}

func hasInline(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(one corev1.Volume) bool { return volume.InlineDriverOf(&one) != "" })
}

// waitsForVolumes reports whether a pod has waited for its volumes, or for a node, for at least the time patience. A pod with condition
// PodReadyToStartContainers does not wait, because the kubelet mounts the volumes before it creates the pod's sandbox (Kubernetes v1.36.3,
// pkg/kubelet/kubelet.go, SyncPod).
func waitsForVolumes(pod *corev1.Pod, now time.Time) bool {
	since := pod.CreationTimestamp.Time
	for _, one := range pod.Status.Conditions {
		switch {
		case one.Type == corev1.PodReadyToStartContainers && one.Status == corev1.ConditionTrue:
			return false
		case one.Type == corev1.PodScheduled && one.Status == corev1.ConditionTrue:
			since = one.LastTransitionTime.Time
		}
	}
	return pod.DeletionTimestamp == nil && isCreating(pod) && now.Sub(since) >= patience
}

// findingsOf runs the checks for one pod, and drops findings of severity Info. If the pod has no node, findingsOf returns only errors, because most
// such pods wait for something other than storage.
func (r *reader) findingsOf(ctx context.Context, pod *corev1.Pod) []Finding {
	inner := &reader{Cluster: r.Cluster, logs: r.logs, facts: &facts{
		Survey: r.Survey, now: r.now, classes: r.classes, nodes: r.nodes, csiNodes: r.csiNodes, olm: r.olm,
		subject: &subject{kind: kindPod, namespace: pod.Namespace, name: pod.Name},
	}}
	inner.Failures = nil
	inner.readSubject(ctx)
	inner.log = inner.readLogs(ctx)
	r.Failures = append(r.Failures, inner.Failures...)
	return slices.DeleteFunc(diagnose(inner.facts), func(one Finding) bool {
		return one.Severity != Error && (pod.Spec.NodeName == "" || one.Severity == Info)
	})
}

// waitingPods makes one finding for each cause for which pods wait. The finding names these pods.
func waitingPods(f *facts) []Finding {
	var all []Finding
	pods := map[string][]string{}
	for _, one := range f.waiting {
		for _, found := range one.findings {
			found.general, found.symptom = false, false
			if found.level >= ofVolume {
				// findingsOf has already dropped the findings that another finding about the same pod explains. Give this finding a topic of its own, so that no
				// finding about another pod explains it.
				found.topic, found.effects = topicOf("waiting", found.topic, found.Cause), nil
			}
			if pods[found.topic] = append(pods[found.topic], one.pod); len(pods[found.topic]) == 1 {
				all = append(all, found)
			}
		}
	}
	for i := range all {
		said := "waiting pods: " + status.Shorten(pods[all[i].topic])
		all[i].Said = strings.TrimPrefix(fmt.Sprintf("%s; %s", all[i].Said, said), "; ")
	}
	return all
}
