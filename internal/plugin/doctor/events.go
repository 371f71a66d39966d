package doctor

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// events makes findings from the events of type Warning about a subject that does not work.
func events(f *facts) []Finding {
	s := f.subject
	if s.works() || s.kind == kindNode {
		return nil
	}
	var all []Finding
	for i := range s.events {
		if found := f.event(&s.events[i]); found != nil {
			all = append(all, *found)
		}
	}
	return all
}

// event makes a finding from one event. If the event says nothing new about the problem, the result is nil.
func (f *facts) event(one *corev1.Event) *Finding {
	s := f.subject
	if one.Type != corev1.EventTypeWarning || one.InvolvedObject.Kind == "Pod" && one.Reason == "FailedScheduling" && s.nodeOf() != "" {
		return nil
	}
	about := f.claimOf(one)
	share, driver, zone := about.share(), about.driver, ""
	if share.FileSystem == "" {
		// The user probably lacks permission to read the volume, so take the file system's ID from the message.
		share.FileSystem = first(systemPattern, one.Message)
	}
	if node := f.findNode(s.nodeOf()); node != nil {
		zone = node.Labels[corev1.LabelTopologyZone]
	}
	names := []string{
		"NAMESPACE", s.namespace, "NODE", s.nodeOf(), "SYSTEM", share.FileSystem, "ZONE", zone, "DRIVER", driver, "CLASS", about.className,
		"MODES", about.modes(),
	}
	fill := strings.NewReplacer(names...)
	object := one.InvolvedObject.Kind + " " + one.InvolvedObject.Namespace + "/" + one.InvolvedObject.Name
	found := &Finding{Severity: Error, Object: object, Said: clip(one.Reason + ": " + one.Message), level: ofEvent}
	lower := strings.ToLower(strings.Join(strings.Fields(one.Message), " "))
	for _, symptom := range symptomsOf(driver) {
		if !symptom.matches(one.Reason, lower, fill) {
			continue
		}
		if symptom.over != nil && symptom.over(about) {
			return nil
		}
		if strings.Contains(symptom.topic, "SYSTEM") && share.FileSystem == "" {
			continue
		}
		found.Cause, found.Do, found.Page = fill.Replace(symptom.cause), symptom.do, string(symptom.page)
		found.Command, found.topic = fillCommand(symptom.command, names), fill.Replace(symptom.topic)
		found.effects = symptom.effects
		if symptom.creation {
			found.level = ofConfiguration
		}
		return found
	}
	return f.rawEvent(one, found, fill)
}

// fillCommand replaces the placeholders in a command. Parameter names has each placeholder, followed by its value. If the command would contain a
// value that a user must not copy into a shell, the result is "": see plugin.ToCopy.
func fillCommand(command string, names []string) string {
	for pair := range slices.Chunk(names, 2) {
		if strings.Contains(command, pair[0]) && toCopy("%s", pair[1]) == "" {
			return ""
		}
	}
	return strings.NewReplacer(names...).Replace(command)
}

// Reasons returns the reasons of the events that doctor understands, sorted. The archives of "oc storage collect" must contain these events.
func Reasons() []string { return slices.Sorted(maps.Keys(topicsOfReasons())) }

// topicsOfReasons maps the reason of an event to the topic of the finding that rawEvent makes from the event.
func topicsOfReasons() map[string]string {
	return map[string]string{
		"VolumeFailedDelete": "event/delete", "VolumeResizeFailed": "event/resize", "FileSystemResizeFailed": "event/resize",
		"FailedMount": "event/mount/SYSTEM/ZONE", "FailedAttachVolume": "event/attach", "ProvisioningFailed": "event/provision/DRIVER",
		"FailedScheduling": "event/schedule", "FailedCreate": "event/create", "FailedBinding": "event/provision/DRIVER", "FailedMapVolume": "event/mount",
	}
}

// rawEvent makes a finding from an event whose reason doctor knows, but whose message matches no symptom.
func (f *facts) rawEvent(one *corev1.Event, found *Finding, fill *strings.Replacer) *Finding {
	topic, is := topicsOfReasons()[one.Reason]
	if !is {
		return nil
	}
	causes := map[string]string{
		"VolumeFailedDelete":     "The driver cannot delete the volume.",
		"VolumeResizeFailed":     "The driver cannot expand the volume.",
		"FileSystemResizeFailed": "The node cannot expand the file system of the volume.",
		"FailedMount":            "Kubernetes cannot mount a volume of the pod.",
		"FailedMapVolume":        "Kubernetes cannot map a volume of the pod.",
		"FailedAttachVolume":     "Kubernetes cannot attach a volume of the pod to its node.",
		"FailedScheduling":       "Kubernetes finds no node for the pod.",
		"FailedCreate":           "Kubernetes cannot create the pod or its PersistentVolumeClaim.",
		"FailedBinding":          "Kubernetes cannot bind the PersistentVolumeClaim.",
		"ProvisioningFailed":     "The driver cannot provision a volume for the PersistentVolumeClaim.",
	}
	found.Severity, found.Cause, found.Page, found.level, found.symptom = Unknown, causes[one.Reason], string(pageTrouble), ofUnexplained, true
	found.Do = "Do what the message says."
	found.Command = toCopy("oc -n %s get events", one.InvolvedObject.Namespace)
	found.topic, found.effects = fill.Replace(topic), nil
	return found
}

// claimOf returns the claim that an event mentions. If the event mentions none, it returns the subject's first claim.
func (f *facts) claimOf(event *corev1.Event) claim {
	var found claim
	for i, one := range f.subject.claims {
		named := strings.Contains(event.Message, one.name) || event.InvolvedObject.Name == one.name ||
			one.volume != nil && strings.Contains(event.Message, one.volume.Name)
		if named || i == 0 {
			found = one
		}
		if named {
			break
		}
	}
	return found
}

// unexplained finds a pod that waits for its volumes, although no event says why.
func unexplained(f *facts) []Finding {
	s := f.subject
	if s == nil || s.pod == nil || s.works() || s.pod.Spec.NodeName == "" || len(s.claims) == 0 || !isCreating(s.pod) {
		return nil
	}
	share, zone := s.claims[0].share(), ""
	if node := f.findNode(s.pod.Spec.NodeName); node != nil {
		zone = node.Labels[corev1.LabelTopologyZone]
	}
	return []Finding{{
		Severity: Unknown, Object: s.object(), Page: string(pageTrouble), level: ofUnexplained, symptom: true, Said: s.raw(),
		topic: topicOf("event", "mount", share.FileSystem, zone),
		Cause: "The pod waits for its volumes, and no event says why.", Do: "Wait a minute, and run the command again.",
		Command: toCopy("oc -n %s describe pod %s", s.namespace, s.name),
	}}
}

// isCreating reports whether no container of a pod has started. In this case, the kubelet sets reason ContainerCreating or, if the pod has init
// containers, PodInitializing (Kubernetes v1.36.3, pkg/kubelet/kubelet_pods.go, convertToAPIContainerStatuses).
func isCreating(pod *corev1.Pod) bool {
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return pod.Status.Phase == corev1.PodPending && !slices.ContainsFunc(all, func(one corev1.ContainerStatus) bool {
		return one.State.Waiting == nil || one.State.Waiting.Reason != "ContainerCreating" && one.State.Waiting.Reason != "PodInitializing"
	})
}
