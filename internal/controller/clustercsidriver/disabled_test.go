package clustercsidriver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Where there is nothing to drive, nothing is applied, and the driver lacks nothing. What is there stays, and is kept up.
func TestADriverWithoutItsCloudIsDisabled(t *testing.T) {
	const why = "this cloud has no disks"
	d := disk()
	d.Removable = false
	cloud := why
	d.Disabled = func(driver.Config) string { return cloud }
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName, UID: "cr-1"}}
	cr.Spec.ManagementState = operatorv1.Managed
	reconcile := func(objects ...client.Object) (*trip, map[string]string) {
		s := newTrip(t, d, append(objects, cr.DeepCopy(), infrastructure())...)
		if _, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
			t.Fatal(err)
		}
		written := s.written(t)
		if written == nil {
			t.Fatal("no status is written")
		}
		seen := map[string]int{}
		for _, condition := range written.Conditions {
			if seen[condition.Type]++; seen[condition.Type] > 1 {
				t.Errorf("%s is there twice", condition.Type)
			}
		}
		found := texts(written.Conditions)
		found["version"] = written.Version
		return s, found
	}

	s, said := reconcile()
	for kind, want := range map[string]string{
		"DiskDriverDisabled": "True DriverDisabled: " + why, "ControllerAvailable": "True DriverDisabled: " + why, "NodesAvailable": "True DriverDisabled: " + why,
		"Available": "True AsExpected", "Degraded": "False AsExpected", "Progressing": "False AsExpected", "version": "1.2.3",
	} {
		if said[kind] != want {
			t.Errorf("%s: %q, want %q", kind, said[kind], want)
		}
	}
	if diff := cmp.Diff([]string{statusWrite}, names(s.cluster.Sent())); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}

	reported := cr.DeepCopy()
	reported.Status.Conditions = s.written(t).Conditions
	withoutInfrastructure := func(objects ...client.Object) map[string]string {
		broken := newTrip(t, d, append(objects, reported.DeepCopy())...)
		if _, err := broken.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err == nil {
			t.Error("a missing Infrastructure is no error")
		}
		return texts(broken.written(t).Conditions)
	}
	if said := withoutInfrastructure(); said["Available"] != "True AsExpected" || said["DiskDriverDisabled"] != "True DriverDisabled: "+why {
		t.Errorf("without an Infrastructure, a disabled driver: %q, %q", said["Available"], said["DiskDriverDisabled"])
	}
	installed := ours(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}})
	if said := withoutInfrastructure(installed); said["Available"] == "True AsExpected" {
		t.Errorf("without an Infrastructure, a driver whose CSIDriver exists: %q, %q", said["Available"], said["DiskDriverDisabled"])
	}

	cloud = ""
	if _, said = reconcile(); said["DiskDriverDisabled"] != "False AsExpected" || said["version"] == "1.2.3" {
		t.Errorf("with its cloud: %q, version %q", said["DiskDriverDisabled"], said["version"])
	}
	cloud = why
	if s, said = reconcile(ours(daemonSet())); said["DiskDriverDisabled"] != "False AsExpected" || len(s.cluster.Sent()) < 2 {
		t.Errorf("one that is there: %q, %d writes", said["DiskDriverDisabled"], len(s.cluster.Sent()))
	}
	if status.Find(s.reporter.own(operatorv1.OperatorStatus{Conditions: []operatorv1.OperatorCondition{{Type: "DiskDriverDisabled"}}}).Conditions, "DiskDriverDisabled") == nil {
		t.Error("the condition is not compared")
	}
}

// names are requests without what is written.
func names(requests []string) []string {
	short := make([]string, 0, len(requests))
	for _, request := range requests {
		for i := range request {
			if request[i] == '{' {
				request = request[:i-1]
				break
			}
		}
		short = append(short, request)
	}
	return short
}
