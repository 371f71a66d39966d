package clustercsidriver

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// A driver that an administrator has removed is not broken, and does not hold up an update of the cluster.
func TestADriverThatIsRemovedByStateIsDisabledAndUpToDate(t *testing.T) {
	for name, tc := range map[string]struct {
		byState           bool
		disabled, version string
	}{
		"by state": {true, "True Removed: the driver is removed because spec.managementState is Removed; set it to Managed to install the " +
			"driver", "1.2.3"},
		"otherwise": {false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.Removable, d.RemovedByState = !tc.byState, tc.byState
			cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName, UID: "cr-1"}}
			cr.Spec.ManagementState = operatorv1.Removed
			s := newTrip(t, d, cr, infrastructure())
			if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
				t.Fatal(err)
			}
			written := s.written(t)
			if written == nil {
				t.Fatal("no status is written")
			}
			said := texts(written.Conditions)
			if said["DiskDriverDisabled"] != tc.disabled || written.Version != tc.version {
				t.Errorf("%q, version %q", said["DiskDriverDisabled"], written.Version)
			}
			if degraded := said["ManagementStateDegraded"]; !strings.HasPrefix(degraded, "False") {
				t.Errorf("ManagementStateDegraded %q", degraded)
			}
			for _, request := range s.cluster.Sent() {
				if strings.Contains(request, "finalizers") {
					t.Errorf("it has a finalizer: %s", request)
				}
			}
		})
	}
}

// Who removes a part of the cluster may not know who has volumes of it. Force removes all the same.
func TestADriverWithVolumesStaysIfItIsRemovedByState(t *testing.T) {
	volumes := func(phase corev1.PersistentVolumePhase) client.Object {
		made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
		made.Spec.CSI, made.Status.Phase = &corev1.CSIPersistentVolumeSource{Driver: diskName}, phase
		return made
	}
	const waits = "Removal is blocked: the driver has 1 PersistentVolumes, and only the driver can attach or delete them: pv-1. Delete them, or set annotation operator.openshift.io/force-driver-removal=true on ClusterCSIDriver disk.example.com to remove the driver anyway"
	for name, tc := range map[string]struct {
		byState bool
		state   operatorv1.ManagementState
		force   string
		objects []client.Object
		want    string
	}{
		"a volume that is used by nobody": {byState: true, state: operatorv1.Removed, objects: []client.Object{volumes(corev1.VolumeAvailable)}, want: waits},
		"a volume without a claim":        {byState: true, state: operatorv1.Removed, objects: []client.Object{volumes(corev1.VolumeReleased)}, want: waits},
		"by force":                        {byState: true, state: operatorv1.Removed, force: "true", objects: []client.Object{volumes(corev1.VolumeAvailable)}},
		"no volume":                       {byState: true, state: operatorv1.Removed},
		"an administrator's driver":       {state: operatorv1.Removed, objects: []client.Object{volumes(corev1.VolumeAvailable)}},
		"another platform":                {byState: true, state: operatorv1.Managed, objects: []client.Object{volumes(corev1.VolumeAvailable)}},
		"pods come first":                 {byState: true, state: operatorv1.Removed, objects: using(), want: webUsesIt},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk()
			d.Removable, d.RemovedByState = !tc.byState, tc.byState
			trip := newTrip(t, d, append(tc.objects, csiDriver(), infrastructure())...)
			cr, _ := healthy()
			cr.Spec.ManagementState = tc.state
			metav1.SetMetaDataAnnotation(&cr.ObjectMeta, ForceRemovalAnnotation, tc.force)
			if result := trip.remove(t.Context(), cr, trip.found(t)); result.removal.inUse != tc.want || (tc.want == "") != result.removal.removing {
				t.Errorf("it is held by %q, want %q; removing %v, %v", result.removal.inUse, tc.want, result.removal.removing, result.err)
			}
		})
	}
}

func TestAWebhookGoesWithItsPods(t *testing.T) {
	for kind, want := range map[string]bool{
		"apps/Deployment": true, "apps/DaemonSet": true, "admissionregistration.k8s.io/ValidatingWebhookConfiguration": true,
		"/Service": false, "storage.k8s.io/CSIDriver": false,
	} {
		group, name, _ := strings.Cut(kind, "/")
		subject := apply.Subject{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: name}}
		if got := goesFirst(subject); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}
