package olm

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/catalogue"
)

func TestWhatIsLeftDecidesWhatComesNext(t *testing.T) {
	entry := legacyEBS(t)
	configuration, ok := configurationOf(entry).(*unstructured.Unstructured)
	if !ok {
		t.Fatal("the configuration has another type")
	}
	deployment, pod := deploymentOf(entry, "x", true), podOf(entry)
	for name, tc := range map[string]struct {
		found   installed
		deleted int
		last    bool
		message string
	}{
		"a Subscription": {
			installed{subscriptions: []client.Object{subscription("x")}, versions: []client.Object{version("b")}}, 1, false,
			"removing Subscription team/any",
		},
		"versions, sorted": {
			installed{versions: []client.Object{version("b"), version("a")}, pods: []client.Object{pod}}, 2, false,
			"removing ClusterServiceVersion team/a, ClusterServiceVersion team/b",
		},
		"its Deployment": {
			installed{deployments: []client.Object{deployment}}, 0, false,
			"waiting for OLM to remove Deployment team/aws-ebs-csi-driver-operator; if that takes too long: oc delete deployment " +
				"aws-ebs-csi-driver-operator -n team",
		},
		"its pods": {
			installed{pods: []client.Object{pod}}, 0, false,
			"waiting for the end of Pod team/old; if it does not end: oc delete pod old -n team",
		},
		"nothing but its configuration": {installed{}, 0, true, "removing AWSEBSDriver cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.found.configuration = configuration
			got := next(tc.found)
			if len(got.delete) != tc.deleted || got.last != tc.last || got.message != tc.message {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAPodOfThePredecessorIsDistinguishedFromOneOfTheNewOperator(t *testing.T) {
	entry, yes := legacyEBS(t), true
	pod := func(namespace, kind, owner string, controls bool, labels map[string]string) client.Object {
		return partial("v1", "Pod", namespace, "x", func(object *metav1.PartialObjectMetadata) {
			object.Labels = labels
			reference := metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: owner}
			if controls {
				reference.Controller = &yes
			}
			object.OwnerReferences = []metav1.OwnerReference{reference}
		})
	}
	ours := map[string]string{ourPods: "allow"}
	name := entry.Predecessor.Deployment
	for title, tc := range map[string]struct {
		pod  client.Object
		want bool
	}{
		"of its ReplicaSet":                       {pod("team", "ReplicaSet", name+"-abc", true, nil), true},
		"of its ReplicaSet, in our namespace":     {pod(catalogue.Namespace, "ReplicaSet", name+"-abc", true, nil), true},
		"of the new operator":                     {pod(catalogue.Namespace, "ReplicaSet", name+"-abc", true, ours), false},
		"with our label, where we are not":        {pod("team", "ReplicaSet", name+"-abc", true, ours), true},
		"of a Deployment whose name begins alike": {pod("team", "ReplicaSet", name+"-more-abc", true, nil), false},
		"of another Deployment":                   {pod("team", "ReplicaSet", "web-abc", true, nil), false},
		"of a Job":                                {pod("team", "Job", name+"-abc", true, nil), false},
		"of nobody who controls it":               {pod("team", "ReplicaSet", name+"-abc", false, nil), false},
	} {
		if got := isPodOf(tc.pod, *entry.Predecessor); got != tc.want {
			t.Errorf("a pod %s: %v", title, got)
		}
	}
}

// Whoever can't see what is there must not go on as if nothing were.
func TestALookThatFailsIsNoEmptyCluster(t *testing.T) {
	entry := legacyEBS(t)
	for _, tc := range []struct{ fail, want string }{
		{"get AWSEBSDriver", "look for AWSEBSDriver cluster: no"},
		{"list Subscription", "find objects of the operator that OLM installed: list Subscriptions: no"},
		{"list ClusterServiceVersion", "find objects of the operator that OLM installed: list ClusterServiceVersions: no"},
		{"list Deployment", "find objects of the operator that OLM installed: list Deployments: no"},
		{"list Pod", "find objects of the operator that OLM installed: list Pods: no"},
		{"get ClusterCSIDriver", "look for ClusterCSIDriver ebs.csi.aws.com: no"},
		{"delete AWSEBSDriver cluster", "delete AWSEBSDriver cluster: no"},
	} {
		c := newCluster(t, configurationOf(entry), driver(entry))
		c.Refuse(errors.New("no"), tc.fail)
		o := operators(c)
		state, err := o.Remove(t.Context(), entry)
		if err == nil || err.Error() != tc.want || state.Done {
			t.Errorf("%s: %+v, error %v", tc.fail, state, err)
		}
		if len(o.removed) > 0 {
			t.Errorf("%s: it is taken for done", tc.fail)
		}
		c.Fail = nil
		if state, err := o.Remove(t.Context(), entry); err != nil || !strings.Contains(state.Message, "removing AWSEBSDriver cluster") {
			t.Errorf("%s: the next try finds %+v, error %v", tc.fail, state, err)
		}
	}
	c := newCluster(t, configurationOf(entry), podOf(entry), driver(entry))
	o := operators(c)
	if _, err := o.Remove(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	c.Refuse(errors.New("no"), "list Pod team")
	if _, err := o.step(t.Context(), entry, o.removals[entry.Name]); err == nil || err.Error() != "find objects of the operator that OLM installed: list Pods: no" {
		t.Errorf("a later look for pods: error %v", err)
	}
}

func TestAnOperatorThatOLMNeverInstalledCostsNothing(t *testing.T) {
	c := newCluster(t)
	state, err := operators(c).Remove(t.Context(), catalogue.Entry{Name: "plain.example"})
	if err != nil || !state.Done {
		t.Errorf("%+v, error %v", state, err)
	}
	if diff := cmp.Diff([]string(nil), c.Reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}
