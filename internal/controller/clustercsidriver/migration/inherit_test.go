package migration

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

const rootDir = "DELETE_ACCESS_POINT_ROOT_DIR"

// controllerWith is the controller of a predecessor, with arguments of the driver.
func controllerWith(arguments ...string) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: named(here, "aws-efs-csi-driver-controller")}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar"}, {Name: "csi-driver", Args: arguments}}
	return deployment
}

func TestTheFlagsOfThePredecessorsControllerAreFound(t *testing.T) {
	on := controllerWith("--delete-access-point-root-dir=true")
	for name, tc := range map[string]struct {
		objects []client.Object
		change  func(cr *operatorv1.ClusterCSIDriver)
		set     bool
		want    map[string]string
	}{
		"its generation is in the status": {
			[]client.Object{on}, generationOf("deployments", here), false, map[string]string{rootDir: "true"},
		},
		"its DaemonSet is there": {
			[]client.Object{on, daemonSetOf(here, "aws-efs-csi-driver-node")}, nil, false, map[string]string{rootDir: "true"},
		},
		"its DaemonSet is in another namespace":    {[]client.Object{on, daemonSetOf("other", "aws-efs-csi-driver-node")}, nil, false, nil},
		"nothing shows that it is a predecessor's": {[]client.Object{on}, nil, false, nil},
		"it is ours already": {
			[]client.Object{ours(openshift, controllerWith("--delete-access-point-root-dir=true"))},
			generationOf("deployments", here), false, nil,
		},
		"it was told nothing": {
			[]client.Object{controllerWith()}, generationOf("deployments", here), false, map[string]string{},
		},
		"it has gone": {nil, generationOf("deployments", here), false, map[string]string{}},
		"the environment says it": {
			[]client.Object{on}, generationOf("deployments", here), true, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			if tc.set {
				m.Inheritable = m.Driver.Inheritable(func(string) string { return "false" })
			}
			cr := managed()
			if tc.change != nil {
				tc.change(cr)
			}
			got, err := m.inherited(t.Context(), cr)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	// The cache may lag behind our own apply.
	m := newMove(t, awsefs.Driver())
	m.live.Client = newCluster(t, ours(openshift, controllerWith("--delete-access-point-root-dir=true"))).Client
	cr := managed()
	generationOf("deployments", here)(cr)
	if got, err := m.inherited(t.Context(), cr); err != nil || len(got) > 0 {
		t.Errorf("what this operator has decided itself is inherited: %v, %v", got, err)
	}
	m, cr = newMove(t, awsefs.Driver()), managed()
	generationOf("deployments", here)(cr)
	m.live.Refuse(errors.New("no route"), "get Deployment aws-efs-csi-driver-controller")
	if _, err := m.inherited(t.Context(), cr); err == nil ||
		err.Error() != "look for Deployment aws-efs-csi-driver-controller of a predecessor: no route" {
		t.Error(err)
	}
}

func TestSettingsOfAPredecessorFillWhatTheEnvironmentLeavesOpen(t *testing.T) {
	m := &Migration{Inheritable: []driver.Setting{{Variable: "A", Check: driver.Boolean}, {Variable: "B", Check: driver.Boolean}}}
	environment := map[string]string{"A": "false", "B": "false", "C": "x"}
	for name, tc := range map[string]struct {
		kept  string
		found map[string]string
		want  map[string]string
	}{
		"nothing":                     {"", nil, environment},
		"found just now":              {"", map[string]string{"A": "true"}, map[string]string{"A": "true", "B": "false", "C": "x"}},
		"kept":                        {`{"inheritedSettings":{"B":"true"}}`, nil, map[string]string{"A": "false", "B": "true", "C": "x"}},
		"kept, and found otherwise":   {`{"inheritedSettings":{"A":"false"}}`, map[string]string{"A": "true"}, map[string]string{"A": "true", "B": "false", "C": "x"}},
		"a value that is wrong":       {`{"inheritedSettings":{"A":"perhaps"}}`, nil, environment},
		"one that can't be inherited": {`{"inheritedSettings":{"C":"true"}}`, nil, environment},
		"something else is kept":      {`{"other":{}}`, nil, environment},
		"what nobody can read":        {`{"inheritedSettings":7}`, nil, environment},
	} {
		t.Run(name, func(t *testing.T) {
			cr := managed()
			cr.Spec.ObservedConfig.Raw = []byte(tc.kept)
			if diff := cmp.Diff(tc.want, m.Settings(environment, cr, tc.found)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if environment["A"] != "false" || environment["B"] != "false" {
				t.Error("the environment itself is changed")
			}
		})
	}
}

func TestWhatIsInheritedNeedsNoEnvironment(t *testing.T) {
	m := newMove(t, awsefs.Driver())
	setting := m.Inheritable[0]
	if got := m.Settings(nil, managed(), map[string]string{setting.Variable: "true"}); got[setting.Variable] != "true" {
		t.Errorf("settings %v", got)
	}
}

func TestWhatIsKeptIsNotWrittenOnceMore(t *testing.T) {
	for name, tc := range map[string]struct {
		kept  string
		found map[string]string
		want  bool
	}{
		"nothing is found":      {"", nil, true},
		"it is kept":            {`{"inheritedSettings":{"A":"true"}}`, map[string]string{"A": "true"}, true},
		"it is not kept":        {"", map[string]string{"A": "true"}, false},
		"another value":         {`{"inheritedSettings":{"A":"false"}}`, map[string]string{"A": "true"}, false},
		"another one beside it": {`{"inheritedSettings":{"A":"true","B":"true"}}`, map[string]string{"A": "true"}, false},
		"what nobody can read":  {"nonsense", map[string]string{"A": "true"}, false},
	} {
		cr := managed()
		cr.Spec.ObservedConfig.Raw = []byte(tc.kept)
		if got := Keeps(cr, tc.found); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	want := map[string]any{"observedConfig": map[string]any{"inheritedSettings": map[string]any{"A": "true"}}}
	if diff := cmp.Diff(want, ObservedConfig(map[string]string{"A": "true"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestADryRunSaysWhatIsKept(t *testing.T) {
	want := []string{
		"A=1 comes from the predecessor's controller. To change it, set A in the operator's environment",
		"B=2 comes from the predecessor's controller. To change it, set B in the operator's environment",
	}
	if diff := cmp.Diff(want, InheritedNotes(map[string]string{"B": "2", "A": "1"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
