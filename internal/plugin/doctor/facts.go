package doctor

import (
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/redact"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// facts has what doctor has read from the cluster. It is the only input of the checks, and a check does not read the cluster itself.
type facts struct {
	survey.Survey
	now time.Time
	// unreachable is the error of a request that the API server did not answer. If it is set, doctor has read nothing, and all other facts are empty.
	unreachable error
	// classes, nodes and csiNodes have the objects of these kinds, as far as the user has permission to read them.
	classes  list[storagev1.StorageClass]
	nodes    list[corev1.Node]
	csiNodes list[storagev1.CSINode]
	// failed lists the PersistentVolumes in phase Failed. doctor reads them only if the user names no object.
	failed []corev1.PersistentVolume
	// refused has a text for each PersistentVolume that its driver refuses: the name of the PersistentVolume, and the refused value. doctor reads it
	// only if the user names no object.
	refused []string
	// unbound names the PersistentVolumeClaims that are not Bound, as "namespace/name". doctor reads them only if the user names no object.
	unbound []string
	// driverOf maps each PersistentVolumeClaim to the driver of its PersistentVolume. If the claim names no PersistentVolume, the driver is the
	// provisioner of its StorageClass. doctor reads it only if the user names no object.
	driverOf map[types.NamespacedName]string
	// waiting are the pods that wait for volumes, with doctor's findings about each pod. unchecked names the waiting pods that doctor did not check, as
	// "namespace/name".
	waiting   []waitingPod
	unchecked []string
	// olm has the objects of the Operator Lifecycle Manager that are about operators of drivers.
	olm olm
	// storage is the ClusterOperator with the name "storage". It is nil if doctor could not read this object, or if the user asks about one object.
	storage *configv1.ClusterOperator
	// subject is the object that the user asks about. It is nil if the user asks about the whole cluster.
	subject *subject
	// log has those lines of the drivers' logs that report a failure and name the subject, or one of its claims or volumes. It is empty if the subject
	// works.
	log []line
}

// list has the objects of one kind. The Answer says whether doctor could list these objects.
type list[T any] struct {
	plugin.Answer
	items []T
}

// subject is the object that the user asks about, with all objects that this object depends on.
type subject struct {
	// kind is pod, pvc, pv, class, sharedvolume or node. For a PersistentVolume, namespace is the namespace of its PersistentVolumeClaim.
	kind, namespace, name string
	answer                plugin.Answer
	pod                   *corev1.Pod
	shared                *v1alpha1.SharedVolume
	node                  *corev1.Node
	volume                *corev1.PersistentVolume
	class                 *storagev1.StorageClass
	claims                []claim
	// waiting names the PersistentVolumeClaims with this class that are not Bound, as "namespace/name". It is set only if the subject is a StorageClass.
	waiting []string
	// users names the pods that use the subject. doctor reads these pods only if the subject is a PersistentVolumeClaim or PersistentVolume that does
	// not work, or whose claim is being deleted.
	users []string
	// events are the events about the subject, about its PersistentVolumeClaims that are not Bound, or about a failure to create the subject. The newest
	// event is the first.
	events []corev1.Event
	// drivers names the drivers that the subject depends on.
	drivers []string
}

// claim is a PersistentVolumeClaim with its class, volume and driver.
type claim struct {
	name              string
	answer            plugin.Answer
	pvc               *corev1.PersistentVolumeClaim
	class             *storagev1.StorageClass
	classAnswer       plugin.Answer
	volume            *corev1.PersistentVolume
	volumeAnswer      plugin.Answer
	driver, className string
	usesDefault       bool
	// inline means that the claim stands for a volume in the spec of the pod, and that name is the name of this volume.
	inline bool
}

// line is a line of a driver's log. From is the pod and the container that wrote the line.
type line struct {
	From string `json:"from"`
	Text string `json:"text"`
}

// about reports whether a driver is relevant. A driver is relevant if the subject depends on it, or if there is no subject.
func (f *facts) about(name string) bool {
	return f.subject == nil || slices.Contains(f.subject.drivers, name)
}

// driver finds a driver by name. If the cluster does not have the driver, the result is nil.
func (f *facts) driver(name string) *survey.Driver {
	for i := range f.Drivers {
		if f.Drivers[i].Name == name {
			return &f.Drivers[i]
		}
	}
	return nil
}

// nodeOf returns the name of the subject's node. If the subject has no node, the name is empty.
func (s *subject) nodeOf() string {
	switch {
	case s == nil:
		return ""
	case s.kind == kindNode:
		return s.name
	case s.pod != nil:
		return s.pod.Spec.NodeName
	}
	return ""
}

func (f *facts) findNode(name string) *corev1.Node {
	for i := range f.nodes.items {
		if f.nodes.items[i].Name == name {
			return &f.nodes.items[i]
		}
	}
	return nil
}

// registered reports whether a node's CSINode lists a driver. Result "known" is false if doctor could not read the CSINode.
func (f *facts) registered(node, driver string) (yes, known bool) {
	for i := range f.csiNodes.items {
		if f.csiNodes.items[i].Name != node {
			continue
		}
		return slices.ContainsFunc(f.csiNodes.items[i].Spec.Drivers, func(one storagev1.CSINodeDriver) bool { return one.Name == driver }), true
	}
	return false, f.csiNodes.Answer == plugin.Present
}

// works reports whether the subject is in its wanted state. The events about a subject that works are outdated.
func (s *subject) works() bool {
	switch {
	case s == nil:
		return true
	case s.pod != nil:
		return s.pod.Status.Phase == corev1.PodSucceeded || isReady(s.pod)
	case s.kind == kindClaim && len(s.claims) > 0 && s.claims[0].pvc != nil:
		one := s.claims[0]
		return one.pvc.Status.Phase == corev1.ClaimBound && !one.growing()
	case s.kind == kindClass:
		return true
	case s.volume != nil:
		return s.volume.Status.Phase == corev1.VolumeBound && s.volume.DeletionTimestamp == nil
	}
	return false
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(one corev1.PodCondition) bool {
		return one.Type == corev1.PodReady && one.Status == corev1.ConditionTrue
	})
}

func nodeIsReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(one corev1.NodeCondition) bool {
		return one.Type == corev1.NodeReady && one.Status == corev1.ConditionTrue
	})
}

// clip turns a text from another program into one line, and redacts secrets in it. In a long text, it replaces the middle by an ellipsis, between two
// words. It keeps the end of the text, because wrapped errors end with the reason.
func clip(text string) string {
	letters := []rune(strings.Join(strings.Fields(redact.String(text)), " "))
	const begin, end, spared = 100, 299, 100
	if len(letters) <= begin+end+spared {
		return string(letters)
	}
	first, last := string(letters[:begin]), string(letters[len(letters)-end:])
	if at := strings.LastIndex(first, " "); at > 0 {
		first = first[:at+1]
	}
	if at := strings.Index(last, " "); at >= 0 && at < len(last)-1 {
		last = last[at:]
	}
	return first + "…" + last
}
