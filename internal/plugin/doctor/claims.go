package doctor

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// waits reports whether the claim exists and is unbound.
func (c claim) waits() bool { return c.pvc != nil && c.pvc.Status.Phase != corev1.ClaimBound }

// modes returns the access modes that the claim asks for, as one text.
func (c claim) modes() string {
	var names []string
	if c.pvc != nil {
		for _, one := range c.pvc.Spec.AccessModes {
			names = append(names, string(one))
		}
	}
	return strings.Join(names, ", ")
}

// provisions reports whether the driver should provision a volume for the claim.
func (c claim) provisions() bool {
	return c.waits() && c.pvc.Status.Phase == corev1.ClaimPending && c.pvc.Spec.VolumeName == "" && c.class != nil && !joinsOnly(c.class) &&
		c.class.Provisioner != "kubernetes.io/no-provisioner"
}

// eachClaim collects the findings about the claims of the subject.
func (f *facts) eachClaim(find func(one claim, object, topic string) *Finding) []Finding {
	if f.subject == nil {
		return nil
	}
	var all []Finding
	for _, one := range f.subject.claims {
		at := f.subject.namespace + "/" + one.name
		if found := find(one, "PersistentVolumeClaim "+at, topicOf("claim", f.subject.namespace, one.name)); found != nil {
			all = append(all, *found)
		}
	}
	return all
}

// ofClaim returns the topics (see Finding) of all findings that an unbound claim explains.
func ofClaim(c claim) []string {
	return []string{"event/schedule", "event/mount", "event/provision/" + topicOf(c.driver), topicOf("provision", c.driver)}
}

func claimClasses(f *facts) []Finding {
	return f.eachClaim(func(one claim, object, topic string) *Finding {
		found := &Finding{Severity: Error, Object: object, Page: string(pageUse), topic: topic + "/class", level: ofClass, effects: ofClaim(one)}
		switch {
		case one.answer == plugin.Absent && f.subject.kind != kindVolume:
			found.Cause = fmt.Sprintf("PersistentVolumeClaim %s does not exist.", one.name)
			found.Do, found.Command = "Create the PersistentVolumeClaim, or correct its name in the pod.", toCopy("oc -n %s get pvc", f.subject.namespace)
			found.topic = topic + "/exists"
		case !one.waits() || one.pvc.Spec.VolumeName != "":
			return nil
		case one.className == "" && one.usesDefault && f.classes.Answer == plugin.Present:
			found.Cause, found.Said = "The PersistentVolumeClaim names no StorageClass, and no StorageClass is the default.", "storageClassName: none"
			found.Do, found.Page = "Name a StorageClass in a new PersistentVolumeClaim, or make a class the default.", string(pageDefault)
			found.Command = "oc get storageclasses"
		case one.className != "" && one.classAnswer == plugin.Absent:
			found.Cause, found.Said = fmt.Sprintf("StorageClass %s does not exist.", one.className), clip(fmt.Sprintf("storageClassName: %q", one.className))
			found.Do = "Create the class, or a PersistentVolume of that class, or name another class in a new PersistentVolumeClaim."
			found.Command = "oc get storageclasses"
		case one.class != nil && joinsOnly(one.class):
			found.Cause = fmt.Sprintf("StorageClass %s provisions no volumes, and no existing PersistentVolume matches.", one.className)
			found.Said = clip(fmt.Sprintf("storageClassName: %q; parameters of the class: none; volumeName: none", one.className))
			found.Do = "Create a StorageClass with parameters, a PersistentVolume, or a SharedVolume."
			found.Command = "oc get pv"
		default:
			return nil
		}
		return found
	})
}

func claimVolumes(f *facts) []Finding {
	return f.eachClaim(func(one claim, object, topic string) *Finding {
		if one.pvc == nil || one.pvc.Spec.VolumeName == "" {
			return nil
		}
		found := &Finding{Severity: Error, Object: object, Page: string(pageUse), topic: topic + "/volume", level: ofVolume, effects: ofClaim(one)}
		name := one.pvc.Spec.VolumeName
		found.Command = toCopy("oc get pv %s", name)
		switch {
		case one.volumeAnswer == plugin.Absent:
			found.Cause = fmt.Sprintf("PersistentVolume %s, which the PersistentVolumeClaim names, does not exist.", name)
			found.Said = clip(fmt.Sprintf("volumeName: %q", name))
			found.Do = "Restore the PersistentVolume, or create a new PersistentVolumeClaim."
		case one.volume == nil:
			return nil
		case one.waits() && isTaken(one.volume, f.subject.namespace, one.name):
			taken := one.volume.Spec.ClaimRef
			found.Cause = fmt.Sprintf("PersistentVolume %s belongs to another PersistentVolumeClaim, %s/%s.", name, taken.Namespace, taken.Name)
			found.Do = "Name another PersistentVolume, or delete the other PersistentVolumeClaim."
			found.Said = clip(fmt.Sprintf("volumeName: %q; claimRef of the volume: %s/%s", name, taken.Namespace, taken.Name))
		case one.volume.Status.Phase == corev1.VolumeFailed:
			found.Cause, found.Said = fmt.Sprintf("PersistentVolume %s has failed.", name), clip(one.volume.Status.Message)
			found.Do = "Read the events of the PersistentVolume."
		default:
			return nil
		}
		return found
	})
}

func isTaken(volume *corev1.PersistentVolume, namespace, name string) bool {
	taken := volume.Spec.ClaimRef
	return taken != nil && (taken.Namespace != namespace || taken.Name != name)
}

// claimDrivers finds claims whose driver is not installed.
func claimDrivers(f *facts) []Finding {
	return f.eachClaim(func(one claim, _, _ string) *Finding {
		if f.subject.works() || !isCSI(one.driver) || f.CSIDrivers != plugin.Present || one.class != nil && joinsOnly(one.class) && one.volume == nil {
			return nil
		}
		if d := f.driver(one.driver); d != nil && d.CSIDriver != nil {
			return nil
		}
		return &Finding{
			Severity: Error, Object: "CSIDriver " + one.driver, Page: string(pageInstall), Command: "oc get csidrivers",
			Cause: fmt.Sprintf("Driver %s is not installed.", one.driver), Do: "Install the driver, or use another StorageClass.", Said: one.provisionedBy(),
			topic: topicOf("csidriver", one.driver), level: ofPlugin,
			effects: []string{topicOf("node", "*", "csinode", one.driver), topicOf("node", "*", "absent", one.driver), topicOf("provision", one.driver),
				topicOf("event", "provision", one.driver), "event/mount", "event/attach"},
		}
	})
}

// provisionedBy says which object names the driver.
func (c claim) provisionedBy() string {
	switch {
	case c.volume != nil:
		return clip(fmt.Sprintf("PersistentVolume %s has driver %s, and the cluster has no CSIDriver of this name", c.volume.Name, c.driver))
	case c.class != nil && c.class.Provisioner != c.driver:
		return clip(fmt.Sprintf("StorageClass %s has provisioner %s, which driver %s replaces, and the cluster has no CSIDriver of this name",
			c.class.Name, c.class.Provisioner, c.driver))
	case c.class != nil:
		return clip(fmt.Sprintf("StorageClass %s has provisioner %s, and the cluster has no CSIDriver of this name", c.class.Name, c.class.Provisioner))
	default:
		return clip(fmt.Sprintf("volume %s of the pod has driver %s, and the cluster has no CSIDriver of this name", c.name, c.driver))
	}
}

// isCSI reports whether a name is the name of a CSI driver. The names of in-tree plugins, which have no CSIDriver object, begin with kubernetes.io/.
func isCSI(name string) bool { return name != "" && !strings.HasPrefix(name, "kubernetes.io/") }

// claimBinding finds claims for which the driver has not provisioned a volume. doctor drops such a finding if another check finds the cause.
func claimBinding(f *facts) []Finding {
	return f.eachClaim(func(one claim, object, _ string) *Finding {
		if !one.provisions() || one.waitsForPod(f.subject) {
			return nil
		}
		found := &Finding{
			Severity: Unknown, Object: object, Page: string(pageTrouble), Do: "Read the log of the driver's controller.", Said: f.subject.raw(),
			Cause:   fmt.Sprintf("Driver %s has not provisioned a volume, and no event says why.", one.driver),
			Command: toCopy("oc -n %s describe pvc %s", f.subject.namespace, one.name),
			topic:   topicOf("provision", one.driver), level: ofUnexplained, symptom: true,
		}
		if d := f.driver(one.driver); d != nil && d.Controller != nil {
			found.Command = toCopy("oc -n %s logs deployment/%s --all-containers --tail=50", d.Controller.Namespace, d.Controller.Name)
			found.Said = cmp.Or(status.Shorten(status.Unready(d.ControllerPods)), found.Said)
		}
		return found
	})
}

// waitsForPod reports whether provisioning waits for a pod that uses the claim. Once the scheduler has chosen a node for this pod, provisioning
// waits for the driver instead (Kubernetes v1.36, component-helpers/storage/volume/pv_helpers.go, AnnSelectedNode).
func (c claim) waitsForPod(s *subject) bool {
	if c.pvc != nil && c.pvc.Annotations["volume.kubernetes.io/selected-node"] != "" {
		return false
	}
	mode := c.class.VolumeBindingMode
	return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer && (s.pod == nil || s.pod.Spec.NodeName == "")
}
