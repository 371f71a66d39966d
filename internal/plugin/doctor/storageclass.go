package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/driver/accept"
	"github.com/csi-operators/csi-operators/internal/kube/volume"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// readStorageClass reads a StorageClass, and the names of the PersistentVolumeClaims with this class that are not Bound.
func (r *reader) readStorageClass(ctx context.Context, key client.ObjectKey) {
	s, class := r.subject, &storagev1.StorageClass{}
	if s.answer = r.get(ctx, key, class); s.answer != plugin.Present {
		return
	}
	s.class, s.drivers = class, []string{volume.Provisioner(class.Provisioner)}
	all := &corev1.PersistentVolumeClaimList{}
	r.list("PersistentVolumeClaims", func() (plugin.Answer, error) { return r.TryList(ctx, all) })
	for i := range all.Items {
		one := &all.Items[i]
		if name := one.Spec.StorageClassName; name != nil && *name == class.Name && one.Status.Phase != corev1.ClaimBound {
			s.waiting = append(s.waiting, one.Namespace+"/"+one.Name)
		}
	}
	slices.Sort(s.waiting)
}

// classSubject checks the StorageClass that the user asks about. It looks at the driver, the parameters, expansion, the default mark, and the claims
// that are not Bound.
func classSubject(f *facts) []Finding {
	if f.subject == nil || f.subject.class == nil {
		return nil
	}
	class := f.subject.class
	driver := volume.Provisioner(class.Provisioner)
	all := f.classRefusals(class, driver)
	base := Finding{Object: f.subject.object(), Page: string(pageUse), Command: toCopy("oc get storageclass %s -o yaml", class.Name), level: ofClass}
	if d := f.driver(driver); isCSI(driver) && f.CSIDrivers == plugin.Present && (d == nil || d.CSIDriver == nil) {
		found := base
		found.Severity, found.topic = Error, topicOf("csidriver", driver)
		found.Cause = fmt.Sprintf("Driver %s, which provisions volumes of StorageClass %s, is not installed.", driver, class.Name)
		found.Do, found.Command = "Install the driver, or correct the provisioner in a new class.", "oc get csidrivers"
		found.Said, found.Page, found.level = clip("provisioner: "+class.Provisioner), string(pageInstall), ofPlugin
		all = append(all, found)
	}
	if grows := f.neverExpands(class); grows != nil {
		all = append(all, *grows)
	}
	if defaults := f.defaults(); len(defaults) > 0 && slices.Contains(defaults, class.Name) {
		found := base
		found.Severity, found.topic = Info, topicOf("class", class.Name, "default")
		found.Cause = fmt.Sprintf("StorageClass %s is the default for PersistentVolumeClaims without a class.", class.Name)
		found.Do, found.Page = "Nothing, if this is what you want.", string(pageDefault)
		if len(defaults) > 1 {
			found.Cause = fmt.Sprintf("StorageClass %s is one of %d classes that are marked as the default: Kubernetes uses the newest.",
				class.Name, len(defaults))
			found.Severity, found.Do, found.Said = Warning, "Keep the mark on one class.", listed("default", defaults)
		}
		all = append(all, found)
	}
	if waiting := f.subject.waiting; len(waiting) > 0 {
		found := base
		namespace, name, _ := strings.Cut(waiting[0], "/")
		found.Severity, found.topic, found.level = Warning, topicOf("class", class.Name, "waiting"), ofUnexplained
		found.Cause = fmt.Sprintf("StorageClass %s has %s not in phase Bound.", class.Name, plural(len(waiting), "PersistentVolumeClaim"))
		found.Do, found.Said = "Run doctor for each.", listed("not Bound", waiting)
		found.Command = toCopy("oc storage doctor pvc %s -n %s", name, namespace)
		all = append(all, found)
	}
	return all
}

// classRefusals compares the parameters of a StorageClass with what its driver accepts. It skips classes of EFS, because classFindings checks them
// more closely. It also skips parameters that the sidecars read. It ignores upper and lower case in parameter names, as some drivers do, although
// other drivers refuse a name in another case.
func (f *facts) classRefusals(class *storagev1.StorageClass, driver string) []Finding {
	takes := f.accepts(driver)
	known := takes.Names(accept.Parameter)
	if driver == efs.DriverName || len(known) == 0 {
		return nil
	}
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(class.Parameters)) {
		if isOfSidecars(name) {
			continue
		}
		found := Finding{
			Severity: Error, Object: "StorageClass " + class.Name, Page: string(pageUse), topic: topicOf("class", class.Name, name), level: ofClass,
			Cause:   fmt.Sprintf("Driver %s refuses parameter %s of StorageClass %s.", driver, clip(name), class.Name),
			Do:      "Create a class with correct parameters: the parameters of an existing class can't be changed.",
			Command: toCopy("oc get storageclass %s -o yaml", class.Name),
		}
		at := slices.IndexFunc(known, func(one string) bool { return strings.EqualFold(one, name) })
		switch {
		case at < 0:
			found.Severity = Warning
			found.Cause = fmt.Sprintf("StorageClass %s has parameter %s, which driver %s does not know. "+
				"The driver ignores the parameter, or creates no volumes.", class.Name, clip(name), driver)
			found.Said = listed("known parameters", known)
		default:
			why := takes.Refusal(accept.Parameter, known[at], class.Parameters[name])
			if why == "" {
				continue
			}
			found.Said = clip(fmt.Sprintf("parameter %s is %q: %s", name, class.Parameters[name], why))
		}
		all = append(all, found)
	}
	return all
}
