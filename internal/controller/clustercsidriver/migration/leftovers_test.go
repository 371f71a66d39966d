package migration

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsebs"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
)

const mainBinding = "efs-csi-main-provisioner-binding"

// bindingTo gives subjects the rights of a role.
func bindingTo(name string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: named("", name), Subjects: subjects}
}

func controllerAccount(namespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "aws-efs-csi-driver-controller-sa"}
}

// A binding that gives rights to anybody else is not ours to delete.
func TestABindingIsSupersededIfItIsForOurControllerOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		binding *rbacv1.ClusterRoleBinding
		want    bool
	}{
		"for our controller":        {bindingTo(mainBinding, controllerAccount(here)), true},
		"for it twice":              {bindingTo(mainBinding, controllerAccount(here), controllerAccount(here)), true},
		"for somebody else as well": {bindingTo(mainBinding, controllerAccount(here), rbacv1.Subject{Kind: "User", Name: "aws-efs-csi-driver-controller-sa"}), false},
		"of another namespace":      {bindingTo(mainBinding, controllerAccount("other")), false},
		"for another account":       {bindingTo(mainBinding, rbacv1.Subject{Kind: "ServiceAccount", Namespace: here, Name: "other"}), false},
		"for nobody":                {bindingTo(mainBinding), false},
		"of another name":           {bindingTo("other", controllerAccount(here)), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.binding)
			found, err := m.superseded(t.Context(), []string{mainBinding})
			if err != nil || (len(found) == 1) != tc.want {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
	m := newMove(t, awsefs.Driver())
	m.live.Refuse(errors.New("no route"), "get ClusterRoleBinding "+mainBinding)
	_, err := m.superseded(t.Context(), []string{mainBinding})
	if err == nil || err.Error() != "look for ClusterRoleBinding efs-csi-main-provisioner-binding of a predecessor: no route" {
		t.Error(err)
	}
}

// Pods that have rights from an old binding must not lose them before they have others.
func TestOldBindingsGoWhenOursAreThere(t *testing.T) {
	adopted := apply.ChangeSet{changed(apply.Configured, "Deployment", "d"), changed(apply.Created, "DaemonSet", "n"), changed(apply.Unchanged, "ClusterRole", "r")}
	with := func(changes apply.ChangeSet, more ...apply.Change) apply.ChangeSet {
		return append(changes[:len(changes):len(changes)], more...)
	}
	const main, obsolete, role = "delete ClusterRoleBinding " + mainBinding, "delete ClusterRoleBinding obsolete", "delete ClusterRole wide"
	for name, tc := range map[string]struct {
		changes apply.ChangeSet
		holds   driver.Holds
		want    []string
		done    bool
	}{
		"all is there":                     {adopted, nil, []string{obsolete, main, role}, true},
		"a driver that was installed anew": {apply.ChangeSet{changed(apply.Created, "Deployment", "d"), changed(apply.Created, "DaemonSet", "n")}, nil, []string{obsolete, role}, true},
		"no workload is applied":           {apply.ChangeSet{changed(apply.Created, "ClusterRole", "r")}, nil, nil, false},
		"a workload failed":                {with(adopted, changed(apply.Failed, "DaemonSet", "n")), nil, nil, false},
		"a role failed":                    {with(adopted, changed(apply.Failed, "ClusterRole", "r")), nil, nil, false},
		"an account is made anew":          {with(adopted, changed(apply.Terminating, "ServiceAccount", "sa")), nil, nil, false},
		"something else failed":            {with(adopted, changed(apply.Failed, "Service", "s")), nil, []string{obsolete, main, role}, true},
		"the controller is held":           {adopted, driver.Holds{driver.Controller: "wait"}, nil, false},
		"the node pods are held":           {adopted, driver.Holds{driver.Node: "wait"}, []string{obsolete, main, role}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := awsefs.Driver()
			d.Obsolete.ClusterRoleBindings, d.Obsolete.ClusterRoles = []string{"obsolete"}, []string{"wide", "gone"}
			wide := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "wide"}}
			m := newMove(t, d, bindingTo(mainBinding, controllerAccount(here)), bindingTo("obsolete", controllerAccount(here)), wide)
			for range 2 {
				// Once they are gone, nobody looks again.
				if _, err := m.clearBindings(t.Context(), tc.changes, tc.holds); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, m.cache.Writes); diff != "" || m.bindingsCleared != tc.done {
				t.Errorf("done: %t; -want +got:\n%s", m.bindingsCleared, diff)
			}
		})
	}
	m := newMove(t, awsefs.Driver(), bindingTo(mainBinding, controllerAccount(here)))
	m.cache.Refuse(errors.New("no route"), "delete ClusterRoleBinding")
	if _, err := m.clearBindings(t.Context(), adopted, nil); err != nil || m.bindingsCleared {
		t.Errorf("one that stays is forgotten: %v", err)
	}
}

// The pods of another driver may mount the same ConfigMap.
func TestAnObsoleteConfigMapGoesWhenNoWorkloadMountsIt(t *testing.T) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "old"}}
	rolledOut := daemonSetOf(here, "efs-csi-node")
	rolledOut.Generation, rolledOut.Status = 2, appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3}
	unseen, underWay := rolledOut.DeepCopy(), rolledOut.DeepCopy()
	unseen.Status.ObservedGeneration, underWay.Status.UpdatedNumberScheduled = 1, 2
	mounts := daemonSetOf(here, "another-driver")
	mounts.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "old"}},
	}}}
	elsewhere := mounts.DeepCopy()
	elsewhere.Namespace = "other"
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: "controller"}, Spec: appsv1.DeploymentSpec{Template: mounts.Spec.Template}}
	same := apply.ChangeSet{changed(apply.Unchanged, "DaemonSet", "n")}
	gone := []string{"delete ConfigMap " + here + "/old"}
	for name, tc := range map[string]struct {
		objects []client.Object
		changes apply.ChangeSet
		holds   driver.Holds
		ours    *appsv1.DaemonSet
		want    []string
		done    bool
	}{
		"nobody mounts it":             {[]client.Object{config, elsewhere}, same, nil, rolledOut, gone, true},
		"another driver mounts it":     {[]client.Object{config, mounts}, same, nil, rolledOut, nil, true},
		"its controller does":          {[]client.Object{config, deployment}, same, nil, rolledOut, nil, true},
		"there is none":                {nil, same, nil, rolledOut, nil, true},
		"ours is applied just now":     {[]client.Object{config}, append(same[:1:1], changed(apply.Configured, "Deployment", "d")), nil, rolledOut, nil, false},
		"ours is held":                 {[]client.Object{config}, same, driver.Holds{driver.Node: "wait"}, rolledOut, nil, false},
		"a class is somebody else's":   {[]client.Object{config}, append(same[:1:1], changed(apply.LeftAlone, "StorageClass", "c")), nil, rolledOut, gone, true},
		"ours is not seen yet":         {[]client.Object{config}, same, nil, unseen, nil, false},
		"ours is not on all nodes yet": {[]client.Object{config}, same, nil, underWay, nil, false},
		"ours is not there":            {[]client.Object{config}, same, nil, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := awsefs.Driver()
			d.Obsolete.ConfigMaps = []string{"old"}
			m := newMove(t, d, tc.objects...)
			for range 2 {
				if _, err := m.clearConfigMaps(t.Context(), tc.changes, tc.holds, tc.ours); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, m.cache.Writes); diff != "" || m.configMapsCleared != tc.done {
				t.Errorf("done: %t; -want +got:\n%s", m.configMapsCleared, diff)
			}
		})
	}
}

func TestARemovalDeletesWhatPredecessorsHaveLeft(t *testing.T) {
	left := []client.Object{labelled(account()), labelled(constraints()), bindingTo(mainBinding, controllerAccount(here))}
	const sa, scc = "delete ServiceAccount openshift-cluster-csi-drivers/efs-csi-sa", "delete SecurityContextConstraints efs-csi-scc"
	const binding = "delete ClusterRoleBinding " + mainBinding
	for name, tc := range map[string]struct {
		objects []client.Object
		cleared bool
		want    []string
	}{
		"all of it":                        {left, false, []string{sa, scc, binding}},
		"bindings that have gone before":   {left, true, []string{sa, scc}},
		"its DaemonSet is not adopted":     {append(left[:3:3], daemonSetOf(here, "efs-csi-node")), false, []string{binding}},
		"that of the other is not":         {append(left[:3:3], daemonSetOf(here, "aws-efs-csi-driver-node")), false, []string{sa, scc}},
		"a DaemonSet of another namespace": {append(left[:3:3], daemonSetOf("other", "efs-csi-node")), false, []string{sa, scc, binding}},
		"nothing":                          {nil, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			m.bindingsCleared = tc.cleared
			if _, err := m.RemoveLeftovers(t.Context(), State{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.cache.Writes); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	m := newMove(t, awsefs.Driver(), left...)
	m.live.Refuse(errors.New("no route"), "list DaemonSet")
	if _, err := m.RemoveLeftovers(t.Context(), State{}); err == nil || len(m.cache.Writes) > 0 ||
		err.Error() != "look for DaemonSet efs-csi-node of the community's operator: no route" {
		t.Errorf("%v, sent %v", err, m.cache.Writes)
	}
}

// A pod that its DaemonSet would start anew is not deleted: the DaemonSet goes first.
func TestARemovalDeletesNodePodsWithoutADaemonSet(t *testing.T) {
	orphan := nodePod(here, "orphan", "efs-csi-node", "node-1")
	state := State{Old: []corev1.Pod{
		*orphan, *controlled(nodePod(here, "kept", "efs-csi-node", "node-2"), "ds"), *going(nodePod(here, "going", "efs-csi-node", "node-3")),
	}}
	m := newMove(t, awsefs.Driver())
	changes, err := m.RemoveOrphans(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete Pod openshift-cluster-csi-drivers/orphan"}, m.cache.Writes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"deleted Pod orphan", "terminating Pod going foregroundDeletion"}, said(changes)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// said are changes as "action Kind name finalizers".
func said(changes apply.ChangeSet) []string {
	var all []string
	for _, change := range changes {
		text := string(change.Action) + " " + change.Subject.Kind + " " + change.Subject.Name
		for _, finalizer := range change.Finalizers {
			text += " " + finalizer
		}
		all = append(all, text)
	}
	return all
}

// Their pods have no other owner before these have gone.
func TestARemovalWaitsForWorkloadsThatAMigrationHasBegunToDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		ebs     bool
		objects []client.Object
		apart   apart
		want    []string
	}{
		"none": {},
		"a DaemonSet of another name": {
			objects: []client.Object{going(daemonSetOf(here, "aws-efs-csi-driver-node"))}, want: []string{"terminating DaemonSet aws-efs-csi-driver-node foregroundDeletion"},
		},
		"one that is not deleted":  {objects: []client.Object{daemonSetOf(here, "aws-efs-csi-driver-node")}},
		"one of our name":          {objects: []client.Object{going(daemonSetOf(here, "efs-csi-node"))}},
		"one of another namespace": {objects: []client.Object{going(daemonSetOf("other", "aws-efs-csi-driver-node"))}},
		"a DaemonSet in a namespace of its own": {
			ebs: true, apart: apart{daemonSets: []appsv1.DaemonSet{*going(ebsDaemonSet())}}, want: []string{"terminating DaemonSet aws-ebs-csi-driver-node foregroundDeletion"},
		},
		"a controller that is deleted": {
			ebs: true, apart: apart{deployments: []appsv1.Deployment{*going(ebsDeployment())}, controllers: []corev1.Pod{*ebsPod(old, "c", ebsController)}},
			want: []string{"terminating Deployment aws-ebs-csi-driver-controller foregroundDeletion"},
		},
		"pods of a controller that has gone": {
			ebs: true, apart: apart{controllers: []corev1.Pod{*ebsPod(old, "c", ebsController)}}, want: []string{"terminating Pod c"},
		},
		"a controller that works": {
			ebs: true, apart: apart{deployments: []appsv1.Deployment{*ebsDeployment()}, controllers: []corev1.Pod{*ebsPod(old, "c", ebsController)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := awsefs.Driver()
			if tc.ebs {
				d = awsebs.Driver()
			}
			m := newMove(t, d, tc.objects...)
			changes, err := m.ending(t.Context(), State{apart: tc.apart})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, said(changes)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
