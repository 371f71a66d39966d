package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
)

// stuck adds to an error which pods and PersistentVolumes of the run are left, why, and how a person deletes them.
func (p *proof) stuck(ctx context.Context, failure error) error {
	pods := &corev1.PodList{}
	_, err := p.get(ctx, pods, "-n", space, "pods")
	list := &corev1.PersistentVolumeList{}
	_, other := p.get(ctx, list, "persistentvolumes")
	if err = errors.Join(err, other); err != nil {
		return errors.Join(failure, err)
	}
	var inPods, left []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; volume.UsesVolumes(pod) {
			inPods = append(inPods, pod.Name)
		}
	}
	for i := range list.Items {
		if claim := list.Items[i].Spec.ClaimRef; claim != nil && claim.Namespace == space {
			left = append(left, list.Items[i].Name)
		}
	}
	if len(inPods) > 0 {
		names := strings.Join(inPods, " ")
		failure = fmt.Errorf("%w. Pods of namespace %s are left: %s. %sTo delete them, mend the node pods of the driver, or, to give up the mounts on their "+
			"nodes, run \"oc -n %s delete pod %s --force --grace-period=0\". Then run this command again with CLEAN=1",
			failure, space, names, p.reasons(ctx, space, "Pod", inPods), space, names)
	}
	if len(inPods) == 0 && len(left) > 0 {
		names := strings.Join(left, " ")
		failure = fmt.Errorf("%w. The driver has not deleted these PersistentVolumes: %s. %sTo let it delete them, find out by \"oc describe clustercsidriver %s\" "+
			"what it lacks. To do without the driver, delete them yourself after the clean-up in AWS, which deletes their file systems and access points: "+
			"run \"oc delete persistentvolume %s --wait=false\", and \"oc patch persistentvolume %s --type merge -p '{\"metadata\":{\"finalizers\":null}}'\". "+
			"Then run this command again with CLEAN=1", failure, names, p.reasons(ctx, "default", "PersistentVolume", left), awsefs.Name, names, names)
	}
	return failure
}

// reasons returns the last warning about each of some objects, as sentences. The events of PersistentVolumes are in namespace default.
func (p *proof) reasons(ctx context.Context, namespace, kind string, names []string) string {
	events := &corev1.EventList{}
	if _, err := p.get(ctx, events, "-n", namespace, "events", "--field-selector", "type=Warning,involvedObject.kind="+kind); err != nil {
		return ""
	}
	last := map[string]*corev1.Event{}
	for i := range events.Items {
		one := &events.Items[i]
		if before := last[one.InvolvedObject.Name]; before == nil || before.LastTimestamp.Before(&one.LastTimestamp) {
			last[one.InvolvedObject.Name] = one
		}
	}
	var text strings.Builder
	for _, name := range names {
		if one := last[name]; one != nil {
			fmt.Fprintf(&text, "Of %s, Kubernetes says %q. ", name, status.Clip(one.Message))
		}
	}
	return text.String()
}
