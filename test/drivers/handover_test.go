package drivers

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

// acceptRemount is the annotation by which an administrator lets nodes in use go on.
const acceptRemount = "operator.openshift.io/accept-remount"

// handedNodes is the number of nodes, of which three are the control plane's: one may lack a plugin at a time.
const handedNodes = 5

// OpenShift 4.5 ran the driver in a namespace of its own, from which nothing can move. Applications notice nothing. Another operator, which has not
// begun the hand-over, removes a driver that is half handed over, with nothing left in either namespace.
func TestEBSIsHandedOverFromTheNamespaceOfOpenShift45(t *testing.T) {
	h := newHandover(t)
	kept := h.identity(t)
	apps := h.begin(t)
	operator := h.operate(t)
	env.Eventually(t, "old plugins on nodes in use only", func() error { return h.holdsOnly(t.Context(), apps...) })
	env.Eventually(t, "nodes in use named with their pods", func() error {
		return h.says(t.Context(), "TakingOver", "2 of 5 nodes", "worker-0 (shop/web-0)", "worker-1 (shop/web-1)", "no pod there could mount or unmount volumes")
	})
	env.Eventually(t, "our controller in place of the old one", func() error {
		deployment := h.deployment()
		if err := h.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err
		}
		if deployment.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%d controllers are ready", deployment.Status.ReadyReplicas)
		}
		return h.cluster.Gone(t.Context(), h.oldDeployment())
	})
	env.Quiet(t, operator)
	env.Must(t, h.holdsOnly(t.Context(), apps...))
	h.end(t, apps[0])
	env.Eventually(t, "the node that is free follows", func() error { return h.holdsOnly(t.Context(), apps[1]) })
	env.Eventually(t, "the old DaemonSet gone", func() error { return h.cluster.Gone(t.Context(), h.oldDaemonSet()) })
	if diff := cmp.Diff(kept, h.identity(t)); diff != "" {
		t.Errorf("what has no namespace (-before +after):\n%s", diff)
	}
	if replaced, most := h.sampler.Counts(t, h.cluster); replaced != handedNodes-1 || most != 1 {
		t.Errorf("the sampler saw %d old plugins go, of %d, and %d nodes without", replaced, handedNodes-1, most)
	}

	// A removal takes the CSIDriver away, and all plugins.
	h.stop()
	operator.Kill()
	<-operator.Done()
	h.setPlatform(t, configv1.NutanixPlatformType)
	_, err := h.cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", h.driver.Name, notWanted+"=Nutanix")
	env.Must(t, err)
	operator = h.operate(t)
	env.Eventually(t, "the removal waits", func() error { return h.says(t.Context(), "VolumesInUse", "shop/web-1") })
	env.Quiet(t, operator)
	env.Must(t, h.holdsOnly(t.Context(), apps[1]))
	h.end(t, apps[1])
	env.Eventually(t, "nothing left in the old namespace", func() error { return h.oldGone(t.Context()) })
	env.Eventually(t, "the driver removed, and the status says so", func() error { return h.removed(t) })
}

// The operator is killed without notice at random requests, again and again, and each time another one goes on.
func TestAHandOverOfEBSOutlivesKills(t *testing.T) {
	env.OnlySoak(t)
	h := newHandover(t)
	random, kills := env.Dice(t), env.Rounds(t)/2
	through := env.NewProxy(t, h.cluster)
	config := through.KubeconfigOf(t, h.cluster, env.OperatorNamespace, h.driver.Operator)
	operator := h.operate(t, "--kubeconfig", config)
	env.Eventually(t, "the operator works", operator.Started)
	through.Set(nil)
	apps := h.begin(t)
	env.Eventually(t, "the hand-over waits", func() error { return h.holdsOnly(t.Context(), apps...) })
	h.accept(t)
	env.Eventually(t, "the driver handed over", func() error { return h.over(t.Context()) })
	env.Quiet(t, operator)
	cost, want, kept := len(through.Work()), h.content(t), h.identity(t)
	t.Logf("undisturbed, a hand-over takes %d requests", cost)
	h.clear(t, operator, apps)

	for killed := 0; killed < kills && !t.Failed(); {
		apps := h.begin(t)
		accepted := false
		for finished := false; !finished; {
			n := -1
			if killed < kills {
				n = 1 + random.IntN(cost/3+1)
			}
			died := through.KillAt(env.IsWork, n, random.IntN(2) == 1, operator.Kill)
			env.Eventually(t, fmt.Sprintf("killed at request %d, or done", n), func() error {
				if died() {
					return nil
				}
				if !accepted && h.holdsOnly(t.Context(), apps...) == nil {
					accepted = true
					h.accept(t)
				}
				err := h.over(t.Context())
				finished = err == nil
				return err
			})
			// It may have come to the request after it was looked at last.
			through.Set(nil)
			if died() {
				killed++
				t.Logf("kill %d: at request %d", killed, n)
				<-operator.Done()
				operator, finished = h.operate(t, "--kubeconfig", config), false
			}
		}
		env.Quiet(t, operator)
		if diff := cmp.Diff(want, h.content(t)); diff != "" {
			t.Errorf("the end state (-undisturbed +killed):\n%s", diff)
		}
		if diff := cmp.Diff(kept, h.identity(t)); diff != "" {
			t.Errorf("what has no namespace (-before +after):\n%s", diff)
		}
		h.clear(t, operator, apps)
	}
}

// Without RBAC in the old namespace nothing may be started beside what runs there. Then old pods that the scheduler would evict for ours are not handed
// over one by one. Nobody loses anything that he has not given up.
func TestAHandOverWaitsForItsRBACAndForPodsThatOursWouldEvict(t *testing.T) {
	h := newHandover(t)
	kept := h.identity(t)
	_, err := h.cluster.Kubectl(t.Context(), "-n", predecessors.LegacyEBSNamespace, "patch", "daemonset", predecessors.EBSNode, "--type=json", "-p",
		`[{"op":"remove","path":"/spec/template/spec/priorityClassName"}]`)
	env.Must(t, err)
	env.Eventually(t, "old pods without priority", func() error { return h.rolledOut(t.Context()) })
	h.restrict(t)
	h.ask(t)
	operator := h.operate(t)
	nothingOfOurs := func() error {
		return errors.Join(h.cluster.Gone(t.Context(), h.daemonSet()), h.cluster.Gone(t.Context(), h.deployment()))
	}
	env.Eventually(t, "what to bind", func() error {
		return h.says(t.Context(), "Waiting", "5 node pods", "bind ClusterRole aws-ebs-csi-driver-operator-role", "namespace "+predecessors.LegacyEBSNamespace)
	})
	env.Quiet(t, operator)
	env.Must(t, nothingOfOurs())

	// It is the right that counts, and it goes with the last that needs it.
	env.Must(t, h.cluster.Client.Create(t.Context(), h.binding()))
	env.Eventually(t, "what to accept", func() error { return h.says(t.Context(), "Waiting", "5 node pods", "priority", acceptRemount) })
	env.Quiet(t, operator)
	env.Must(t, nothingOfOurs())
	h.sampler.Uncounted()
	h.accept(t)
	env.Eventually(t, "the driver handed over", func() error { return h.over(t.Context()) })
	env.Eventually(t, "no RBAC is left", func() error { return h.cluster.Gone(t.Context(), h.binding()) })
	if diff := cmp.Diff(kept, h.identity(t)); diff != "" {
		t.Errorf("what has no namespace (-before +after):\n%s", diff)
	}

	// What the operator looks at is no more than in any other cluster.
	env.Quiet(t, operator)
	mark, err := h.cluster.Audit.Now()
	env.Must(t, err)
	_, err = h.cluster.Kubectl(t.Context(), "annotate", "clustercsidriver", h.driver.Name, acceptRemount+"-")
	env.Must(t, err)
	env.Quiet(t, operator)
	requests, err := h.cluster.Audit.Since(mark, "system:serviceaccount:"+env.OperatorNamespace+":"+h.driver.Operator)
	env.Must(t, err)
	if requests = env.Filter(requests, func(r env.Request) bool { return r.Object.Namespace == predecessors.LegacyEBSNamespace }); len(requests) > 0 {
		t.Errorf("requests to the old namespace after the end:\n%s", env.Describe(requests))
	}
}
