package volumetest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	securityv1 "github.com/openshift/api/security/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

const (
	// testLabel is the label on the objects of a test. Its value is the name of the run. namePrefix is the beginning of the objects' names.
	testLabel, namePrefix = "oc-storage/test", "oc-storage-test-"
	// cleaning limits the time that the command waits until its objects are deleted. answering limits the time that it waits for a list of events.
	cleaning, answering = 3 * time.Minute, 10 * time.Second
	// folder is the path at which the pods mount the volume.
	folder = "/volume"
)

func (t *trial) name(i int) string { return fmt.Sprintf("%s%s-%d", namePrefix, t.run, i) }

// create creates a PVC and a pod for each zone. When ctx ends, create still waits for the answer to the current request. Without this wait, the API
// server could create the object after the deletion of all objects.
func (t *trial) create(ctx context.Context) error {
	writing, end := t.untilStopped(ctx)
	defer end()
	for i, r := range t.Results {
		for _, object := range []client.Object{t.pvc(i), t.pod(i, r.Zone)} {
			if ctx.Err() != nil {
				return &plugin.ExitError{Code: plugin.Unfinished, Err: errors.New("interrupted while creating the pods and PVCs: run the command again")}
			}
			if err := t.cluster.Create(writing, object, client.FieldOwner("oc-storage")); err != nil {
				return fmt.Errorf("create %T %s in namespace %s: %w", object, object.GetName(), t.cluster.Namespace, err)
			}
		}
	}
	return nil
}

func (t *trial) meta(i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.cluster.Namespace, Name: t.name(i), Labels: map[string]string{testLabel: t.run}}
}

func (t *trial) pvc(i int) *corev1.PersistentVolumeClaim {
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: t.meta(i)}
	pvc.Spec.StorageClassName = &t.class
	pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: t.size}
	return pvc
}

// pod returns a pod that even a namespace with the restricted security standard admits. On OpenShift, the SecurityContextConstraints set the user and
// the group.
func (t *trial) pod(i int, zone string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: t.meta(i)}
	if t.group == nil {
		pod.Annotations = map[string]string{securityv1.RequiredSCCAnnotation: "restricted-v2"}
	}
	yes, no := true, false
	pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: t.group, FSGroup: t.group,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "test", Image: t.image, Args: []string{"test", "--inside", folder},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "volume", MountPath: folder}},
		}},
		Volumes: []corev1.Volume{{Name: "volume", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: t.name(i)},
		}}},
	}
	if zone != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
	}
	return pod
}

// read copies the state of a pod into the result.
func (r *Result) read(pod *corev1.Pod, started time.Time) {
	r.Node = pod.Spec.NodeName
	for i := range pod.Status.ContainerStatuses {
		state := pod.Status.ContainerStatuses[i].State
		switch {
		case state.Running != nil:
			r.Started = max(0.1, state.Running.StartedAt.Sub(started).Seconds())
		case state.Terminated != nil:
			r.done = true
			r.Started = max(0.1, state.Terminated.StartedAt.Sub(started).Seconds())
			r.end(state.Terminated)
		}
	}
	if pod.Status.Phase == corev1.PodFailed && !r.done {
		r.done, r.Problem = true, "the pod failed: "+pod.Status.Reason+" "+pod.Status.Message
	}
}

// end reads the termination message of the container, which is the output of probe.
func (r *Result) end(ended *corev1.ContainerStateTerminated) {
	var said measured
	if err := json.Unmarshal([]byte(ended.Message), &said); err != nil || ended.ExitCode != 0 {
		r.Problem = fmt.Sprintf("the pod ended with exit code %d: %s", ended.ExitCode, ended.Message)
		return
	}
	r.Write, r.Read, r.Cached = max(1, said.Write), max(1, said.Read), said.Cached
}

// blame writes into each unfinished result why its pod has not ended. This reason is the newest warning event about the pod or its PVC.
func (t *trial) blame(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	events := &corev1.EventList{}
	err := t.cluster.List(ctx, events, client.InNamespace(t.cluster.Namespace))
	for i := range t.Results {
		r := &t.Results[i]
		switch {
		case r.done:
		case err != nil:
			r.Problem = "the pod has not ended, and its events can't be read: " + err.Error()
		default:
			r.Problem = lastWarning(events.Items, t.name(i))
		}
	}
}

func lastWarning(all []corev1.Event, name string) string {
	text, newest := "the pod has not ended, and no event says why", time.Time{}
	for i := range all {
		event := &all[i]
		at := event.LastTimestamp.Time
		if at.IsZero() {
			at = event.EventTime.Time
		}
		if event.InvolvedObject.Name == name && event.Type == corev1.EventTypeWarning && !at.Before(newest) {
			text, newest = event.Reason+": "+event.Message, at
		}
	}
	return text
}

// objects returns pods and PVCs of tests in the namespace.
func (t *trial) objects(ctx context.Context, which client.ListOption) ([]client.Object, error) {
	in, pods, pvcs := client.InNamespace(t.cluster.Namespace), &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}
	if err := errors.Join(t.cluster.List(ctx, pods, in, which), t.cluster.List(ctx, pvcs, in, which)); err != nil {
		return nil, fmt.Errorf("list the pods and PVCs of tests in namespace %s: %w", t.cluster.Namespace, err)
	}
	var found []client.Object
	for i := range pods.Items {
		found = append(found, &pods.Items[i])
	}
	for i := range pvcs.Items {
		found = append(found, &pvcs.Items[i])
	}
	// A label alone proves nothing.
	return slices.DeleteFunc(found, func(one client.Object) bool { return !strings.HasPrefix(one.GetName(), namePrefix) }), nil
}

// clean deletes the pods and PVCs of a run, and waits until they and their volumes are deleted. If parameter run is empty, it deletes the pods and
// PVCs of all tests in the namespace. Kubernetes deletes a PVC only after its pod.
func (t *trial) clean(ctx context.Context, run string) error {
	of, selector, which := "this test", testLabel+"="+run, client.ListOption(client.MatchingLabels{testLabel: run})
	if run == "" {
		of, selector, which = "other tests", testLabel, client.HasLabels{testLabel}
	}
	listed, left, volumes := false, []client.Object(nil), map[string]bool{}
	err := t.Until(ctx, cleaning, "the pods and PVCs of "+of+" are gone", func(ctx context.Context) (bool, error) {
		objects, err := t.objects(ctx, which)
		if err != nil {
			return false, err
		}
		listed, left = true, objects
		for _, object := range objects {
			if pvc, is := object.(*corev1.PersistentVolumeClaim); is && pvc.Spec.VolumeName != "" {
				volumes[pvc.Spec.VolumeName] = true
			}
			if !object.GetDeletionTimestamp().IsZero() {
				continue
			}
			if err := client.IgnoreNotFound(t.cluster.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID())})); err != nil {
				return false, fmt.Errorf("delete %T %s in namespace %s: %w", object, object.GetName(), t.cluster.Namespace, err)
			}
		}
		return len(objects) == 0, nil
	})
	if err == nil {
		err = t.volumesGone(ctx, volumes)
	}
	switch {
	case err == nil:
		return nil
	case listed && len(left) == 0:
		return fmt.Errorf("%w. All pods and PVCs are deleted. PersistentVolume %s may be left: its driver still has to delete it",
			err, strings.Join(slices.Sorted(maps.Keys(volumes)), ", "))
	default:
		return fmt.Errorf("%w. %s may be left in namespace %s. This command deletes what is left: oc delete pod,pvc -l %s -n %s",
			err, cmp.Or(describe(left), "Pods and PVCs"), t.cluster.Namespace, selector, t.cluster.Namespace)
	}
}

// describe lists pods and PVCs.
func describe(objects []client.Object) string {
	var names []string
	for _, object := range objects {
		kind := "pod "
		if _, is := object.(*corev1.PersistentVolumeClaim); is {
			kind = "PVC "
		}
		names = append(names, kind+object.GetName())
	}
	return strings.Join(names, ", ")
}

// volumesGone waits until the driver has deleted the PersistentVolumes. If the user lacks permission to read PersistentVolumes, it does not wait.
func (t *trial) volumesGone(ctx context.Context, names map[string]bool) error {
	return t.Until(ctx, cleaning, "the driver has deleted the volumes", func(ctx context.Context) (bool, error) {
		for name := range names {
			err := t.cluster.Get(ctx, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
			switch {
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
				delete(names, name)
			case err != nil:
				return false, fmt.Errorf("read PersistentVolume %s: %w", name, err)
			}
		}
		return len(names) == 0, nil
	})
}
