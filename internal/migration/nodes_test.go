package migration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/nodes"
)

func TestTheMessageOfATakeOverNamesNodesAndPods(t *testing.T) {
	m := &Migration{Driver: driver.Driver{Name: "efs.csi.aws.com", DaemonSet: "efs-csi-node", Prefix: "p"}}
	got := m.message(nodes.Fleet{
		Desired: 4, Old: map[string]*corev1.Pod{"a": {}, "b": {}}, Occupied: map[string]bool{"a": true, "b": true, "c": true},
		Pending: []string{"c (NotReady)"}, Down: map[string]bool{"d": true}, Users: map[string][]string{"b": {"ns/app", "ns/other"}, "c": {"ns/elsewhere"}},
	})
	for _, want := range []string{
		"2 of 3 nodes still have a pod", "on 1 of them", "b (ns/app, ns/other)", "operator.openshift.io/accept-remount=true", "new pods of c (NotReady)",
		"not ready are left alone: d", "their mounts would hang",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in: %s", want, got)
		}
	}
}
