package migration

import (
	"errors"
	"testing"

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
