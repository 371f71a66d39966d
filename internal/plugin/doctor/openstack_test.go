package doctor

import (
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// waiting returns the facts of a PVC that waits for a driver's volume, with one event.
func waiting(driver, message string) *facts {
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "data"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	return &facts{subject: &subject{
		kind: kindClaim, namespace: "n", name: "data", drivers: []string{driver}, claims: []claim{{name: "data", pvc: pvc, driver: driver}},
		events: []corev1.Event{{
			Type: corev1.EventTypeWarning, Reason: "ProvisioningFailed", Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "n", Name: "data"},
		}},
	}}
}

// The texts are errors of the services, wrapped by the drivers.
func TestWhatOpenStackSaysHasASentence(t *testing.T) {
	const made = "failed to provision volume with StorageClass \"a\": rpc error: code = Internal desc = "
	for text, want := range map[string]string{
		cinderName + "|CreateVolume failed due to exceeded quota VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded": "The cluster's project in OpenStack",
		manilaName + "|ShareLimitExceeded: Maximum number of shares allowed (50) exceeded":                                             "The cluster's project in OpenStack",
		cinderName + "|CreateVolume failed with error: No valid host was found. No weighed backends available":                         "No OpenStack backend fits",
		cinderName + "|Bad request: Availability zone 'az-7' is invalid.":                                                              "Cinder has no availability zone",
		manilaName + "|Share type with name or id gold not found":                                                                      "Manila no longer has the share type",
		manilaName + "|share network must be set when using driver_handles_share_servers=true":                                         "The share type needs a share server",
		manilaName + `|share 7 is in error state "error": No valid host`:                                                               "Manila created the share, but it is in an error state",
		manilaName + "|failed to authenticate: The request you have made requires authentication.":                                     "OpenStack refuses the credentials of driver " + manilaName,
		cinderName + "|Post https://k: tls: failed to verify certificate: x509: certificate signed by unknown authority":               "Driver " + cinderName + " does not trust the certificate",
		cinderName + "|something that nobody knows":                                                                                    "The driver cannot provision a volume",
		// Messages of EFS's mount helper mean something else from other programs.
		manilaName + "|connection timed out": "The driver cannot provision a volume",
		// A ResourceQuota is not a quota of the cloud.
		cinderName + "|exceeded quota: storage, requested: requests.storage=1Gi": "The quota of namespace n is exhausted",
	} {
		driver, message, _ := strings.Cut(text, "|")
		all := events(waiting(driver, made+message))
		if len(all) != 1 || !strings.HasPrefix(all[0].Cause, want) || all[0].Page == "" || all[0].Do == "" {
			t.Errorf("%s: %+v, want %q", message, all, want)
		}
	}
}

func TestADriverWithoutItsServiceIsNamedWhereSomebodyWantsIt(t *testing.T) {
	cr := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: manilaName}}
	cr.Status.Conditions = []operatorv1.OperatorCondition{condition("OpenStackManilaDriverDisabled", "True", "DriverDisabled", "the service catalogue has no Manila")}
	f := &facts{Survey: survey.Survey{Drivers: []survey.Driver{{Name: manilaName, CR: cr}}}}
	if all := cloudLacks(f); len(all) > 0 {
		t.Errorf("nobody wants it: %+v", all)
	}
	f.classes.items = []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Provisioner: manilaName}}
	all := cloudLacks(f)
	if len(all) != 1 || all[0].Said != "the service catalogue has no Manila" || !slices.Contains(all[0].effects, topicOf("provision", manilaName)) {
		t.Errorf("%+v", all)
	}
	cr.Status.Conditions[0].Reason = "CloudUnreachable"
	if all := cloudLacks(f); len(all) != 1 || !strings.Contains(all[0].Cause, "the cloud does not answer") {
		t.Errorf("nobody knows what the cloud has: %+v", all)
	}
	cr.Status.Conditions[0].Status = operatorv1.ConditionFalse
	if all := cloudLacks(f); len(all) > 0 {
		t.Errorf("it is there: %+v", all)
	}
}
