package migration

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

const (
	ebsNodes      = "aws-ebs-csi-driver-node"
	ebsController = "aws-ebs-csi-driver-controller"
)

// ebsDaemonSet and ebsDeployment are those of OpenShift 4.5, in a namespace of their own.
func ebsDaemonSet() *appsv1.DaemonSet {
	daemonSet := daemonSetOf(old, ebsNodes)
	daemonSet.Spec.Template.Spec.Volumes = sockets("ebs.csi.aws.com")
	return daemonSet
}

func ebsDeployment() *appsv1.Deployment {
	return operatorOf(old, ebsController)
}

func TestWhatRunsInANamespaceOfItsOwn(t *testing.T) {
	finished, plain, foreign := ebsPod(old, "p", ebsNodes), ebsPod(old, "p", ebsNodes), ebsDaemonSet()
	finished.Status.Phase = corev1.PodFailed
	plain.Spec.Volumes, foreign.Spec.Template.Spec.Volumes = nil, nil
	for name, tc := range map[string]struct {
		objects []client.Object
		may     bool
		want    string
		over    bool
	}{
		"nothing, and no right":  {nil, false, "", true},
		"nothing, and the right": {nil, true, "", false},
		"all of it": {
			[]client.Object{ebsDaemonSet(), ebsDeployment(), ebsPod(old, "n", ebsNodes), ebsPod(old, "c", ebsController)}, true,
			"node n, controller c, DaemonSet, Deployment", false,
		},
		"pods that have ended":          {[]client.Object{finished}, false, "", true},
		"pods without the socket":       {[]client.Object{plain}, false, "", true},
		"somebody's DaemonSet":          {[]client.Object{foreign}, true, "", false},
		"pods where it may not":         {[]client.Object{ebsPod(old, "n", ebsNodes)}, false, "evidence Pod n 1;", false},
		"a controller where it may not": {[]client.Object{ebsPod(old, "c", ebsController)}, false, "evidence Pod c 1;", false},
		"pods in another namespace":     {[]client.Object{ebsPod("other", "n", ebsNodes)}, false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsebs.Driver(), tc.objects...)
			m.cache.allowed[old] = tc.may
			found, err := m.observeApart(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, pod := range found.nodes {
				got = append(got, "node "+pod.Name)
			}
			for _, pod := range found.controllers {
				got = append(got, "controller "+pod.Name)
			}
			got = append(got, slicesOf("DaemonSet", len(found.daemonSets))...)
			got = append(got, slicesOf("Deployment", len(found.deployments))...)
			if found.evidence != "" {
				got = append(got, "evidence "+found.evidence)
			}
			if text := strings.Join(got, ", "); text != tc.want || m.over[old] != tc.over {
				t.Errorf("%s, over: %t; want %s, %t", text, m.over[old], tc.want, tc.over)
			}
			if diff := cmp.Diff([]string{"may I delete pods in openshift-aws-ebs-csi-driver"}, m.cache.mayI); diff != "" {
				t.Errorf("asked -want +got:\n%s", diff)
			}
			m.live.Reads, m.cache.mayI = nil, nil
			if _, err := m.observeApart(t.Context()); err != nil || (len(m.live.Reads) == 0) != tc.over {
				t.Errorf("the next time: %v, read %v", err, m.live.Reads)
			}
			if asks := len(m.cache.mayI) > 0; asks != (!tc.may && !tc.over) {
				t.Errorf("the next time it asks %v", m.cache.mayI)
			}
		})
	}
}

func slicesOf(text string, count int) []string {
	var all []string
	for range count {
		all = append(all, text)
	}
	return all
}

func TestADriverWithoutSuchANamespaceReadsNothing(t *testing.T) {
	m := newMove(t, awsefs.Driver(), ebsDaemonSet())
	if found, err := m.observeApart(t.Context()); err != nil || len(found.daemonSets) > 0 || len(m.live.Reads)+len(m.cache.mayI) > 0 {
		t.Errorf("%+v, %v, read %v", found, err, m.live.Reads)
	}
}

func TestANamespaceThatCantBeReadIsAnError(t *testing.T) {
	for what, want := range map[string]string{
		"list Pod":                        "look for pods of a predecessor in namespace openshift-aws-ebs-csi-driver: no route",
		"get DaemonSet " + ebsNodes:       "look for DaemonSet openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-node of a predecessor: no route",
		"get Deployment " + ebsController: "look for Deployment openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-controller of a predecessor: no route",
		"create":                          "ask for access to namespace openshift-aws-ebs-csi-driver: no route",
	} {
		t.Run(what, func(t *testing.T) {
			m := newMove(t, awsebs.Driver(), ebsPod(old, "n", ebsNodes))
			m.cache.allowed[old] = true
			m.live.Refuse(errors.New("no route"), what)
			m.cache.Refuse(errors.New("no route"), what)
			if _, err := m.Remaining(t.Context(), managed()); err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}

// Ours are critical for their nodes: the scheduler would evict what is less so, whoever uses volumes there.
func TestWhichPriorityIsTooLow(t *testing.T) {
	for priority, want := range map[int32]bool{0: true, 1000000000: true, 2000000999: true, 2000001000: false, 2000001001: false} {
		pod := &corev1.Pod{}
		pod.Spec.Priority = &priority
		if got := lowPriority(pod); got != want {
			t.Errorf("priority %d is too low: %t", priority, got)
		}
	}
	if !lowPriority(&corev1.Pod{}) {
		t.Error("no priority is high")
	}
}

// Leases are of a namespace, so that both controllers would lead.
func TestOurControllerWaitsForThePredecessors(t *testing.T) {
	const waiting = "waiting for the removal of the predecessor's controller, because two controllers must not work on the same volumes: "
	for name, tc := range map[string]struct {
		apart apart
		want  string
	}{
		"none":      {apart{}, ""},
		"node pods": {apart{nodes: []corev1.Pod{*ebsPod(old, "n", ebsNodes)}}, ""},
		"a Deployment": {
			apart{deployments: []appsv1.Deployment{*ebsDeployment()}}, waiting + "Deployment openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-controller",
		},
		"both": {
			apart{controllers: []corev1.Pod{*ebsPod(old, "b", ebsController), *ebsPod(old, "a", ebsController)}, deployments: []appsv1.Deployment{*ebsDeployment()}},
			waiting + "Deployment openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-controller, Pod openshift-aws-ebs-csi-driver/a, " +
				"Pod openshift-aws-ebs-csi-driver/b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (State{apart: tc.apart}).ControllerHold(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestThePredecessorsControllerEndsWhenAllIsThereForOurs(t *testing.T) {
	gone := []string{"delete Deployment openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-controller Foreground"}
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		changes    apply.ChangeSet
		want       []string
	}{
		"all is there":              {ebsDeployment(), apply.ChangeSet{changed(apply.Created, "Role", "r")}, gone},
		"an account is missing":     {ebsDeployment(), apply.ChangeSet{changed(apply.Failed, "ServiceAccount", "sa")}, nil},
		"a role is made anew":       {ebsDeployment(), apply.ChangeSet{changed(apply.Terminating, "RoleBinding", "r")}, nil},
		"something else is missing": {ebsDeployment(), apply.ChangeSet{changed(apply.Failed, "Service", "s")}, gone},
		"it is being deleted":       {going(ebsDeployment()), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsebs.Driver())
			state := State{apart: apart{deployments: []appsv1.Deployment{*tc.deployment}}}
			m.endController(t.Context(), state, tc.changes)
			if diff := cmp.Diff(tc.want, m.cache.Writes); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What else holds our controller comes first: the predecessor's must not end for nothing.
func TestThePredecessorsControllerStaysWhileOursCantStart(t *testing.T) {
	state := State{apart: apart{deployments: []appsv1.Deployment{*ebsDeployment()}}}
	for name, tc := range map[string]struct {
		holds driver.Holds
		ends  bool
	}{
		"ours waits for it":             {driver.Holds{driver.Controller: state.ControllerHold()}, true},
		"ours waits for something else": {driver.Holds{driver.Controller: "waiting for Secret a/b"}, false},
		"ours waits for nothing":        {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsebs.Driver())
			moved, err := m.Advance(t.Context(), state, nil, tc.holds)
			if err != nil || (len(moved.Changes) > 0) != tc.ends || (moved.Again == controllerInterval) != tc.ends {
				t.Errorf("%+v, %v", moved, err)
			}
		})
	}
}

// What is called as ours is, in its namespace. The right to delete it goes last.
func TestAPredecessorsNamespaceIsClearedAfterTheLastPod(t *testing.T) {
	binding := &rbacv1.RoleBinding{ObjectMeta: named(old, "aws-ebs-csi-driver-operator-role")}
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: named(old, "a")}, &corev1.ConfigMap{ObjectMeta: named(old, "c")}, &corev1.ConfigMap{ObjectMeta: named(old, "other")},
		&rbacv1.ClusterRole{ObjectMeta: named("", "b")}, binding, &rbacv1.RoleBinding{ObjectMeta: named(old, "other")},
	}
	for name, tc := range map[string]struct {
		apart apart
		may   bool
		fails string
		want  []string
		over  bool
	}{
		"nothing is left": {apart{}, true, "", []string{
			"delete ConfigMap openshift-aws-ebs-csi-driver/c", "delete ServiceAccount openshift-aws-ebs-csi-driver/a",
			"delete RoleBinding openshift-aws-ebs-csi-driver/aws-ebs-csi-driver-operator-role",
		}, true},
		"without the right":      {apart{}, false, "", nil, false},
		"a node pod is left":     {apart{nodes: []corev1.Pod{*ebsPod(old, "n", ebsNodes)}}, true, "", nil, false},
		"a controller is left":   {apart{controllers: []corev1.Pod{*ebsPod(old, "n", ebsController)}}, true, "", nil, false},
		"its DaemonSet is left":  {apart{daemonSets: []appsv1.DaemonSet{*ebsDaemonSet()}}, true, "", nil, false},
		"its Deployment is left": {apart{deployments: []appsv1.Deployment{*ebsDeployment()}}, true, "", nil, false},
		"something stays": {apart{}, true, "delete ServiceAccount a", []string{
			"delete ConfigMap openshift-aws-ebs-csi-driver/c", "delete ServiceAccount openshift-aws-ebs-csi-driver/a",
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsebs.Driver(), objects...)
			m.mine, m.over = map[string]bool{old: tc.may}, map[string]bool{}
			m.cache.Refuse(errors.New("no route"), tc.fails)
			if _, err := m.cleanUpNamespaces(t.Context(), State{apart: tc.apart}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.cache.Writes); diff != "" || m.over[old] != tc.over {
				t.Errorf("over: %t; -want +got:\n%s", m.over[old], diff)
			}
		})
	}
}
