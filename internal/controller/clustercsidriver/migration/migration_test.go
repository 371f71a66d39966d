package migration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

// generationOf lets the status remember a workload with the name of our controller.
func generationOf(resource, namespace string) func(cr *operatorv1.ClusterCSIDriver) {
	return func(cr *operatorv1.ClusterCSIDriver) {
		cr.Status.Generations = []operatorv1.GenerationStatus{{Group: "apps", Resource: resource, Namespace: namespace, Name: "aws-efs-csi-driver-controller"}}
	}
}

func TestWithoutEvidenceOfAPredecessorTheClusterIsNotAsked(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []client.Object
		change  func(cr *operatorv1.ClusterCSIDriver)
		asks    bool
	}{
		"nothing":                           {nil, nil, false},
		"a tenant's Deployment of its name": {[]client.Object{operatorOf("tenant", "other")}, nil, false},
		"our own CSIDriver":                 {[]client.Object{ours(openshift, csiDriver("1"))}, nil, false},
		"somebody else's CSIDriver":         {[]client.Object{csiDriver("1")}, nil, true},
		"a DaemonSet of a predecessor":      {[]client.Object{daemonSetOf("other", "efs-csi-node")}, nil, true},
		"its account":                       {[]client.Object{labelled(account())}, nil, true},
		"its constraints":                   {[]client.Object{labelled(constraints())}, nil, true},
		"an account without its label":      {[]client.Object{account()}, nil, false},
		"a node pod of it":                  {[]client.Object{nodePod(here, "p", "efs-csi-node", "node-1")}, nil, true},
		"a finalizer of it": {nil, func(cr *operatorv1.ClusterCSIDriver) {
			cr.Finalizers = []string{"aws-efs-csi-driver-operator.operator.openshift.io/AWSEFSDriverNodeServiceController"}
		}, true},
		"our finalizer":                    {nil, func(cr *operatorv1.ClusterCSIDriver) { cr.Finalizers = []string{awsefs.Driver().Finalizer()} }, false},
		"the generation of its Deployment": {nil, generationOf("deployments", here), true},
		"one of another namespace":         {nil, generationOf("deployments", "other"), false},
		"the generation of our DaemonSet":  {nil, generationOf("daemonsets", here), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			cr := managed()
			if tc.change != nil {
				tc.change(cr)
			}
			if evidence, err := m.evidence(t.Context(), cr, mustRemain(t, m, cr)); err != nil || (evidence != "") != tc.asks {
				t.Errorf("evidence %q, %v", evidence, err)
			}
			m.live.Reads = nil
			if _, err := m.Observe(t.Context(), cr); err != nil || (len(m.live.Reads) > 0) != tc.asks {
				t.Errorf("%v; the cluster is asked: %v", err, m.live.Reads)
			}
		})
	}
}

func mustRemain(t *testing.T, m *move, cr *operatorv1.ClusterCSIDriver) State {
	t.Helper()
	state, err := m.Remaining(t.Context(), cr)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// pods counts the lists of pods, which are large.
func (c *cluster) pods() (count int) {
	for _, read := range c.Reads {
		if strings.HasPrefix(read, "list Pod") {
			count++
		}
	}
	return count
}

func TestTheClusterIsAskedAgainOnlyIfTheEvidenceChanges(t *testing.T) {
	m := newMove(t, awsefs.Driver(), csiDriver("1"))
	look := func(want int, what string) {
		t.Helper()
		m.live.Reads = nil
		if state, err := m.Observe(t.Context(), managed()); err != nil || state.Blocked() {
			t.Fatal(state, err)
		}
		if got := m.live.pods(); got != want {
			t.Errorf("%s: pods are listed %d times, want %d", what, got, want)
		}
	}
	// Of each of the two operators, and on the nodes.
	look(3, "at first")
	look(0, "when nothing has changed")
	m.replaceObjects(csiDriver("2"))
	look(3, "when the CSIDriver has changed")
	m.replaceObjects(csiDriver("2"), daemonSetOf("other", "efs-csi-node"))
	look(3, "when a DaemonSet has come")
	m.replaceObjects(csiDriver("2"))
	look(3, "when it has gone")
	m.Reset()
	look(3, "for the next ClusterCSIDriver")
	m.replaceObjects()
	look(0, "without evidence")
}

// Its pods may outlive its Deployment, which leaves no other trace.
func TestTheClusterIsAskedWhenAPredecessorHasGone(t *testing.T) {
	m := newMove(t, awsefs.Driver(), operatorOf("op", community))
	if state, err := m.Observe(t.Context(), managed()); err != nil || !state.Blocked() {
		t.Fatal(state, err)
	}
	m.replaceObjects()
	if state, err := m.Observe(t.Context(), managed()); err != nil || state.Blocked() || m.live.pods() != 3 {
		t.Errorf("%+v, %v, read %v", state, err, m.live.Reads)
	}
}

// A dry run says what is kept also while something is in the way.
func TestAPreviewFindsWhatIsInherited(t *testing.T) {
	objects := []client.Object{operatorOf("op", community), controllerWith("--delete-access-point-root-dir=true")}
	cr := managed()
	generationOf("deployments", here)(cr)
	m := newMove(t, awsefs.Driver(), objects...)
	state, err := m.Observe(t.Context(), cr)
	if err != nil || !state.Blocked() || state.Inherited != nil {
		t.Errorf("%+v, %v", state, err)
	}
	if state, err = m.Preview(t.Context(), cr, nil); err != nil || !state.Blocked() || len(state.Inherited) != 1 {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestOldNodePodsAreThoseOfPredecessors(t *testing.T) {
	own := nodePod(here, "own", "efs-csi-node", "node-1")
	own.Spec.ServiceAccountName = "aws-efs-csi-driver-node-sa"
	m := newMove(
		t, awsefs.Driver(), own, nodePod(here, "community", "efs-csi-node", "node-2"), nodePod(here, "openshift", "aws-efs-csi-driver-node", "node-3"),
		nodePod("other", "elsewhere", "efs-csi-node", "node-4"), nodePod(here, "app", "app", "node-5"),
	)
	var names []string
	for _, pod := range mustRemain(t, m, managed()).Old {
		names = append(names, pod.Name)
	}
	if diff := cmp.Diff([]string{"community", "openshift"}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAPredecessorIsFoundByItsOperator(t *testing.T) {
	m := newMove(t, awsefs.Driver())
	if found := m.Predecessor(community); found == nil || found.Title != "the community's operator" {
		t.Errorf("%+v", found)
	}
	if found := m.Predecessor("other"); found != nil {
		t.Errorf("%+v", found)
	}
}
