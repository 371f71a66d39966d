package migration

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

const (
	community = "aws-efs-operator"
	openshift = "aws-efs-csi-driver-operator"
)

func TestAnOperatorThatRunsIsInTheWay(t *testing.T) {
	olm, stopped, scaled := operatorOf("op", community), operatorOf("op", community), operatorOf("op", community)
	olm.Labels = map[string]string{"olm.owner": "aws-efs-operator.v0.0.8"}
	none := int32(0)
	stopped.Spec.Replicas, scaled.Spec.Replicas = &none, &none
	stopped.Status.Replicas = 0
	copied := operatorOf("copy", openshift)
	copied.CreationTimestamp = metav1.NewTime(began.Add(time.Hour))
	copied.Spec.Template.Annotations = map[string]string{YieldsAnnotation: "true"}
	const waiting = "this operator changes nothing while Deployment op/aws-efs-operator runs: the community's operator would revert this operator's changes to the driver, and replace node pods immediately, even where pods use volumes. To continue, "
	const keep = ". Don't delete SharedVolumes or their CustomResourceDefinition"
	for name, tc := range map[string]struct {
		objects []client.Object
		without string
		want    string
		shares  bool
	}{
		"none":            {},
		"only this one":   {objects: []client.Object{operatorOf(here, openshift)}},
		"the community's": {objects: []client.Object{operatorOf("op", community)}, want: waiting + "delete its Subscription and ClusterServiceVersion if it has them, or else: oc delete deployment aws-efs-operator -n op" + keep},
		"the community's, installed by OLM": {objects: []client.Object{olm}, want: waiting + "let OLM upgrade it to this operator: change the source of the " +
			"Subscription of package aws-efs-operator in namespace op, and nothing else. If this operator has a Subscription already, delete the " +
			"Subscription of package aws-efs-operator instead, and then: oc delete clusterserviceversion aws-efs-operator.v0.0.8 -n op" + keep},
		"the community's, of which pods still end": {objects: []client.Object{scaled}, want: waiting + "delete its Subscription and ClusterServiceVersion if it has them, or else: oc delete deployment aws-efs-operator -n op" + keep},
		"the community's, stopped":                 {objects: []client.Object{stopped}},
		"one that only has its name":               {objects: []client.Object{operatorOf("op", community)}, without: "op"},
		"one of another name":                      {objects: []client.Object{operatorOf("op", "other")}},
		"a copy that leaves the work to this one":  {objects: []client.Object{operatorOf(here, openshift), copied}},
		"OpenShift's": {objects: []client.Object{operatorOf(here, openshift), operatorOf("a", openshift)}, shares: true,
			want: "this operator changes nothing while both Deployments a/aws-efs-csi-driver-operator and openshift-cluster-csi-drivers/aws-efs-csi-driver-operator " +
				"run: each would revert the other's changes. The driver keeps running. One of them may be OpenShift's operator. Decide which one to keep. " +
				"In the namespace of the other, delete the Subscription of package aws-efs-csi-driver-operator, and then its ClusterServiceVersion. " +
				"Without a Subscription, delete the Deployment. Keep this ClusterCSIDriver"},
		"OpenShift's, before this one is installed": {objects: []client.Object{operatorOf("a", openshift)}, shares: true,
			want: "this operator changes nothing while Deployment a/aws-efs-csi-driver-operator runs: it is OpenShift's operator or another copy of this operator, " +
				"and each would revert the other's changes. Delete the Subscription of package aws-efs-csi-driver-operator in namespace a, and then its " +
				"ClusterServiceVersion. Without a Subscription, delete the Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			m.without[tc.without] = true
			state, err := m.Observe(t.Context(), managed())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, state.Blocker); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if state.SharesStatus != tc.shares || state.Blocked() != (tc.want != "") || (state.Again != 0) != (tc.want != "") {
				t.Errorf("shares the status: %t, again in %s", state.SharesStatus, state.Again)
			}
			if len(m.live.Reads) > 0 {
				t.Errorf("the cluster is asked: %v", m.live.Reads)
			}
		})
	}
}

// A pod of an operator works on for a while after its Deployment has gone.
func TestTheLastPodsOfAnOperatorAreInTheWay(t *testing.T) {
	pod := func(namespace, account string, change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: named(namespace, "operator-x")}
		pod.Spec.ServiceAccountName, pod.Spec.NodeName = account, "node-1"
		if change != nil {
			change(pod)
		}
		return pod
	}
	younger := operatorOf("copy", openshift)
	younger.CreationTimestamp = metav1.NewTime(began.Add(time.Hour))
	younger.Spec.Template.Annotations = map[string]string{YieldsAnnotation: "true"}
	for name, tc := range map[string]struct {
		objects []client.Object
		without string
		want    string
		shares  bool
	}{
		"the community's": {
			objects: []client.Object{pod("op", community, nil)},
			want:    "waiting until Pod op/operator-x ends: the community's operator would revert this operator's changes to the driver. If the pod stays: oc delete pod operator-x -n op",
		},
		"OpenShift's": {
			objects: []client.Object{pod("op", openshift, nil)}, shares: true,
			want: "waiting until Pod op/operator-x ends: OpenShift's operator would revert this operator's changes to the driver. If the pod stays: oc delete pod operator-x -n op",
		},
		"one that has ended": {objects: []client.Object{pod("op", community, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}},
		"one in deletion that has ended": {objects: []client.Object{pod("op", community, func(p *corev1.Pod) {
			p.Status.Phase, p.DeletionTimestamp, p.Finalizers = corev1.PodFailed, new(metav1.Now()), []string{"example.com/unmounting"}
		})}},
		"one that never began":             {objects: []client.Object{pod("op", community, func(p *corev1.Pod) { p.Spec.NodeName = "" })}},
		"one of an account without rights": {objects: []client.Object{pod("op", community, nil)}, without: "op"},
		"one of another account":           {objects: []client.Object{pod("op", "other", nil)}},
		"this one":                         {objects: []client.Object{pod(here, openshift, nil)}},
		"the community's, in our namespace": {
			objects: []client.Object{pod(here, community, nil)},
			want:    "waiting until Pod openshift-cluster-csi-drivers/operator-x ends: the community's operator would revert this operator's changes to the driver. If the pod stays: oc delete pod operator-x -n openshift-cluster-csi-drivers",
		},
		"a copy's that leaves the work to this one": {objects: []client.Object{operatorOf(here, openshift), younger, pod("copy", openshift, nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), append(tc.objects, csiDriver("1"))...)
			m.without[tc.without] = true
			state, err := m.Observe(t.Context(), managed())
			if err != nil {
				t.Fatal(err)
			}
			if state.Blocker != tc.want || state.SharesStatus != tc.shares {
				t.Errorf("%q, shares the status: %t; want %q", state.Blocker, state.SharesStatus, tc.want)
			}
		})
	}
}

// Two node pods on a node would take each other's sockets.
func TestNodePodsOfOthersAreInTheWay(t *testing.T) {
	const waiting = "waiting for the removal of 1 node pods of a predecessor, because two node pods on one node would replace each other's sockets: "
	const elsewhere = ". Only an operator in their namespace can replace them one by one: install it into namespace other instead of " + here +
		". Or drain the nodes where pods use volumes of the driver, and then delete the DaemonSet of these node pods"
	plain := nodePod("other", "p", "efs-csi-node", "node-1")
	plain.Spec.Volumes = nil
	finished := nodePod("other", "p", "efs-csi-node", "node-1")
	finished.Status.Phase = corev1.PodSucceeded
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"none": {},
		"in another namespace": {
			[]client.Object{nodePod("other", "p", "efs-csi-node", "node-1")},
			waiting + "other/p" + elsewhere,
		},
		"in another namespace, of OpenShift's operator": {
			[]client.Object{nodePod("other", "p", "aws-efs-csi-driver-node", "node-1")},
			waiting + "other/p" + elsewhere,
		},
		"of a chart": {
			[]client.Object{charted("kube-system")},
			waiting + "kube-system/p. This operator can't adopt workloads of Helm release kube-system/efs or of kustomize. When no pod uses volumes of the driver, uninstall all of it: helm -n kube-system uninstall efs. PersistentVolumes and PVCs stay. See docs/guide/from-the-helm-chart.md",
		},
		"somebody's pod with such a label": {[]client.Object{plain}, ""},
		"one that waits for a node":        {[]client.Object{nodePod("other", "p", "efs-csi-node", "")}, ""},
		"one that has ended":               {[]client.Object{finished}, ""},
		"one of another driver":            {[]client.Object{nodePod("other", "p", "other", "node-1")}, ""},
		"in our namespace, of a DaemonSet that has gone": {
			[]client.Object{controlled(nodePod(here, "p", "efs-csi-node", "node-1"), "gone")}, waiting + "openshift-cluster-csi-drivers/p",
		},
		"in our namespace, of nobody, which ours adopts": {[]client.Object{nodePod(here, "p", "efs-csi-node", "node-1")}, ""},
		"in our namespace, of nobody, and on its way out": {
			[]client.Object{going(nodePod(here, "p", "efs-csi-node", "node-1"))}, waiting + "openshift-cluster-csi-drivers/p",
		},
		"in our namespace under another name, for which ours wait": {
			[]client.Object{controlled(nodePod(here, "p", "aws-efs-csi-driver-node", "node-1"), "gone")}, "",
		},
		"many": {
			[]client.Object{
				nodePod("other", "f", "efs-csi-node", "node-1"), nodePod("other", "e", "efs-csi-node", "node-2"), nodePod("other", "d", "efs-csi-node", "node-3"),
				nodePod("other", "c", "efs-csi-node", "node-4"), nodePod("other", "b", "efs-csi-node", "node-5"), nodePod("other", "a", "efs-csi-node", "node-6"),
			},
			"waiting for the removal of 6 node pods of a predecessor, because two node pods on one node would replace each other's sockets: other/a, other/b, other/c, " +
				"other/d, other/e and 1 more" + elsewhere,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), append(tc.objects, csiDriver("1"))...)
			state, err := m.Observe(t.Context(), managed())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, state.Blocker); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func charted(namespace string) *corev1.Pod {
	pod := nodePod(namespace, "p", "efs-csi-node", "node-1")
	pod.Labels[releaseLabel] = "efs"
	return pod
}

// Its selector can't be changed, so that applying ours would fail for ever.
func TestTheDaemonSetOfAChartInOurNamespaceIsInTheWay(t *testing.T) {
	m := newMove(t, awsefs.Driver(), csiDriver("1"))
	chart := daemonSetOf(here, "efs-csi-node")
	chart.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "efs-csi-node", releaseLabel: "efs"}}
	state, err := m.Migration.Observe(t.Context(), managed(), chart)
	if want := "waiting for the removal of DaemonSet " + here + "/efs-csi-node. This operator can't adopt workloads of Helm release " +
		here + "/efs"; err != nil || !strings.HasPrefix(state.Blocker, want) {
		t.Errorf("%q, %v; want %q", state.Blocker, err, want)
	}
}

// The DaemonSet that ours is made from goes on with its pods.
func TestNodePodsOfTheDaemonSetThatIsAdoptedAreNotInTheWay(t *testing.T) {
	community := daemonSetOf(here, "efs-csi-node")
	objects := []client.Object{controlled(nodePod(here, "p", "efs-csi-node", "node-1"), "efs-csi-node"), csiDriver("1")}
	m := newMove(t, awsefs.Driver(), objects...)
	m.live.Objects = append(objects, community)
	if state, err := m.Observe(t.Context(), managed()); err != nil || state.Blocked() {
		t.Errorf("%q, %v", state.Blocker, err)
	}
	// Once ours is there, nothing is looked for any more.
	m.replaceObjects(append(objects, community, nodePod("other", "q", "efs-csi-node", "node-2"))...)
	if state, err := m.Observe(t.Context(), managed()); err != nil || state.Blocked() || len(m.live.Reads) > 0 {
		t.Errorf("%q, %v, read %v", state.Blocker, err, m.live.Reads)
	}
}

// In a namespace of its own a predecessor's pods are replaced one by one, if the operator may.
func TestNodePodsInTheNamespaceOfAPredecessor(t *testing.T) {
	const waiting = "waiting for the removal of 1 node pods of a predecessor, because two node pods on one node would replace each other's sockets: " +
		"openshift-aws-ebs-csi-driver/p. "
	critical := int32(2000001000)
	high := ebsPod(old, "p", "aws-ebs-csi-driver-node")
	high.Spec.Priority = &critical
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		may      bool
		accepted bool
		want     string
	}{
		"it may": {high, true, false, ""},
		"it may not": {high, false, false, waiting + "To let this operator replace them one by one, bind ClusterRole aws-ebs-csi-driver-operator-role to its " +
			"ServiceAccount openshift-cluster-csi-drivers/aws-ebs-csi-driver-operator in namespace openshift-aws-ebs-csi-driver; the " +
			"cluster-storage-operator does this when it starts"},
		"it may, but the scheduler would evict them": {
			ebsPod(old, "p", "aws-ebs-csi-driver-node"), true, false,
			waiting + "Their priority is lower than that of this operator's node pods: the scheduler would evict them immediately, and volumes could not be mounted or unmounted until the new pods run. Drain the nodes and delete DaemonSet openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-node, or set annotation " +
				"operator.openshift.io/accept-remount=true on ClusterCSIDriver ebs.csi.aws.com",
		},
		"it may, and that is accepted": {ebsPod(old, "p", "aws-ebs-csi-driver-node"), true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsebs.Driver(), tc.pod)
			m.cache.allowed[old] = tc.may
			cr := managed()
			if tc.accepted {
				cr = managed(AcceptRemountAnnotation)
			}
			state, err := m.Observe(t.Context(), cr)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, state.Blocker); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWhatIsInTheWayIsLookedAtLessAndLess(t *testing.T) {
	m := newMove(t, awsefs.Driver(), operatorOf("op", community))
	for _, step := range []struct{ after, want time.Duration }{
		{0, status.LeastPause}, {time.Minute, status.LeastPause}, {8 * time.Minute, 2 * time.Minute}, {time.Hour, status.MostPause},
	} {
		m.now = began.Add(step.after)
		if state, err := m.Observe(t.Context(), managed()); err != nil || state.Again != step.want {
			t.Errorf("after %s: again in %s, %v; want %s", step.after, state.Again, err, step.want)
		}
	}
	m.Reset()
	if state, err := m.Observe(t.Context(), managed()); err != nil || state.Again != status.LeastPause {
		t.Errorf("for the next ClusterCSIDriver: again in %s, %v", state.Again, err)
	}
}

func TestWhatCantBeLookedForIsAnError(t *testing.T) {
	for what, tc := range map[string]struct {
		live bool
		want string
	}{
		"list Deployment":               {false, "look for the community's operator: no route"},
		"list DaemonSet":                {false, "look for DaemonSets of the community's operator: no route"},
		"get CSIDriver efs.csi.aws.com": {false, "read CSIDriver efs.csi.aws.com: no route"},
		"get DaemonSet efs-csi-node":    {true, "read DaemonSet efs-csi-node: no route"},
		"list Pod":                      {true, "look for pods of the community's operator: no route"},
	} {
		t.Run(what, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), csiDriver("1"))
			refusing := m.cache
			if tc.live {
				refusing = m.live
			}
			refusing.Refuse(errors.New("no route"), what)
			if _, err := m.Observe(t.Context(), managed()); err == nil || err.Error() != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}
