package migration

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

func TestAPlanIsSortedByWhatIsDone(t *testing.T) {
	plan := Plan{Objects: []PlannedObject{
		{PlanKeep, "Role", "", "a", ""}, {PlanCreate, "Role", "", "a", ""}, {PlanChange, "Role", "", "a", ""}, {PlanAdopt, "Role", "n", "b", ""},
		{PlanAdopt, "Role", "n", "a", ""}, {PlanAdopt, "ClusterRole", "", "z", ""}, {PlanDelete, "Role", "", "a", ""},
	}}
	plan.Sort()
	want := []PlannedObject{
		{PlanDelete, "Role", "", "a", ""}, {PlanAdopt, "ClusterRole", "", "z", ""}, {PlanAdopt, "Role", "n", "a", ""}, {PlanAdopt, "Role", "n", "b", ""},
		{PlanChange, "Role", "", "a", ""}, {PlanCreate, "Role", "", "a", ""}, {PlanKeep, "Role", "", "a", ""},
	}
	if diff := cmp.Diff(want, plan.Objects); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// applied are objects as they would be applied.
func applied(t *testing.T, objects ...client.Object) []client.Object {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		kinds, _, err := known.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	return objects
}

func TestAPlanSaysWhatIsDoneWithEachObject(t *testing.T) {
	config := func(name string) *corev1.ConfigMap {
		config := &corev1.ConfigMap{}
		config.Namespace, config.Name = here, name
		return config
	}
	outdated := ours(openshift, &corev1.ConfigMap{ObjectMeta: named(here, "c")})
	doomed := going(&corev1.ConfigMap{ObjectMeta: named(here, "going")})
	pods := oldPods()
	there := []client.Object{
		&corev1.ConfigMap{ObjectMeta: named(here, "theirs")}, outdated, doomed, labelled(account()), bindingTo(mainBinding, controllerAccount(here)),
		daemonSetOf(here, "aws-efs-csi-driver-node"), &pods[0], &pods[1], node("node-1"), node("node-2"),
	}
	m := newMove(t, awsefs.Driver(), append(there, inUse("node-1")...)...)
	state := State{Blocker: "stop it", Old: pods, Inherited: map[string]string{"A": "b"}}
	plan, err := m.Plan(t.Context(), state, applied(t, config("new"), config("theirs"), config("going")))
	if err != nil {
		t.Fatal(err)
	}
	const last = "when the predecessor has no pods left"
	want := Plan{
		Namespace: here, Blocker: "stop it", Kept: InheritedNotes(state.Inherited), AtOnce: 1,
		Objects: []PlannedObject{
			{PlanDelete, "ClusterRoleBinding", "", mainBinding, "replaced by a ClusterRoleBinding of another name"},
			{PlanDelete, "ConfigMap", here, "c", "no longer needed"},
			{PlanDelete, "DaemonSet", here, "aws-efs-csi-driver-node", "its pods stay until they are replaced"},
			{PlanDelete, "ServiceAccount", here, "efs-csi-sa", last},
			{PlanAdopt, "ConfigMap", here, "theirs", ""},
			{PlanCreate, "ConfigMap", here, "new", ""},
			{PlanKeep, "ConfigMap", here, "going", "is being deleted; it will be recreated"},
		},
		Nodes: []PlannedNode{{Node: "node-2", Pod: "b"}, {Node: "node-1", Pod: "a", Waits: true, UsedBy: []string{"shop/web"}}},
		Changes: []PlannedChange{{
			Object: "PersistentVolume pv", What: "the new driver mounts it with TLS, the old one without, if the old driver is older than 1.0.0",
			Instead: `a new PersistentVolume with volume attribute encryptInTransit "false", if TLS is not wanted`,
		}},
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(m.cache.Writes) > 0 {
		t.Errorf("sent %v", m.cache.Writes)
	}
	state.accepted, state.Old = true, nil
	if plan, err = m.Plan(t.Context(), state, nil); err != nil || plan.Nodes[1].Waits || plan.Objects[len(plan.Objects)-1].Note == last {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestAPlanKeepsWhatSomebodyElseHasMade(t *testing.T) {
	class := func(name string) *storagev1.StorageClass {
		class := &storagev1.StorageClass{ObjectMeta: named("", name)}
		class.Provisioner = "efs.csi.aws.com"
		return class
	}
	marked := labelled(class("marked"))
	m := newMove(t, awsefs.Driver(), class("theirs"), marked)
	m.applier.CreateOnly = map[schema.GroupKind]bool{{Group: "storage.k8s.io", Kind: "StorageClass"}: true}
	plan, err := m.Plan(t.Context(), State{}, applied(t, class("theirs"), class("marked")))
	if err != nil {
		t.Fatal(err)
	}
	want := []PlannedObject{
		{PlanChange, "StorageClass", "", "marked", "only the label or owner of the predecessor is removed"},
		{PlanKeep, "StorageClass", "", "theirs", "has another owner"},
	}
	if diff := cmp.Diff(want, plan.Objects); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAPlanThatCantBeMadeIsAnError(t *testing.T) {
	for what, want := range map[string]string{
		"list Node":                             "list Nodes: no route",
		"list ControllerRevision":               "list the revisions of DaemonSet aws-efs-csi-driver-node: no route",
		"get ClusterRoleBinding " + mainBinding: "look for ClusterRoleBinding efs-csi-main-provisioner-binding of a predecessor: no route",
	} {
		m := newMove(t, awsefs.Driver(), daemonSetOf(here, "aws-efs-csi-driver-node"))
		m.live.Refuse(errors.New("no route"), what)
		if _, err := m.Plan(t.Context(), State{}, nil); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestTheNamespaceOfAPlanIsThatOfTheOperatorOrOfThePredecessorsNodePods(t *testing.T) {
	pod := nodePod("a", "p", "efs-csi-node", "node-1")
	older, installed, younger := operatorOf(here, openshift), operatorOf("b", openshift), operatorOf("c", openshift)
	younger.CreationTimestamp = metav1.NewTime(began.Add(time.Hour))
	for _, copied := range []*appsv1.Deployment{installed, younger} {
		copied.Spec.Template.Annotations = map[string]string{YieldsAnnotation: "true"}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"none":                       {nil, ""},
		"one":                        {[]client.Object{pod, nodePod("a", "q", "efs-csi-node", "node-2")}, "a"},
		"several":                    {[]client.Object{pod, nodePod("b", "q", "efs-csi-node", "node-2")}, ""},
		"of a chart":                 {[]client.Object{charted("kube-system")}, ""},
		"this operator elsewhere":    {[]client.Object{pod, installed}, "b"},
		"two copies":                 {[]client.Object{pod, younger, installed}, "b"},
		"OpenShift's, which is none": {[]client.Object{pod, older}, "a"},
	} {
		if got, err := newMove(t, awsefs.Driver(), tc.objects...).OperatorNamespace(t.Context()); err != nil || got != tc.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestAPlanDoesNotAdoptTheDaemonSetOfAChart(t *testing.T) {
	for selector, want := range map[string]string{"": PlanAdopt, "efs": PlanCreate} {
		chart := daemonSetOf(here, "efs-csi-node")
		chart.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "efs-csi-node", releaseLabel: selector}}
		m := newMove(t, awsefs.Driver(), chart)
		plan, err := m.Plan(t.Context(), State{}, []client.Object{daemonSetOf(here, "efs-csi-node")})
		if err != nil || len(plan.Objects) != 1 || plan.Objects[0].Action != want || plan.Objects[0].Kind != "DaemonSet" {
			t.Errorf("selector %q: %+v, %v; want %s", selector, plan.Objects, err, want)
		}
	}
}
