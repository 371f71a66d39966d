package migration

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// Anybody can call a Deployment so: only the right that the operator has tells it from others.
func TestAnOperatorIsRecognizedByTheRBACOfItsAccount(t *testing.T) {
	nameless := operatorOf("op", community)
	nameless.Spec.Template.Spec.ServiceAccountName = ""
	for name, tc := range map[string]struct {
		objects []client.Object
		without string
		want    string
		asked   []client.ObjectKey
	}{
		"with the right":     {[]client.Object{operatorOf("op", community)}, "", "op/aws-efs-operator", []client.ObjectKey{{Namespace: "op", Name: community}}},
		"without the right":  {[]client.Object{operatorOf("op", community)}, "op", "", []client.ObjectKey{{Namespace: "op", Name: community}}},
		"without an account": {[]client.Object{nameless}, "", "op/aws-efs-operator", []client.ObjectKey{{Namespace: "op", Name: "default"}}},
		"a stranger beside it": {
			[]client.Object{operatorOf("a", community), operatorOf("op", community)}, "a", "op/aws-efs-operator",
			[]client.ObjectKey{{Namespace: "a", Name: community}, {Namespace: "op", Name: community}},
		},
		"none": {nil, "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			m.without[tc.without] = true
			got, err := m.Predecessor(community).Running(t.Context())
			if err != nil || got != tc.want {
				t.Errorf("%q, %v; want %q", got, err, tc.want)
			}
			if diff := cmp.Diff(tc.asked, m.asked); diff != "" {
				t.Errorf("asked -want +got:\n%s", diff)
			}
		})
	}
}

func TestTheAnswerAboutRBACIsRememberedForAWhile(t *testing.T) {
	m := newMove(t, awsefs.Driver(), operatorOf("op", community))
	predecessor := m.Predecessor(community)
	for range 3 {
		if _, err := predecessor.Running(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.asked) != 1 {
		t.Errorf("it is asked %d times", len(m.asked))
	}
	predecessor.checked = time.Now().Add(-time.Minute)
	m.without["op"] = true
	if got, err := predecessor.Running(t.Context()); err != nil || got != "" || len(m.asked) != 2 {
		t.Errorf("later: %q, %v, asked %d times", got, err, len(m.asked))
	}
	predecessor.checked = time.Now().Add(-time.Minute)
	m.noAnswer = errors.New("no route")
	if _, err := predecessor.Running(t.Context()); err == nil {
		t.Error("what is not known is taken for a no")
	}
	m.noAnswer = nil
	m.without["op"] = false
	if got, err := predecessor.Running(t.Context()); err != nil || got == "" {
		t.Errorf("an error is remembered: %q, %v", got, err)
	}
}

func TestTheAPIServerIsAskedAboutAnAccountOnce(t *testing.T) {
	writer := newCluster(t)
	writer.allowed["system:serviceaccount:ns:sa"] = true
	right := authorizationv1.ResourceAttributes{Verb: "patch", Resource: "things"}
	for name, want := range map[string]bool{"sa": true, "other": false} {
		got, err := AskAccess(writer)(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, right)
		if err != nil || got != want {
			t.Errorf("%s may: %t, %v", name, got, err)
		}
	}
	writer.asked = nil
	if _, err := AskAccess(writer)(t.Context(), client.ObjectKey{Namespace: "ns", Name: "sa"}, right); err != nil {
		t.Fatal(err)
	}
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: "system:serviceaccount:ns:sa", ResourceAttributes: &right,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"},
	}}
	if diff := cmp.Diff(want, writer.asked); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	writer.Refuse(errors.New("no route"), "create")
	_, err := AskAccess(writer)(t.Context(), client.ObjectKey{Namespace: "ns", Name: "sa"}, right)
	if err == nil || err.Error() != "ask what ServiceAccount ns/sa may do: no route" {
		t.Error(err)
	}
}

func TestDaemonSetsOfAPredecessorMountVolumesOfTheDriver(t *testing.T) {
	plain := daemonSetOf("other", "efs-csi-node")
	plain.Spec.Template.Spec.Volumes = nil
	m := newMove(t, awsefs.Driver(), daemonSetOf(here, "efs-csi-node"), daemonSetOf(here, "other"), plain)
	found, err := m.Predecessor(community).daemonSets(t.Context())
	if err != nil || len(found) != 1 || found[0].Namespace != here {
		t.Errorf("%v, %v", found, err)
	}
}

// Nobody without rights in our namespace can make it look so.
func TestAPredecessorHasLeftItsDriver(t *testing.T) {
	for name, tc := range map[string]struct {
		objects  []client.Object
		operator string
		want     bool
	}{
		"nothing":                    {nil, community, false},
		"its DaemonSet":              {[]client.Object{labelled(daemonSetOf(here, "efs-csi-node"))}, community, true},
		"one that is adopted":        {[]client.Object{daemonSetOf(here, "efs-csi-node")}, community, false},
		"one in another namespace":   {[]client.Object{labelled(daemonSetOf("other", "efs-csi-node"))}, community, false},
		"one of another predecessor": {[]client.Object{labelled(daemonSetOf(here, "aws-efs-csi-driver-node"))}, openshift, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			if got, err := m.Predecessor(tc.operator).HasLeft(t.Context()); err != nil || got != tc.want {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
}

func TestWhatNodePodsOfAPredecessorNeed(t *testing.T) {
	names := func(objects []client.Object) []string {
		found := []string{}
		for _, object := range objects {
			found = append(found, object.GetName())
		}
		return found
	}
	for name, tc := range map[string]struct {
		objects       []client.Object
		operator      string
		unconstrained bool
		want          []string
	}{
		"both":                       {[]client.Object{labelled(account()), labelled(constraints())}, community, false, []string{"efs-csi-sa", "efs-csi-scc"}},
		"without its label":          {[]client.Object{account(), constraints()}, community, false, []string{}},
		"only one":                   {[]client.Object{labelled(constraints())}, community, false, []string{"efs-csi-scc"}},
		"no OpenShift":               {[]client.Object{labelled(account()), labelled(constraints())}, community, true, []string{"efs-csi-sa"}},
		"an operator that left none": {[]client.Object{labelled(account()), labelled(constraints())}, openshift, false, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			predecessor := m.Predecessor(tc.operator)
			predecessor.Constraints = !tc.unconstrained
			got, err := predecessor.leftovers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	m := newMove(t, awsefs.Driver())
	m.cache.Refuse(errors.New("no route"), "get ServiceAccount efs-csi-sa")
	if _, err := m.Predecessor(community).leftovers(t.Context()); err == nil || err.Error() != "read *v1.ServiceAccount efs-csi-sa: no route" {
		t.Error(err)
	}
}

// A Deployment of a predecessor is kept in memory as far as it reports whether it runs, and who has installed it.
func TestLittleIsKeptOfADeployment(t *testing.T) {
	deployment := operatorOf("op", community)
	replicas := int32(2)
	deployment.Spec.Replicas, deployment.Spec.Paused = &replicas, true
	deployment.Labels, deployment.Annotations = map[string]string{"olm.owner": "csv"}, map[string]string{"large": "text"}
	deployment.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	deployment.Spec.Template.Annotations = map[string]string{YieldsAnnotation: "true", "other": "x"}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Available"}}
	want := operatorOf("op", community)
	want.Labels, want.Spec.Replicas = map[string]string{"olm.owner": "csv"}, &replicas
	want.Spec.Template.Annotations = map[string]string{YieldsAnnotation: "true"}
	for range 2 {
		got, err := stripDeployment(deployment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if got, err := stripDeployment("anything else"); err != nil || got != "anything else" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTheOlderCopyOfThisOperatorIsNamed(t *testing.T) {
	copyOf := func(namespace string, age time.Duration, yields string) *appsv1.Deployment {
		deployment := operatorOf(namespace, openshift)
		deployment.CreationTimestamp = metav1.NewTime(began.Add(-age))
		deployment.Spec.Template.Annotations = map[string]string{YieldsAnnotation: yields}
		return deployment
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"no other":                      {[]client.Object{copyOf(here, 0, "true")}, ""},
		"an older one":                  {[]client.Object{copyOf(here, 0, "true"), copyOf("other", time.Hour, "true")}, "other/aws-efs-csi-driver-operator"},
		"a younger one":                 {[]client.Object{copyOf(here, time.Hour, "true"), copyOf("other", 0, "true")}, ""},
		"OpenShift's, which is no copy": {[]client.Object{copyOf(here, 0, "true"), copyOf("other", time.Hour, "")}, ""},
		"the community's":               {[]client.Object{copyOf(here, 0, "true"), operatorOf("op", community)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			got, err := m.Predecessor(openshift).OlderCopy(t.Context())
			if err != nil || got != tc.want {
				t.Errorf("%q, %v", got, err)
			}
			if found, err := m.OlderCopy(t.Context()); err != nil || (found != nil) != (tc.want != "") {
				t.Errorf("%v, %v", found, err)
			}
			if got, err := m.Predecessor(community).OlderCopy(t.Context()); err != nil || got != "" {
				t.Errorf("the community's operator has a copy of this one: %q, %v", got, err)
			}
		})
	}
}

// Its finalizers are its own to drop while it runs.
func TestAnotherOperatorOfTheSameNameRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"only this one":   {[]client.Object{operatorOf(here, openshift)}, false},
		"OpenShift's":     {[]client.Object{operatorOf(here, openshift), operatorOf("other", openshift)}, true},
		"the community's": {[]client.Object{operatorOf("op", community)}, false},
	} {
		m := newMove(t, awsefs.Driver(), tc.objects...)
		if got, err := m.NamesakeRuns(t.Context()); err != nil || got != tc.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
		m.Predecessors = nil
		if got, err := m.NamesakeRuns(t.Context()); err != nil || got {
			t.Errorf("%s, and nobody is watched for: %t, %v", name, got, err)
		}
	}
}
