package storage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestMissingImageIsNamedAndOtherDriversGoOn(t *testing.T) {
	s := fresh(t, configv1.AzurePlatformType)
	s.install(env.Release{Version: release, Edit: environment(func(all []corev1.EnvVar) []corev1.EnvVar {
		return slices.DeleteFunc(all, func(variable corev1.EnvVar) bool { return variable.Name == "AZURE_DISK_DRIVER_IMAGE" })
	})})
	s.says("AzureDiskCSIDriverOperatorStaticControllerDegraded", operatorv1.ConditionTrue, "AZURE_DISK_DRIVER_IMAGE")
	s.says("AzureFileCSIDriverOperatorCRAvailable", operatorv1.ConditionTrue, "AsExpected")
	s.operatorSays(configv1.OperatorDegraded, configv1.ConditionTrue, "AZURE_DISK_DRIVER_IMAGE")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: env.OperatorNamespace, Name: "azure-disk-csi-driver-operator"}}
	env.Must(t, s.Gone(t.Context(), deployment))
	s.install(env.Release{Version: release})
	s.reach(release)
}

func TestNonsenseInAClusterCSIDriverIsTold(t *testing.T) {
	s := installed(t, configv1.GCPPlatformType)
	const pd = "pd.csi.storage.gke.io"
	s.changeDriver(pd, func(driver *operatorv1.ClusterCSIDriver) {
		driver.Spec.ManagementState = operatorv1.Force
		driver.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{
			DriverType: operatorv1.AWSDriverType, AWS: &operatorv1.AWSCSIDriverConfigSpec{KMSKeyARN: "arn:aws:kms:us-east-1:123456789012:key/a"},
		}
		driver.Spec.UnsupportedConfigOverrides = runtime.RawExtension{Raw: []byte(`{"what": ["ever"]}`)}
	})
	const sentence = `spec.managementState "Force" is not known, nothing is changed until it is `
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
	const ignored = "spec.driverConfig is not used: its driverType is AWS, that of pd.csi.storage.gke.io is GCP"
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

// No driver of this release waits for a gate: whatever is said of gates, and whether anything is, all stays as it is.
func TestFeatureGatesChangeNothing(t *testing.T) {
	s := installed(t, configv1.GCPPlatformType)
	const pd = "pd.csi.storage.gke.io"
	s.repaired(pd)
	before := s.storage().Status.Conditions
	gate := &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	for _, step := range []struct {
		name   string
		change func() error
	}{
		{"unknown gates", func() error {
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(gate), gate); err != nil {
				return err
			}
			unknown := []configv1.FeatureGateAttributes{{Name: "FromTheFuture"}}
			gate.Status.FeatureGates = []configv1.FeatureGateDetails{{Version: release, Enabled: unknown}, {Version: nextRelease, Disabled: unknown}}
			return s.Client.Status().Update(t.Context(), gate)
		}},
		{"no FeatureGate", func() error { return s.Client.Delete(t.Context(), gate) }},
		{"a FeatureGate without a status", func() error {
			gate = &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
			return s.Client.Create(t.Context(), gate)
		}},
	} {
		mark, err := s.Audit.Now()
		env.Must(t, err)
		env.Must(t, step.change())
		s.repaired(pd)
		requests, err := s.Audit.Since(mark, env.CSOUser)
		env.Must(t, err)
		writes := env.Filter(requests, func(r env.Request) bool {
			// Repairs are asked for here, and events may come late.
			return r.IsWrite() && !slices.Contains([]string{"leases", "services", "events"}, r.Object.Resource)
		})
		if len(writes) > 0 {
			t.Errorf("%s: the cluster-storage-operator has written:\n%s", step.name, env.Describe(writes))
		}
		if diff := cmp.Diff(before, s.storage().Status.Conditions); diff != "" {
			t.Errorf("%s: conditions (-before +after):\n%s", step.name, diff)
		}
	}
	s.reach(release)
}
