package node

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// together starts the pods of all drivers of a platform at once: they share the ports and the folders of the node.
// TestTheDriversOfAWSShareANode does so with those of AWS.
func together(t *testing.T, rendered map[string][]*unstructured.Unstructured, found map[string][]*started) {
	for platform, folders := range map[string][]string{"Azure": {"azuredisk", "azurefile"}, "OpenStack": {"cinder", "manila"}} {
		t.Run(platform, func(t *testing.T) {
			var pods []*corev1.Pod
			for _, folder := range folders {
				env.Must(t, applied(t, rendered[folder+"/base"]))
				for _, one := range found[folder] {
					if one.variant != "base" {
						continue
					}
					pod := one.create(t)
					defer remove(t, pod)
					pods = append(pods, pod)
				}
			}
			eventually(t, "all pods ready, and all drivers registered", func() error {
				var problems []error
				for _, pod := range pods {
					if err := suite.cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
						return err
					}
					problems = append(problems, running(pod))
				}
				for _, folder := range folders {
					problems = append(problems, registered(t, (&started{folder: folder}).csi(), true))
				}
				return errors.Join(problems...)
			})
			for _, pod := range pods {
				if err := inspect(pod); err != nil {
					t.Error(err)
				}
			}
			// Each driver has a controller and a node pod, and Manila the driver of NFS.
			if least := 2 * len(folders); len(pods) < least {
				t.Errorf("%d pods, want %d at least", len(pods), least)
			}
		})
	}
}
