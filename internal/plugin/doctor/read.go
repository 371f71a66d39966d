package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// logLines is the largest number of lines that doctor reads from a log.
const logLines = 400

// reader reads facts with the user's permissions. After a failed request, it records the failure and continues with the next request.
type reader struct {
	*plugin.Cluster
	*facts
	// logs reads the last lines of a container's log.
	logs func(ctx context.Context, pod client.ObjectKey, container string, lines int64) (string, error)
}

// read reads all facts. If the API server can't be reached, read sets the field "unreachable" and reads nothing else.
func (r *reader) read(ctx context.Context) {
	var err error
	if r.Survey, err = survey.Read(ctx, r.Cluster, r.now); err != nil {
		r.unreachable = err
		return
	}
	classes, nodes, csiNodes := &storagev1.StorageClassList{}, &corev1.NodeList{}, &storagev1.CSINodeList{}
	r.classes.Answer = r.list("StorageClasses", func() (plugin.Answer, error) { return r.TryList(ctx, classes) })
	r.nodes.Answer = r.list("Nodes", func() (plugin.Answer, error) { return r.TryList(ctx, nodes) })
	r.csiNodes.Answer = r.list("CSINodes", func() (plugin.Answer, error) { return r.TryList(ctx, csiNodes) })
	r.classes.items, r.nodes.items, r.csiNodes.items = classes.Items, nodes.Items, csiNodes.Items
	if r.subject != nil {
		r.readSubject(ctx)
		if r.lacksOperator() {
			r.readOLM(ctx)
		}
		r.readWaiting(ctx)
		return
	}
	r.readOLM(ctx)
	r.readVolumes(ctx)
	r.readWaiting(ctx)
	if storage := (&configv1.ClusterOperator{}); r.get(ctx, client.ObjectKey{Name: "storage"}, storage) == plugin.Present {
		r.storage = storage
	}
}

// list calls a function that reads objects, and records its failure.
func (r *reader) list(what string, read func() (plugin.Answer, error)) plugin.Answer {
	answer, err := read()
	if err != nil {
		r.Failures = append(r.Failures, fmt.Errorf("read %s: %w", what, err))
	}
	return answer
}

func (r *reader) get(ctx context.Context, key client.ObjectKey, into client.Object) plugin.Answer {
	return r.list(strings.TrimPrefix(key.String(), "/"), func() (plugin.Answer, error) { return r.TryGet(ctx, key, into) })
}

// readSubject reads the subject and all objects that it depends on.
func (r *reader) readSubject(ctx context.Context) {
	s := r.subject
	key := client.ObjectKey{Namespace: s.namespace, Name: s.name}
	switch s.kind {
	case kindNode:
		node := &corev1.Node{}
		if s.answer = r.get(ctx, key, node); s.answer == plugin.Present {
			s.node = node
			r.addNode(node)
		}
		for _, one := range r.Drivers {
			s.drivers = append(s.drivers, one.Name)
		}
		return
	case kindClass:
		r.readStorageClass(ctx, key)
		return
	case kindPod:
		r.readPod(ctx, key)
	case kindClaim:
		one := r.readClaim(ctx, s.name)
		s.claims, s.answer = []claim{one}, one.answer
	case kindVolume:
		r.readVolume(ctx, key)
	case kindShared:
		shared := &v1alpha1.SharedVolume{}
		if s.answer = r.get(ctx, key, shared); s.answer == plugin.Present {
			s.shared = shared
			s.drivers = append(s.drivers, efsName)
			if name := shared.Status.ClaimRef.Name; name != "" && shared.Status.VolumeName != "" {
				s.claims = append(s.claims, r.readClaim(ctx, name))
			}
		}
	}
	for _, one := range s.claims {
		if one.driver != "" && !slices.Contains(s.drivers, one.driver) {
			s.drivers = append(s.drivers, one.driver)
		}
	}
	r.readUsers(ctx)
	r.readEvents(ctx)
}

// readPod reads a pod, its node and its claims.
func (r *reader) readPod(ctx context.Context, key client.ObjectKey) {
	s, pod := r.subject, &corev1.Pod{}
	if s.answer = r.get(ctx, key, pod); s.answer != plugin.Present {
		return
	}
	s.pod = pod
	r.readNodeOf(ctx, pod)
	for _, name := range claimsOf(pod) {
		s.claims = append(s.claims, r.readClaim(ctx, name))
	}
	for _, one := range pod.Spec.Volumes {
		if driver := volume.InlineDriverOf(&one); driver != "" {
			s.claims = append(s.claims, claim{name: one.Name, driver: driver, inline: true})
		}
	}
}

// readVolume reads a PersistentVolume and the PersistentVolumeClaim that it is bound to.
func (r *reader) readVolume(ctx context.Context, key client.ObjectKey) {
	s, one := r.subject, &corev1.PersistentVolume{}
	if s.answer = r.get(ctx, key, one); s.answer != plugin.Present {
		return
	}
	s.volume = one
	of := claim{volume: one, volumeAnswer: plugin.Present, driver: volume.DriverOf(one)}
	if ref := one.Spec.ClaimRef; ref != nil {
		s.namespace = ref.Namespace
		of.name = ref.Name
		if found := r.readClaim(ctx, ref.Name); found.pvc != nil && found.pvc.UID == ref.UID && found.pvc.Spec.VolumeName == one.Name {
			of = found
		} else {
			of.answer = found.answer
			if found.pvc != nil {
				// The cluster has a PersistentVolumeClaim of this name. It is not the claim to which the volume was bound, because that claim was deleted.
				of.answer = plugin.Absent
			}
		}
	}
	s.claims = []claim{of}
}

// If the subject is a PersistentVolumeClaim, readUsers finds the pods that use it. If the subject is a PersistentVolume, readUsers finds the pods
// that use its claim. If the subject works and its claim is not being deleted, readUsers reads nothing, because no check needs the pods.
func (r *reader) readUsers(ctx context.Context) {
	s := r.subject
	if s.kind != kindClaim && s.kind != kindVolume || len(s.claims) == 0 || s.claims[0].pvc == nil ||
		s.works() && s.claims[0].pvc.DeletionTimestamp == nil {
		return
	}
	pods := &corev1.PodList{}
	r.list("pods of namespace "+s.namespace, func() (plugin.Answer, error) { return r.TryList(ctx, pods, client.InNamespace(s.namespace)) })
	for i := range pods.Items {
		pod := &pods.Items[i]
		uses := !volume.HasEnded(pod)
		if s.claims[0].pvc.DeletionTimestamp != nil {
			// Kubernetes keeps a deleted PersistentVolumeClaim while a pod with a node uses the claim, even if this pod has ended (Kubernetes v1.36.3,
			// pkg/controller/volume/pvcprotection, podUsesPVC).
			uses = pod.Spec.NodeName != ""
		}
		if uses && slices.Contains(volume.PVCsOf(pod), s.claims[0].name) {
			s.users = append(s.users, pod.Name)
		}
	}
	slices.Sort(s.users)
}

// claimsOf returns the names of the claims of a pod, including the claims of its generic ephemeral volumes.
func claimsOf(pod *corev1.Pod) []string {
	names := volume.PVCsOf(pod)
	for _, one := range pod.Spec.Volumes {
		if name := pod.Name + "-" + one.Name; one.Ephemeral != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// readNodeOf reads the node of a pod if doctor could not list all nodes. It reads the node's CSINode if doctor could not list all CSINodes.
func (r *reader) readNodeOf(ctx context.Context, pod *corev1.Pod) {
	key := client.ObjectKey{Name: pod.Spec.NodeName}
	if key.Name == "" {
		return
	}
	if r.findNode(key.Name) == nil && r.nodes.Answer != plugin.Present {
		if node := (&corev1.Node{}); r.get(ctx, key, node) == plugin.Present {
			r.addNode(node)
		}
	}
	if r.csiNodes.Answer != plugin.Present {
		if one := (&storagev1.CSINode{}); r.get(ctx, key, one) == plugin.Present {
			r.csiNodes.items = append(r.csiNodes.items, *one)
		}
	}
}

func (r *reader) addNode(node *corev1.Node) {
	if r.findNode(node.Name) == nil {
		r.nodes.items = append(r.nodes.items, *node)
	}
}

// readClaim reads a claim, its class and its volume.
func (r *reader) readClaim(ctx context.Context, name string) claim {
	pvc := &corev1.PersistentVolumeClaim{}
	found := claim{name: name, answer: r.get(ctx, client.ObjectKey{Namespace: r.subject.namespace, Name: name}, pvc)}
	if found.answer != plugin.Present {
		return found
	}
	found.pvc = pvc
	r.readClass(ctx, &found)
	if name := pvc.Spec.VolumeName; name != "" {
		one := &corev1.PersistentVolume{}
		if found.volumeAnswer = r.get(ctx, client.ObjectKey{Name: name}, one); found.volumeAnswer == plugin.Present {
			found.volume = one
			found.driver = cmp.Or(volume.DriverOf(one), found.driver)
		}
	}
	return found
}

// readClass finds the class of a claim. If the claim's class name is nil, readClass finds the default class. If the name is empty, the claim has no
// class.
func (r *reader) readClass(ctx context.Context, found *claim) {
	wanted := found.pvc.Spec.StorageClassName
	if wanted == nil {
		if defaults := r.defaults(); len(defaults) > 0 {
			// Kubernetes sets the name of the default class within moments.
			found.className = defaults[0]
		}
		found.usesDefault = true
	} else {
		found.className = *wanted
	}
	if found.className == "" {
		return
	}
	found.classAnswer = r.classes.Answer
	for i := range r.classes.items {
		if r.classes.items[i].Name == found.className {
			found.class = &r.classes.items[i]
		}
	}
	if found.class == nil && r.classes.Answer == plugin.Present {
		found.classAnswer = plugin.Absent
	}
	if found.class == nil && !r.classes.Known() {
		class := &storagev1.StorageClass{}
		if found.classAnswer = r.get(ctx, client.ObjectKey{Name: found.className}, class); found.classAnswer == plugin.Present {
			found.class = class
		}
	}
	if found.class != nil {
		found.driver = volume.Provisioner(found.class.Provisioner)
	}
}

// readEvents reads the relevant events, the newest first.
func (r *reader) readEvents(ctx context.Context) {
	s, all := r.subject, &corev1.EventList{}
	namespace := s.namespace
	if s.isClusterScoped() {
		// Events about cluster-scoped objects are in namespace default (client-go v0.36.3, tools/record/event.go, makeEvent).
		namespace = metav1.NamespaceDefault
	}
	r.list("events", func() (plugin.Answer, error) { return r.TryList(ctx, all, client.InNamespace(namespace)) })
	for _, one := range all.Items {
		if s.concerns(&one) {
			s.events = append(s.events, one)
		}
	}
	slices.SortStableFunc(s.events, func(a, b corev1.Event) int { return timeOf(&b).Compare(timeOf(&a)) })
}

// concerns reports whether an event is about the subject, about one of its claims that is not Bound, or about a failure to create the subject.
func (s *subject) concerns(one *corev1.Event) bool {
	about := one.InvolvedObject
	if s.pod != nil && about.Kind == "Pod" && about.Name == s.name {
		return about.UID == "" || about.UID == s.pod.UID
	}
	if one.Reason == "FailedCreate" && s.pod == nil && s.shared == nil && !s.isClusterScoped() {
		// Some controllers write the name of the pod or claim into the message. Other controllers name only the owner of the pod or claim. Then the
		// subject's name begins with the owner's name.
		return strings.Contains(one.Message, s.name) || strings.HasPrefix(s.name, about.Name+"-") || strings.HasPrefix(about.Name, s.name)
	}
	if about.Kind == titleOf(s.kind) && about.Name == s.name {
		// Ignore events about a SharedVolume. Its conditions say the same, and unlike events, conditions are always up to date.
		return s.kind != kindShared
	}
	return about.Kind == "PersistentVolumeClaim" && slices.ContainsFunc(s.claims, func(c claim) bool { return c.name == about.Name && c.waits() })
}

// readLogs reads log lines about the subject. It reads the log of the driver's pod on the subject's node and, while a claim is unbound, the log of
// the driver's controller.
func (r *reader) readLogs(ctx context.Context) []line {
	s := r.subject
	if r.unreachable != nil || s == nil || s.works() {
		return nil
	}
	var found []line
	for _, one := range s.claims {
		d := r.driver(one.driver)
		if d == nil {
			continue
		}
		names := []string{one.name, s.name}
		if one.pvc != nil {
			names = append(names, string(one.pvc.UID))
		}
		if one.volume != nil && one.volume.Spec.CSI != nil {
			names = append(names, one.volume.Name, one.volume.Spec.CSI.VolumeHandle, one.share().FileSystem)
		}
		var pods []corev1.Pod
		if pod := podOn(d.NodePods, s.nodeOf()); pod != nil && s.nodeOf() != "" {
			pods = append(pods, *pod)
		}
		if one.waits() || s.kind == kindVolume {
			pods = append(pods, d.ControllerPods...)
		}
		for i := range pods {
			found = append(found, r.linesOf(ctx, &pods[i], names)...)
		}
	}
	return found
}

// linesOf returns those lines of a pod's logs that report a failure and contain one of the names.
func (r *reader) linesOf(ctx context.Context, pod *corev1.Pod, names []string) []line {
	var found []line
	for _, container := range pod.Spec.Containers {
		if container.Name != driver.Container && !strings.Contains(container.Name, "provisioner") && !strings.Contains(container.Name, "attacher") {
			continue
		}
		text, err := r.logs(ctx, client.ObjectKeyFromObject(pod), container.Name, logLines)
		if err != nil {
			r.Failures = append(r.Failures, err)
			continue
		}
		for _, one := range failures(text, names) {
			found = append(found, line{From: pod.Namespace + "/" + pod.Name + " " + container.Name, Text: one})
		}
	}
	return found
}
