package storage

import (
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csi-operators/csi-operators/test/env"
)

// environment edits the environment of the cluster-storage-operator.
func environment(edit func([]corev1.EnvVar) []corev1.EnvVar) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		if object.GetKind() != "Deployment" {
			return true
		}
		deployment := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
			return false
		}
		container := &deployment.Spec.Template.Spec.Containers[0]
		container.Env = edit(container.Env)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
		delete(fields, "status")
		object.Object = fields
		object.SetAPIVersion("apps/v1")
		object.SetKind("Deployment")
		return err == nil
	}
}

func reportsNonsense(t *testing.T, s *scene) {
	const pd = "pd.csi.storage.gke.io"
	s.changeDriver(pd, func(driver *operatorv1.ClusterCSIDriver) {
		driver.Spec.ManagementState = operatorv1.Force
		driver.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{
			DriverType: operatorv1.AWSDriverType, AWS: &operatorv1.AWSCSIDriverConfigSpec{KMSKeyARN: "arn:aws:kms:us-east-1:123456789012:key/a"},
		}
		driver.Spec.UnsupportedConfigOverrides = runtime.RawExtension{Raw: []byte(`{"what": ["ever"]}`)}
	})
	const sentence = `spec.managementState "Force" is unknown: the operator changes nothing until you set it to `
	s.eventually("the ClusterCSIDriver says it", func() error {
		return s.Says(s.t.Context(), pd, "ManagementStateDegraded", "True", sentence)
	})
	s.says("GCPPDCSIDriverOperatorCRDegraded", operatorv1.ConditionTrue, sentence)
	s.operatorSays(configv1.OperatorDegraded, configv1.ConditionTrue, pd)
	s.operatorSays(configv1.OperatorAvailable, configv1.ConditionTrue, "")
	// Who removes what CSO has made gets it again, and nothing else.
	clear := func(fields string) {
		_, err := s.Kubectl(t.Context(), "patch", "clustercsidriver", pd, "--type=merge", "-p", `{"spec": {`+fields+`}}`)
		env.Must(t, err)
	}
	clear(`"managementState": null, "unsupportedConfigOverrides": null`)
	const ignored = "spec.driverConfig is ignored: its driverType is AWS, but driver pd.csi.storage.gke.io needs driverType GCP"
	s.eventually("the ClusterCSIDriver says that a part is ignored", func() error {
		return s.Says(s.t.Context(), pd, "ConfigObservationDegraded", "False", ignored)
	})
	s.reach(release)
	clear(`"driverConfig": null`)
	s.eventually("the ClusterCSIDriver is managed", func() error {
		if state := s.driver(pd).Spec.ManagementState; state != operatorv1.Managed {
			return fmt.Errorf("managementState is %q", state)
		}
		return nil
	})
	s.reach(release)
}
