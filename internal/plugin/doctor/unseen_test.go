package doctor

import (
	"errors"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// unseen are situations in which whoever asks, or the operator, sees little: developers, operators that are no Deployment, AWS out of reach.
func unseen() map[string]situation {
	pod, pvc, sv := []string{"pod", "web"}, []string{"pvc", "data"}, []string{"sv", "sv1"}
	return map[string]situation{
		"operator-outside": {func(s *scene) {
			drop[*appsv1.Deployment](s, operator)
			s.add(leaseOf(1900))
		}, nil, 0, []string{"An operator without a Deployment in the cluster manages driver efs.csi.aws.com: laptop holds the operator's Lease."}},
		"operator-outside-has-ended": {func(s *scene) {
			drop[*appsv1.Deployment](s, operator)
			s.add(leaseOf(1800))
		}, nil, 3, []string{"Driver efs.csi.aws.com has no operator"}},
		"operator-lease-unseen": {func(s *scene) {
			drop[*appsv1.Deployment](s, operator)
			s.add(leaseOf(1999))
			s.Refuse(apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "x", errors.New("no")), "get Lease")
		}, nil, 3, []string{"Driver efs.csi.aws.com has no operator"}},
		"operator-outside-not-requested": {func(s *scene) {
			s.Objects = []client.Object{leaseOf(1999)}
		}, nil, 3, []string{"Driver efs.csi.aws.com is not installed, although its operator runs"}},
		"no-driver": {func(s *scene) { s.Objects = nil }, nil, 0, []string{"The cluster has no CSI driver."}},
		"no-rights-in-the-namespace": {func(s *scene) {
			s.Refuse(apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data", errors.New("no")), "get PersistentVolumeClaim")
		}, pvc, 1, nil},
		"developer": {func(s *scene) {
			s.developer()
			s.stuck("a", `MountVolume.SetUp failed for volume "pv-data" : rpc error: code = Internal desc = Could not mount "fs-0badbadbad" at `+
				`"/var/lib/kubelet/pods/`+strings.Repeat("0", 300)+`/mount": mount failed: exit status 1 Output: Failed to resolve `+
				`"fs-0badbadbad.efs.us-east-1.amazonaws.com" - check that your file system ID is correct, and ensure that the VPC has an EFS mount target`)
		}, pod, 3, []string{"File system fs-0badbadbad does not exist, or has no mount target that node a can resolve."}},
		"developer-class-missing": {func(s *scene) {
			s.developer()
			s.add(claimOf("new", "nowhere", ""), noClass())
		}, []string{"pvc", "new"}, 3, []string{"StorageClass nowhere does not exist."}},
		"class-missing-with-event": {func(s *scene) { s.add(claimOf("new", "nowhere", ""), noClass()) }, []string{"pvc", "new"}, 3,
			[]string{"StorageClass nowhere does not exist."}},
		"class-is-there-again": {func(s *scene) {
			change(s, "efs", func(class *storagev1.StorageClass) { class.Name = "nowhere" })
			s.add(claimOf("new", "nowhere", ""), noClass())
		}, []string{"pvc", "new"}, 3, []string{"Driver efs.csi.aws.com has not provisioned a volume, and no event says why."}},
		"shared-ready-unasked": {func(s *scene) { s.share("Ready", is("Ready", "True", "Bound", "")) }, sv, 0,
			[]string{"The operator has not checked whether file system fs-1234cdef exists in AWS"}},
		"shared-unknown": {func(*scene) {}, []string{"sv", "sv2"}, 3, []string{"SharedVolume sv2 does not exist."}},
	}
}

// noClass is Kubernetes' message for a claim whose class does not exist (kube-controller-manager, pkg/controller/volume/persistentvolume).
func noClass() *corev1.Event {
	return eventOn("PersistentVolumeClaim", "new", "ProvisioningFailed", `storageclass.storage.k8s.io "nowhere" not found`)
}

// developer limits the user to the namespace.
func (s *scene) developer() {
	forbidden := func(group, resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "", errors.New("no"))
	}
	hidden := map[string]error{
		"Node": forbidden("", "nodes"), "PersistentVolume": forbidden("", "persistentvolumes"), "Deployment": forbidden("apps", "deployments"),
		"DaemonSet": forbidden("apps", "daemonsets"), "CSIDriver": forbidden("storage.k8s.io", "csidrivers"),
		"CSINode": forbidden("storage.k8s.io", "csinodes"), "StorageClass": forbidden("storage.k8s.io", "storageclasses"),
		"ClusterCSIDriver": forbidden("operator.openshift.io", "clustercsidrivers"),
	}
	s.Fail = func(request string) error { return hidden[strings.Fields(request)[1]] }
}

// leaseOf returns the Lease of an operator on a laptop, with a renewal time in Unix seconds.
func leaseOf(renewed int64) *coordinationv1.Lease {
	holder, seconds := "laptop_1", int32(60)
	return &coordinationv1.Lease{ObjectMeta: named(home, operator+"-lock"), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: time.Unix(renewed, 0)},
	}}
}

// Doctor can't distinguish an operator outside of the cluster without a Lease from none, and names the EFS guide only for EFS.
func TestAnOperatorThatHoldsNoLeaseIsNotSaidToBeMissing(t *testing.T) {
	for name, page := range map[string]page{"efs.csi.aws.com": pageInstall, "smb.csi.k8s.io": pageThirdParty} {
		f := &facts{}
		f.Operators, f.Drivers = plugin.Present, []survey.Driver{{
			Name: name, Profile: &survey.Profile{Operator: "the-operator"}, CR: &operatorv1.ClusterCSIDriver{},
		}}
		found := operatorMissing(f)
		if len(found) != 1 || found[0].Page != string(page) || !strings.Contains(found[0].Do, "with --leader-elect=true") ||
			!strings.HasPrefix(found[0].Cause, "Driver "+name+" has no operator") {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
