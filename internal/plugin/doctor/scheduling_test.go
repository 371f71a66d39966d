package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-operators/csi-operators/internal/plugin"
)

// A pod without a node names the nodes that lack the driver, and what is wrong with their node pods.
func TestAPodThatWaitsForTheDriverNamesTheNode(t *testing.T) {
	const missing = "0/3 nodes are available: 3 efs.csi.aws.com CSI driver is not installed on the node."
	taint := func(s *scene, names ...string) {
		for _, name := range names {
			change(s, name, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: efsName + "/agent-not-ready", Effect: corev1.TaintEffectNoExecute}}
			})
		}
	}
	unregister := func(s *scene, names ...string) {
		for _, name := range names {
			change(s, name, func(n *storagev1.CSINode) { n.Spec.Drivers = nil })
		}
	}
	waits := func(s *scene, message string) {
		change(s, "web", func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message},
			}}
		})
		s.add(eventOn("Pod", "web", "FailedScheduling", message))
	}
	for name, test := range map[string]struct {
		damage      func(s *scene)
		want, avoid []string
	}{
		"the driver is missing": {
			func(s *scene) { unregister(s, "a", "b", "c"); waits(s, missing) },
			[]string{"The pod can't run on node a before driver efs.csi.aws.com is registered there.", "on node c before"}, nil,
		},
		"the node pod is not ready": {
			func(s *scene) {
				unregister(s, "a")
				change(s, daemonSet+"-a", func(p *corev1.Pod) { *p = *sickPlugin(p.Name, "a") })
				waits(s, strings.ReplaceAll(missing, "3 efs", "1 efs"))
			},
			[]string{"The node pod of driver efs.csi.aws.com on node a is not ready."}, []string{"on node b", "before driver"},
		},
		"the taint waits for the driver": {
			func(s *scene) {
				unregister(s, "b")
				taint(s, "b")
				waits(s, "0/3 nodes are available: 1 node(s) had untolerated taint(s).")
			},
			[]string{"The pod can't run on node b before driver efs.csi.aws.com is registered there."}, []string{"node a", "node c"},
		},
		"the taint stays": {
			func(s *scene) {
				taint(s, "b")
				waits(s, "0/3 nodes are available: 1 node(s) had untolerated taint(s).")
			},
			[]string{"node b: the node still has the startup taint of driver efs.csi.aws.com"}, nil,
		},
		"the pod tolerates the taint": {
			func(s *scene) {
				taint(s, "b")
				change(s, "web", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} })
				waits(s, "0/3 nodes are available: 3 Insufficient cpu.")
			},
			nil, []string{"startup taint"},
		},
		"startup taints of three drivers": {
			func(s *scene) {
				taint(s, "b")
				change(s, "b", func(n *corev1.Node) {
					for _, driver := range []string{"ebs.csi.aws.com", "csi.vsphere.vmware.com"} {
						n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: driver + "/agent-not-ready", Effect: corev1.TaintEffectNoExecute})
					}
				})
				waits(s, "0/3 nodes are available: 1 node(s) had untolerated taint(s).")
			},
			[]string{"node b: the node still has the startup taint of driver efs.csi.aws.com"}, nil,
		},
		"another reason": {
			func(s *scene) { unregister(s, "b"); waits(s, "0/3 nodes are available: 3 Insufficient cpu.") },
			nil, []string{"is registered there", "startup taint"},
		},
		"nodes that the pod may not run on": {
			func(s *scene) {
				unregister(s, "a", "b")
				taint(s, "a", "b")
				change(s, "a", func(n *corev1.Node) { n.Spec.Unschedulable = true })
				change(s, "b", func(n *corev1.Node) {
					n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "master", Effect: corev1.TaintEffectNoSchedule})
				})
				waits(s, missing)
			},
			nil, []string{"is registered there", "startup taint"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			test.damage(s)
			text, _ := s.ask(plugin.JSON, "pod", "web")
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("want %q in:\n%s", want, text)
				}
			}
			for _, avoid := range test.avoid {
				if strings.Contains(text, avoid) {
					t.Errorf("%q is in:\n%s", avoid, text)
				}
			}
		})
	}
}
