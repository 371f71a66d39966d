package migration

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
)

func TestWhatAPredecessorServesWhileNothingIsTouched(t *testing.T) {
	pod := nodePod(here, "p", "aws-efs-csi-driver-node", "node-1")
	for name, tc := range map[string]struct {
		objects               []client.Object
		daemonSet, deployment string
		pods                  int
	}{
		"nothing":     {nil, "", "", 0},
		"OpenShift's": {[]client.Object{daemonSetOf(here, "aws-efs-csi-driver-node"), controllerWith(), pod}, "aws-efs-csi-driver-node", "aws-efs-csi-driver-controller", 1},
		"the community's, which has no controller": {[]client.Object{daemonSetOf(here, "efs-csi-node"), nodePod(here, "p", "efs-csi-node", "n")}, "efs-csi-node", "", 1},
		"in another namespace":                     {[]client.Object{daemonSetOf("other", "aws-efs-csi-driver-node"), controllerWith()}, "", "", 0},
		"with a controller of ours": {
			[]client.Object{daemonSetOf(here, "aws-efs-csi-driver-node"), ours(openshift, controllerWith())}, "aws-efs-csi-driver-node", "", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := newMove(t, awsefs.Driver(), tc.objects...).Serving(t.Context(), managed())
			if err != nil {
				t.Fatal(err)
			}
			daemonSet, deployment := "", ""
			if found.DaemonSet != nil {
				daemonSet = found.DaemonSet.Name
			}
			if found.Deployment != nil {
				deployment = found.Deployment.Name
			}
			if daemonSet != tc.daemonSet || deployment != tc.deployment || len(found.Pods) != tc.pods {
				t.Errorf("%q, %q, %d pods", daemonSet, deployment, len(found.Pods))
			}
		})
	}
	m := newMove(t, awsefs.Driver(), daemonSetOf(here, "aws-efs-csi-driver-node"))
	m.live.Refuse(errors.New("no route"), "get Deployment aws-efs-csi-driver-controller")
	if _, err := m.Serving(t.Context(), managed()); err == nil ||
		err.Error() != "look for Deployment aws-efs-csi-driver-controller of a predecessor: no route" {
		t.Error(err)
	}
}

// Without a predecessor it costs no request.
func TestAWorkloadOfOurNameIsLookedForWhereTheCSIDriverIsNotOurs(t *testing.T) {
	for name, tc := range map[string]struct {
		objects     []client.Object
		found, asks bool
	}{
		"a foreign CSIDriver, and the workload": {[]client.Object{csiDriver("1"), daemonSetOf(here, "efs-csi-node")}, true, true},
		"a foreign CSIDriver alone":             {[]client.Object{csiDriver("1")}, false, true},
		"our CSIDriver":                         {[]client.Object{ours(openshift, csiDriver("1")), daemonSetOf(here, "efs-csi-node")}, false, false},
		"no CSIDriver":                          {[]client.Object{daemonSetOf(here, "efs-csi-node")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, awsefs.Driver(), tc.objects...)
			daemonSet, err := SameNamed[appsv1.DaemonSet](t.Context(), m.Migration, "efs-csi-node")
			found := daemonSet != nil && daemonSet.UID != ""
			if err != nil || found != tc.found || (daemonSet != nil) != tc.found || (len(m.live.Reads) > 0) != tc.asks {
				t.Errorf("%v, %v, read %v", daemonSet, err, m.live.Reads)
			}
		})
	}
	m := newMove(t, awsefs.Driver(), csiDriver("1"))
	m.live.Refuse(errors.New("no route"), "get DaemonSet efs-csi-node")
	if _, err := SameNamed[appsv1.DaemonSet](t.Context(), m.Migration, "efs-csi-node"); err == nil ||
		err.Error() != "look for efs-csi-node of a predecessor: no route" {
		t.Error(err)
	}
}
