package migration

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/all"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

// In a cluster without anything of a predecessor, the trip asks the API server for next to nothing on behalf of a migration, and only once.
func TestWhatAClusterWithoutPredecessorsCosts(t *testing.T) {
	want := map[string][]string{
		"efs.csi.aws.com": nil,
		// Node pods of OpenShift 4.5 would be in a namespace of their own, which no cache holds.
		"ebs.csi.aws.com": {"may I delete pods in openshift-aws-ebs-csi-driver", "list Pod openshift-aws-ebs-csi-driver"},
		// A binding of a predecessor has no label by which a cache could hold it.
		"pd.csi.storage.gke.io": {"get ClusterRoleBinding gcp-pd-controller-privileged-binding"},
		"file.csi.azure.com": {
			"get ClusterRoleBinding azure-file-csi-driver-binding", "get ClusterRoleBinding azure-file-csi-main-attacher-binding",
			"get ClusterRole azure-file-csi-driver-role",
		},
		"csi.vsphere.vmware.com": {"get ClusterRoleBinding vmware-vsphere-controller-privileged-binding"},
	}
	for _, d := range all.Drivers() {
		t.Run(d.Name, func(t *testing.T) {
			m := newMove(t, d)
			made := func(kind, name string) apply.Change {
				return apply.Change{Action: apply.Created, Subject: apply.Subject{
					GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}, ObjectKey: client.ObjectKey{Namespace: here, Name: name},
				}}
			}
			changes := apply.ChangeSet{made("Deployment", d.Deployment), made("DaemonSet", d.DaemonSet)}
			trip := func() []string {
				m.live.Reads, m.cache.Writes, m.cache.mayI = nil, nil, nil
				if older, err := m.OlderCopy(t.Context()); err != nil || older != nil {
					t.Fatal(older, err)
				}
				state, err := m.Observe(t.Context(), managed())
				if err != nil || state.Blocked() {
					t.Fatal(state.Blocker, err)
				}
				if _, err := m.Advance(t.Context(), state, changes, nil); err != nil {
					t.Fatal(err)
				}
				return slices.Concat(m.cache.mayI, m.cache.Sent(), m.live.Reads)
			}
			if diff := cmp.Diff(want[d.Name], trip()); diff != "" {
				t.Errorf("the first time (-want +got):\n%s", diff)
			}
			if again := trip(); len(again) > 0 {
				t.Errorf("the second time: %v", again)
			}
		})
	}
}
