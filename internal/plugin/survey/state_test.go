package survey

import (
	"slices"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/all"
)

func TestWhoHasMadeACSIDriver(t *testing.T) {
	working := &operatorv1.ClusterCSIDriver{Status: operatorv1.ClusterCSIDriverStatus{OperatorStatus: operatorv1.OperatorStatus{
		Conditions: []operatorv1.OperatorCondition{{Type: "Available", Status: operatorv1.ConditionTrue}},
	}}}
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		managers            []metav1.ManagedFieldsEntry
		cr                  *operatorv1.ClusterCSIDriver
		want                string
	}{
		"our operator":      {map[string]string{"app.kubernetes.io/managed-by": "operator"}, nil, nil, nil, ""},
		"OpenShift's":       {nil, map[string]string{"csi.openshift.io/managed": "true"}, nil, nil, ""},
		"an older operator": {nil, nil, nil, working, ""},
		"Helm":              {nil, map[string]string{"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": "b"}, nil, working, "Helm release b/a"},
		"another label":     {map[string]string{"app.kubernetes.io/managed-by": "flux"}, nil, nil, working, "flux"},
		"somebody with oc":  {nil, nil, []metav1.ManagedFieldsEntry{{Manager: "kubectl-create"}}, nil, "kubectl-create"},
		"somebody":          {nil, nil, nil, nil, "another owner"},
	} {
		driver := Driver{Profile: &Profile{Operator: "operator"}, CR: tc.cr, CSIDriver: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{
			Labels: tc.labels, Annotations: tc.annotations, ManagedFields: tc.managers,
		}}}
		if got := driver.Holder(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if (Driver{}).Holder() != "" {
		t.Error("a driver that is not there has a holder")
	}
}

func TestWhoHoldsALease(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		holder  *string
		renewed int64
		want    string
	}{
		"renewed lately":          {new("host_uuid"), 990, "host"},
		"renewed, and late":       {new("host_uuid"), 880, "host"},
		"by whoever ended":        {new("host_uuid"), 879, ""},
		"given back":              {new(""), 990, ""},
		"without a holder":        {nil, 990, ""},
		"another form of holders": {new("host"), 990, "host"},
	} {
		lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: tc.holder, LeaseDurationSeconds: new(int32(60)), RenewTime: &metav1.MicroTime{Time: time.Unix(tc.renewed, 0)},
		}}
		if got := holderOf(lease, now); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestEveryDriverOfThisRepositoryIsKnownWithItsWorkloads(t *testing.T) {
	found := profiles()
	for _, d := range all.Drivers() {
		one := found[d.Name]
		if one.Operator != d.Operator || one.DaemonSet != d.DaemonSet || one.Deployment != d.Deployment || !one.Ours || one.Title == "" {
			t.Errorf("%s: %+v", d.Name, one)
		}
	}
	operators, daemonSets := anywhere(found)
	want := len(slices.DeleteFunc(all.Drivers(), func(d driver.Driver) bool { return d.Payload != nil }))
	if len(operators) != want || len(daemonSets) != want {
		t.Errorf("%v, %v, want those of %d drivers that administrators install", operators, daemonSets, want)
	}
}
