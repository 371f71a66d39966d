package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// accepts returns what the installed version of a driver accepts. If the image of the driver's node pods does not name the version, accepts assumes
// the newest version. For a driver that is not in package all, the table is empty.
func (f *facts) accepts(name string) accept.Table {
	version := ""
	if d := f.driver(name); d != nil && d.Nodes != nil {
		for _, one := range d.Nodes.Spec.Template.Spec.Containers {
			if one.Name == driver.Container {
				version = accept.VersionOf(one.Image)
			}
		}
	}
	for _, one := range all.Drivers() {
		if one.Name == name {
			return one.Accepts.At(version)
		}
	}
	return nil
}

// refusals compares claims and volumes with what their drivers accept. It reads no events.
func refusals(f *facts) []Finding {
	if f.subject == nil {
		return nil
	}
	var all []Finding
	for _, one := range f.subject.claims {
		runs := f.subject.pod != nil && f.subject.works() && !one.growing()
		if runs || one.driver == "" {
			continue
		}
		object, takes, severity := f.subject.object(), f.accepts(one.driver), Error
		var refused []accept.Problem
		said := ""
		if one.provisions() {
			object = "PersistentVolumeClaim " + f.subject.namespace + "/" + one.name
			refused = ofModes(takes, one.pvc.Spec.AccessModes, one.pvc.Spec.VolumeMode)
			said = fmt.Sprintf("PersistentVolumeClaim: accessModes %s, volumeMode %s", one.modes(), modeOf(one.pvc.Spec.VolumeMode))
		} else if one.volume != nil && one.volume.Spec.CSI != nil {
			object = "PersistentVolume " + one.volume.Name
			if f.subject.pod == nil {
				// The finding is only a warning, because pods may have mounted the volume with an older version of the driver, and still run.
				severity = Warning
			}
			refused = refusedIn(takes, one.volume)
			said = describeVolume(one.volume)
		}
		for _, problem := range refused {
			do := "Create the object again with values that the driver accepts."
			if problem.Instead != "" {
				do = "Use " + problem.Instead + "."
			}
			all = append(all, Finding{
				Severity: severity, Object: object, Page: string(pageUse), Said: clip(said),
				Cause: fmt.Sprintf("Driver %s refuses %s.", one.driver, problem.What),
				Do:    do, Command: f.subject.describe(), topic: topicOf("refused", one.name, problem.What), level: ofVolume, effects: ofRefused(one.driver),
			})
		}
		if grown := f.neverGrows(one, takes); grown != nil {
			all = append(all, *grown)
		}
	}
	return all
}

// withoutDoubles drops a finding of severity Unknown if another finding of severity Unknown quotes an event about the same problem. It also drops a
// finding of severity Warning if a finding of severity Error has the same cause.
func withoutDoubles(all []Finding) []Finding {
	return slices.DeleteFunc(all, func(one Finding) bool {
		return one.Severity == Unknown && slices.ContainsFunc(all, func(other Finding) bool {
			return other.Severity == Unknown && other.topic == "event/"+one.topic
		}) || one.Severity == Warning && slices.ContainsFunc(all, func(other Finding) bool {
			return other.Severity == Error && other.Cause == one.Cause
		})
	})
}

// ofRefused returns the topics (see Finding) of the findings that a driver's refusal explains.
func ofRefused(name string) []string {
	return []string{topicOf("event", "provision", name), topicOf("provision", name), topicOf("event", "modes", name), "event/mount",
		"event/attach", "event/schedule"}
}

// refusedIn returns what a driver refuses of a PersistentVolume. Only the table of EFS lists all volume attributes and the form of a volume handle.
// So for other drivers, refusedIn compares only modes.
func refusedIn(takes accept.Table, volume *corev1.PersistentVolume) []accept.Problem {
	if len(takes.Names(accept.Handle)) > 0 {
		return takes.Volume(volume)
	}
	// The kubelet and Kubernetes' attacher pass only the first mode to the driver (Kubernetes v1.36, pkg/volume/csi/csi_mounter.go SetUpAt). So compare
	// only the first mode.
	return ofModes(takes, volume.Spec.AccessModes[:min(1, len(volume.Spec.AccessModes))], volume.Spec.VolumeMode)
}

// ofModes returns the texts of refusedModes as Problems.
func ofModes(takes accept.Table, modes []corev1.PersistentVolumeAccessMode, volumeMode *corev1.PersistentVolumeMode) []accept.Problem {
	var problems []accept.Problem
	for _, text := range refusedModes(takes, modes, volumeMode) {
		problems = append(problems, accept.Problem{What: text})
	}
	return problems
}

// modeOf returns a volume mode. The default is Filesystem.
func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

// describeVolume returns the values of a PersistentVolume that doctor compares with what the driver accepts.
func describeVolume(one *corev1.PersistentVolume) string {
	text := fmt.Sprintf("PersistentVolume %s: accessModes %v, volumeMode %s, volumeHandle %q", one.Name, one.Spec.AccessModes,
		modeOf(one.Spec.VolumeMode), one.Spec.CSI.VolumeHandle)
	has := one.Spec.CSI.VolumeAttributes
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if !isOfSidecars(name) {
			text += fmt.Sprintf(", %s %q", name, has[name])
		}
	}
	if len(one.Spec.MountOptions) > 0 {
		text += fmt.Sprintf(", mountOptions %q", one.Spec.MountOptions)
	}
	return text
}

// isOfSidecars reports whether a volume attribute is for the sidecars, and not for the driver.
func isOfSidecars(name string) bool {
	return strings.HasPrefix(name, "csi.storage.k8s.io/") || strings.HasPrefix(name, "storage.kubernetes.io/")
}

// refusedModes returns a text for each access mode that a driver refuses, or one text if the driver refuses the volume mode. If the table has no rows
// about access modes, the driver counts as accepting all access modes. The same applies to volume modes.
func refusedModes(takes accept.Table, modes []corev1.PersistentVolumeAccessMode, volumeMode *corev1.PersistentVolumeMode) []string {
	kind := modeOf(volumeMode)
	if known := takes.Names(accept.VolumeMode); len(known) > 0 && !slices.Contains(known, string(kind)) {
		return []string{fmt.Sprintf("volumeMode %s: the driver accepts %s", kind, strings.Join(known, ", "))}
	}
	known := takes.Names(accept.AccessMode)
	accepted := slices.DeleteFunc(slices.Clone(known), func(mode string) bool { return takes.Refusal(accept.AccessMode, mode, string(kind)) != "" })
	var refused []string
	for _, mode := range modes {
		// Skip ReadWriteOncePod, because the sidecars turn it into a CSI access mode for a single node (csi-lib-utils v0.23.1,
		// accessmodes/access_modes.go).
		if len(known) == 0 || mode == corev1.ReadWriteOncePod {
			continue
		}
		if !slices.Contains(known, string(mode)) {
			refused = append(refused, fmt.Sprintf("access mode %s: the driver accepts %s", mode, strings.Join(accepted, ", ")))
		} else if why := takes.Refusal(accept.AccessMode, string(mode), string(kind)); why != "" {
			refused = append(refused, fmt.Sprintf("access mode %s with volumeMode %s: %s", mode, kind, why))
		}
	}
	return refused
}

// neverGrows finds a claim whose driver can't expand volumes.
func (f *facts) neverGrows(one claim, takes accept.Table) *Finding {
	if !one.growing() || len(takes) == 0 || len(takes.Names(accept.Expansion)) > 0 {
		return nil
	}
	found := &Finding{
		Severity: Warning, Object: "PersistentVolumeClaim " + f.subject.namespace + "/" + one.name, Page: string(pageUse), state: true,
		Cause: fmt.Sprintf("The PersistentVolumeClaim never grows: driver %s can't expand volumes.", one.driver),
		Do:    "Create a larger PersistentVolumeClaim, and copy the data.", Command: toCopy("oc -n %s describe pvc %s", f.subject.namespace, one.name),
		topic: topicOf("grow", one.name), level: ofVolume,
		Said: fmt.Sprintf("requested %s, capacity %s", one.pvc.Spec.Resources.Requests.Storage(), one.pvc.Status.Capacity.Storage()),
	}
	if one.driver == efs.DriverName {
		found.Cause = "The PersistentVolumeClaim never grows, but pods can store more: EFS does not limit a volume to the requested size."
		found.Do = "Ignore the requested size, and remove allowVolumeExpansion from the StorageClass."
	}
	return found
}

// classesGrow finds StorageClasses that promise expansion although their driver can't expand volumes.
func classesGrow(f *facts) []Finding {
	if f.subject != nil {
		return nil
	}
	var all []Finding
	for i := range f.classes.items {
		if found := f.neverExpands(&f.classes.items[i]); found != nil {
			all = append(all, *found)
		}
	}
	return all
}

// neverExpands finds a StorageClass that promises expansion although its driver can't expand volumes.
func (f *facts) neverExpands(class *storagev1.StorageClass) *Finding {
	provisioner := volume.Provisioner(class.Provisioner)
	takes := f.accepts(provisioner)
	if class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion || len(takes) == 0 || len(takes.Names(accept.Expansion)) > 0 {
		return nil
	}
	return &Finding{
		Severity: Warning, Object: "StorageClass " + class.Name, Page: string(pageUse),
		Cause:   fmt.Sprintf("StorageClass %s has allowVolumeExpansion, but driver %s can't expand volumes.", class.Name, provisioner),
		Do:      "Set allowVolumeExpansion to false. Otherwise, a PersistentVolumeClaim that asks for more space waits forever.",
		Command: toCopy("oc get storageclass %s -o yaml", class.Name),
		topic:   topicOf("class", class.Name, "grow"), level: ofClass, Said: "allowVolumeExpansion: true",
	}
}

// mismatches compares a claim with the volume that it names, as Kubernetes does before it binds them (Kubernetes v1.36,
// pkg/controller/volume/persistentvolume/pv_controller.go, checkVolumeSatisfyClaim).
func mismatches(f *facts) []Finding {
	return f.eachClaim(func(one claim, object, topic string) *Finding {
		if !one.waits() || one.volume == nil || one.volumeAnswer != plugin.Present || isTaken(one.volume, f.subject.namespace, one.name) {
			return nil
		}
		differs := one.mismatch()
		if differs == "" {
			return nil
		}
		found := &Finding{
			Severity: Error, Object: object, Page: string(pageUse), Said: clip(differs), topic: topic + "/mismatch", level: ofVolume, effects: ofClaim(one),
			Cause:   fmt.Sprintf("PersistentVolumeClaim %s does not fit PersistentVolume %s, which it names.", one.name, one.volume.Name),
			Do:      "Delete the PersistentVolumeClaim, which has no data yet, and create it again with the values of the PersistentVolume.",
			Command: toCopy("oc get pv %s -o yaml", one.volume.Name),
		}
		if classOf(one.volume) == "" && strings.Contains(differs, "storageClassName") {
			// Kubernetes sets the default class on a PersistentVolumeClaim without the field storageClassName. If the field is the empty string, Kubernetes
			// sets no class.
			found.Do = "Delete the PersistentVolumeClaim, which has no data yet, and create it again with the line storageClassName: \"\"."
			if one.class != nil && slices.Contains(f.defaults(), one.class.Name) {
				found.Said = clip(differs + "; " + one.class.Name + " is the default class, which Kubernetes sets if a PersistentVolumeClaim names none")
			}
		}
		return found
	})
}

// classOf returns the StorageClass of a PersistentVolume.
func classOf(volume *corev1.PersistentVolume) string {
	return cmp.Or(volume.Annotations[corev1.BetaStorageClassAnnotation], volume.Spec.StorageClassName)
}

// mismatch says how a claim and its volume differ. If Kubernetes can bind them, the text is empty.
func (c claim) mismatch() string {
	has, wants := c.volume.Spec, c.pvc.Spec
	class := ""
	if wants.StorageClassName != nil {
		class = *wants.StorageClassName
	}
	class = cmp.Or(c.pvc.Annotations[corev1.BetaStorageClassAnnotation], class)
	ofVolume := classOf(c.volume)
	size, capacity := wants.Resources.Requests[corev1.ResourceStorage], has.Capacity[corev1.ResourceStorage]
	var differs []string
	add := func(what, of, at any) {
		differs = append(differs, fmt.Sprintf("%v %v of the claim, %v of the volume", what, of, at))
	}
	if class != ofVolume {
		add("storageClassName", fmt.Sprintf("%q", class), fmt.Sprintf("%q", ofVolume))
	}
	if modeOf(wants.VolumeMode) != modeOf(has.VolumeMode) {
		add("volumeMode", modeOf(wants.VolumeMode), modeOf(has.VolumeMode))
	}
	if !capacity.IsZero() && size.Cmp(capacity) > 0 {
		add("size", size.String(), capacity.String())
	}
	for _, one := range wants.AccessModes {
		if len(has.AccessModes) > 0 && !slices.Contains(has.AccessModes, one) {
			add("accessModes", one, fmt.Sprint(has.AccessModes))
		}
	}
	return strings.Join(differs, "; ")
}

// volumesRefused finds PersistentVolumes that their drivers refuse, if the user asks about the whole cluster.
func volumesRefused(f *facts) []Finding {
	if f.subject != nil || len(f.refused) == 0 {
		return nil
	}
	slices.Sort(f.refused)
	name, _, _ := strings.Cut(f.refused[0], " ")
	return []Finding{{
		Severity: Warning, Object: "PersistentVolume " + name, Page: string(pageUse), Said: clip("PersistentVolumes: " + status.Shorten(f.refused)),
		Cause:   have(len(f.refused), "PersistentVolume") + " values that the driver refuses, so new pods can't mount such a volume.",
		Do:      "Run doctor for each PersistentVolume, and create the volume again with other values.",
		Command: toCopy("oc storage doctor pv %s", name), topic: "volume/refused", level: ofVolume,
	}}
}
