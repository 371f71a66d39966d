package migration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

func TestTheMessageOfAMigrationSaysHowFarItIs(t *testing.T) {
	pods := func(names ...string) map[string]*corev1.Pod {
		found := map[string]*corev1.Pod{}
		for _, name := range names {
			found[name] = &corev1.Pod{}
		}
		return found
	}
	on := func(names ...string) map[string]bool {
		found := map[string]bool{}
		for _, name := range names {
			found[name] = true
		}
		return found
	}
	const accept = "set annotation operator.openshift.io/accept-remount=true on ClusterCSIDriver "
	many := nodes.Fleet{Desired: 22, Old: map[string]*corev1.Pod{}, Occupied: map[string]bool{}, Users: map[string][]string{}}
	list := ""
	for i := range 22 {
		name := fmt.Sprintf("n%02d", i)
		many.Old[name], many.Occupied[name], many.Users[name] = &corev1.Pod{}, true, []string{"ns/a"}
		if i < 20 {
			list += ", " + name + " (ns/a)"
		}
	}
	for name, tc := range map[string]struct {
		fleet nodes.Fleet
		ebs   bool
		want  string
	}{
		"nobody uses volumes": {
			fleet: nodes.Fleet{Desired: 2, Old: pods("a"), Occupied: on("a", "b")}, want: "1 of 2 nodes still have a pod of the predecessor",
		},
		"somebody does": {
			fleet: nodes.Fleet{Desired: 2, Old: pods("a", "b"), Occupied: on("a", "b"), Users: map[string][]string{"b": {"ns/app", "ns/other"}, "c": {"ns/x"}}},
			want: "2 of 2 nodes still have a pod of the predecessor; on 1 of them pods use volumes, and their mounts would hang: b (ns/app, ns/other). " +
				"Drain these nodes, end the pods, or " + accept + "efs.csi.aws.com and start the pods anew afterwards",
		},
		"somebody uses disks, which stay mounted": {
			fleet: nodes.Fleet{Desired: 1, Old: pods("a"), Occupied: on("a"), Users: map[string][]string{"a": {"ns/app"}}}, ebs: true,
			want: "1 of 1 nodes still have a pod of the predecessor; on 1 of them pods use volumes, and nothing is mounted or unmounted there between " +
				"the old plugin and the new one: a (ns/app). Drain these nodes, end the pods, or " + accept + "ebs.csi.aws.com",
		},
		"many nodes": {
			fleet: many,
			want: "22 of 22 nodes still have a pod of the predecessor; on 22 of them pods use volumes, and their mounts would hang: " + list[2:] +
				" and 2 more, which \"oc storage migrate plan\" lists. Drain these nodes, end the pods, or " + accept +
				"efs.csi.aws.com and start the pods anew afterwards",
		},
		"nodes without a pod": {
			fleet: nodes.Fleet{Desired: 4, Old: pods("a"), Occupied: on("a", "b"), Pending: []string{"b (NotReady)"}},
			want: "1 of 4 nodes still have a pod of the predecessor; 1 nodes have no pod yet: if that lasts, look at the events of the DaemonSet; " +
				"waiting for the new pods of b (NotReady)",
		},
		"the first new pod does not work": {
			fleet: nodes.Fleet{Desired: 2, Old: pods("a"), Occupied: on("a", "b"), Pending: []string{"b (NotReady)"}, Unproven: true},
			want:  "1 of 2 nodes still have a pod of the predecessor; waiting for the new pods of b (NotReady) before other nodes get one",
		},
		"ours are outdated": {
			fleet: nodes.Fleet{Desired: 2, Old: pods("a"), Occupied: on("a", "b"), Outdated: pods("b")},
			want: "1 of 2 nodes still have a pod of the predecessor; 1 nodes have a pod of this operator that is outdated; those in use keep it until " +
				"no pod of the predecessor is left",
		},
		"nodes that are down": {
			fleet: nodes.Fleet{Desired: 3, Old: pods("a"), Occupied: on("a"), Down: on("d", "c")},
			want:  "1 of 1 nodes still have a pod of the predecessor; nodes that are not ready are left alone: c, d",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Migration{Driver: awsefs.Driver()}
			if tc.ebs {
				m.Driver = awsebs.Driver()
			}
			if diff := cmp.Diff(tc.want, m.message(tc.fleet)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Where the operator may not replace pods in a predecessor's namespace, they are not among those that it replaces.
func TestASurveyHasThePodsOfPredecessorsNamespacesWhereItMay(t *testing.T) {
	for name, may := range map[string]bool{"it may": true, "it may not": false} {
		t.Run(name, func(t *testing.T) {
			own := ebsPod(here, "own", ebsNodes)
			own.Spec.NodeName, own.Spec.ServiceAccountName = "node-2", "aws-ebs-csi-driver-node-sa"
			m := newMove(t, awsebs.Driver(), ebsPod(old, "n", ebsNodes), own, node("node-1"), node("node-2"))
			m.mine = map[string]bool{old: may}
			fleet, err := m.survey(t.Context(), nil, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got := fleet.Old["node-1"] != nil; got != may || !fleet.Serving["node-2"] {
				t.Errorf("%+v", fleet)
			}
		})
	}
}
