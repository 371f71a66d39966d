package migration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// planOf reads nodes such as "a:old b:old,used c:new d:outdated e:down f:starting g:none". Desired is how many are to have a pod.
func planOf(desired int, text string) nodes.Plan {
	p := nodes.Plan{Rules: nodes.Rules{Desired: desired, Migrates: true}, Proven: true, Nodes: map[string]*nodes.Node{}}
	for _, each := range strings.Fields(text) {
		name, words, _ := strings.Cut(each, ":")
		is := func(word string) bool { return slices.Contains(strings.Split(words, ","), word) }
		node := &nodes.Node{Occupied: !is("down") && !is("none"), Down: is("down")}
		if is("old") {
			node.Old = &corev1.Pod{}
		}
		if is("outdated") {
			node.Outdated = &corev1.Pod{}
		}
		if is("starting") {
			node.Problem = "NotReady"
		}
		if is("used") {
			node.Users = []string{"ns/app", "ns/other"}
		}
		p.Nodes[name] = node
	}
	return p
}

func TestTheMessageOfAMigrationSaysHowFarItIs(t *testing.T) {
	const accept = "set annotation operator.openshift.io/accept-remount=true on ClusterCSIDriver "
	many, list := "", ""
	for i := range 22 {
		name := fmt.Sprintf("n%02d", i)
		many += name + ":old,used "
		if i < 20 {
			list += ", " + name + " (ns/app, ns/other)"
		}
	}
	unproven := planOf(2, "a:old b:starting")
	unproven.Proven = false
	for name, tc := range map[string]struct {
		plan nodes.Plan
		ebs  bool
		want string
	}{
		"nobody uses volumes": {
			plan: planOf(2, "a:old b:new"), want: "1 of 2 nodes still have a pod of the predecessor",
		},
		"somebody does": {
			plan: planOf(2, "a:old b:old,used c:used,none"),
			want: "2 of 2 nodes still have a pod of the predecessor; on 1 of these nodes, pods use volumes: b (ns/app, ns/other). If the operator replaced the node pods there, the mounts of these pods would hang. Drain these nodes, delete the pods, or " + accept + "efs.csi.aws.com and restart the pods afterwards",
		},
		"somebody uses disks, which stay mounted": {
			plan: planOf(1, "a:old,used"), ebs: true,
			want: "1 of 1 nodes still have a pod of the predecessor; on 1 of these nodes, pods use volumes: a (ns/app, ns/other). If the operator replaced " +
				"the node pods there, no pod there could mount or unmount volumes until the new node pod runs. Drain these nodes, delete the pods, or " + accept + "ebs.csi.aws.com",
		},
		"many nodes": {
			plan: planOf(22, many),
			want: "22 of 22 nodes still have a pod of the predecessor; on 22 of these nodes, pods use volumes: " + list[2:] +
				" and 2 more, which \"oc storage migrate plan\" lists. If the operator replaced the node pods there, the mounts of these pods would hang. Drain these nodes, delete the pods, or " + accept +
				"efs.csi.aws.com and restart the pods afterwards",
		},
		"nodes without a pod": {
			plan: planOf(4, "a:old b:starting"),
			want: "1 of 4 nodes still have a pod of the predecessor; 1 nodes have no node pod yet: if that lasts, read the events of the DaemonSet; waiting for the new pods on b (NotReady)",
		},
		"the first new pod does not work": {
			plan: unproven,
			want: "1 of 2 nodes still have a pod of the predecessor; waiting for the new pods on b (NotReady) before other nodes get one",
		},
		"ours are outdated": {
			plan: planOf(2, "a:old b:outdated"),
			want: "1 of 2 nodes still have a pod of the predecessor; 1 nodes have an outdated pod of this operator; nodes in use keep it until no pod of the predecessor is left",
		},
		"nodes that are down": {
			plan: planOf(3, "a:old d:down c:down"),
			want: "1 of 1 nodes still have a pod of the predecessor; skipped nodes that are not ready: c, d",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Migration{Driver: awsefs.Driver()}
			if tc.ebs {
				m.Driver = awsebs.Driver()
			}
			if diff := cmp.Diff(tc.want, m.message(tc.plan)); diff != "" {
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
			plan, err := m.survey(t.Context(), State{}, nil, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.Nodes["node-1"] != nil && plan.Nodes["node-1"].Old != nil; got != may || !plan.Nodes["node-2"].Serves {
				t.Errorf("%+v", plan)
			}
		})
	}
}
