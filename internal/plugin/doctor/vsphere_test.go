package doctor

import (
	"os"
	"regexp"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	vSpherePrefix = "VMwareVSphere"
	oldHost       = "HostVersion: vCenter vc1.example.com: ESXi of hosts esx-3.example.com (6.5.0) is too old: the driver needs 6.7.3. Upgrade the hosts to 7.0.2 or newer"
	noVM          = "NodeVM: no vCenter has VMs with the UUIDs of nodes a (4211-aaaa), c (4211-cccc): the driver can't attach volumes there. Check " +
		"that the cloud configuration names their vCenter and datacenter, and that the user may see the VMs"
	noPolicy = `StorageClassPlacement: StorageClasses name a datastore or storage policy that does not exist or is not unique: fast (0 storage ` +
		`policies ` +
		`"fast-ssd" in vc1.example.com). Provisioning fails for these classes. Correct vSphere, or replace the classes`
	refusedLogin = "vCenter vc1.example.com: log in: the user or the password is wrong, or the account is locked or expired: correct the Secret vsphere-creds in kube-system"
)

// openVSphere is a cluster in which vSphere works, and so does EFS. PVC disk waits for a volume of class fast.
func openVSphere(t *testing.T) *scene {
	t.Helper()
	s := open(t)
	const controller, nodes, operates = "vmware-vsphere-csi-driver-controller", "vmware-vsphere-csi-driver-node", "vmware-vsphere-csi-driver-operator"
	s.add(
		&storagev1.CSIDriver{ObjectMeta: named("", vSphereName, "app.kubernetes.io/managed-by", operates)},
		&operatorv1.ClusterCSIDriver{ObjectMeta: named("", vSphereName), Status: operatorv1.ClusterCSIDriverStatus{OperatorStatus: operatorv1.OperatorStatus{
			Conditions: []operatorv1.OperatorCondition{condition("Available", "True", "AsExpected", ""), condition("Degraded", "False", "AsExpected", "")},
		}}},
		deployment(home, operates, 1), deployment(home, controller, 2), pod(home, operates+"-1", "a", operates, true), pod(home, controller+"-1", "a", controller, true),
		&appsv1.DaemonSet{
			ObjectMeta: named(home, nodes), Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": nodes}}},
			Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 3, NumberAvailable: 3},
		},
		&storagev1.StorageClass{ObjectMeta: named("", thinClass), Provisioner: vSphereName},
		&storagev1.StorageClass{ObjectMeta: named("", "fast"), Provisioner: vSphereName, Parameters: map[string]string{"StoragePolicyName": "fast-ssd"}},
		claimOf("disk", "fast", ""), claimOf("thin", thinClass, ""), claimOf("used", thinClass, "pv-used"),
		&corev1.PersistentVolume{ObjectMeta: named("", "pv-used"), Spec: corev1.PersistentVolumeSpec{
			StorageClassName: thinClass, ClaimRef: &corev1.ObjectReference{Namespace: project, Name: "used"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: vSphereName, VolumeHandle: "1"}},
		}},
		user("db", "a", "used", false),
	)
	for _, name := range []string{"a", "b", "c"} {
		s.add(pod(home, nodes+"-"+name, name, nodes, true))
		change(s, name, func(node *storagev1.CSINode) {
			node.Spec.Drivers = append(node.Spec.Drivers, storagev1.CSINodeDriver{Name: vSphereName, NodeID: name})
		})
	}
	return s
}

// reports sets conditions of the ClusterCSIDriver of vSphere, whose types have no prefix. What ends in Degraded sums up.
func (s *scene) reports(conditions ...operatorv1.OperatorCondition) {
	s.t.Helper()
	change(s, vSphereName, func(cr *operatorv1.ClusterCSIDriver) {
		for _, one := range conditions {
			if strings.HasSuffix(one.Type, "Degraded") && one.Status == operatorv1.ConditionTrue {
				cr.Status.Conditions[1] = condition("Degraded", "True", one.Reason, one.Message)
			}
			one.Type = vSpherePrefix + one.Type
			cr.Status.Conditions = append(cr.Status.Conditions, one)
		}
	})
}

func TestWhatIsWrongInVSphereIsNamedOnce(t *testing.T) {
	disk, thin, db := []string{"pvc", "disk"}, []string{"pvc", "thin"}, []string{"pod", "db"}
	failed := func(s *scene, claim, message string) {
		s.add(eventOn("PersistentVolumeClaim", claim, "ProvisioningFailed", "failed to provision volume: rpc error: code = Internal desc = "+message))
	}
	degraded := func(lines ...string) operatorv1.OperatorCondition {
		return condition("OperatorCheckDegraded", "True", "Multiple", strings.Join(lines, "\n"))
	}
	away := func(s *scene) {
		s.reports(degraded("VCenterConnection: "+refusedLogin), condition("ControllerUpgradeable", "False", "VCenterConnection", "VCenterConnection: "+
			""+refusedLogin),
			condition("DriverCloudDegraded", "True", "LoginRefused", refusedLogin))
	}
	const vanished = "The storage policy openshift-storage-policy-x of vCenter vc1.example.com has other rules than the tag x of the category openshift-x"
	withoutThin := func(s *scene) {
		drop[*storagev1.StorageClass](s, thinClass)
		s.reports(condition("DriverCloudDegraded", "True", "StoragePolicyNotOurs", vanished))
	}
	for name, tc := range map[string]situation{
		"vsphere-healthy": {func(*scene) {}, nil, 0, nil},
		// One problem both degrades the operator and blocks the upgrade. The summary adds nothing.
		"vsphere-old-host": {func(s *scene) {
			s.reports(degraded(oldHost), condition("ControllerUpgradeable", "False", "HostVersion", oldHost))
		}, nil, 3, []string{"An ESXi host of a node is too old."}},
		"vsphere-warnings": {func(s *scene) {
			s.reports(condition("OperatorCheckWarning", "True", "Multiple", "NodeDiskUUID: vCenter vc1.example.com: disk.EnableUUID is off in the VMs of "+
				"nodes b: "+
				"pods there can't mount volumes. Drain each node, shut its VM down and set disk.EnableUUID to TRUE\n"+noPolicy))
		}, nil, 3, []string{"The VM of a node does not expose the UUIDs of its disks.", "A StorageClass names a datastore or a storage policy"}},
		"vsphere-away":         {away, nil, 3, []string{"A vCenter does not answer the operator, or refuses it."}},
		"vsphere-unknown-line": {func(s *scene) { s.reports(degraded("Newer: something")) }, nil, 3, []string{"The operator of driver csi.vsphere.vmware.com reports"}},
		// The driver's own message is a consequence.
		"vsphere-away-claim": {func(s *scene) {
			away(s)
			failed(s, "disk", "ServerFaultCode: Cannot complete login due to an incorrect user name or password.")
		}, disk, 3, []string{"A vCenter does not answer the operator, or refuses it."}},
		"vsphere-login-claim": {func(s *scene) {
			failed(s, "disk", "ServerFaultCode: Cannot complete login due to an incorrect user name or password.")
		}, disk, 3, []string{"A vCenter refuses the user and the password of driver csi.vsphere.vmware.com."}},
		"vsphere-policy-claim": {func(s *scene) { failed(s, "disk", `no pbm profile found with name: "fast-ssd"`) }, disk, 3, []string{
			"A vCenter does not have the storage policy of StorageClass fast.",
		}},
		"vsphere-policy-checked-claim": {func(s *scene) {
			s.reports(condition("OperatorCheckWarning", "True", "StorageClassPlacement", noPolicy))
			failed(s, "disk", `no pbm profile found with name: "fast-ssd"`)
		}, disk, 3, []string{"A StorageClass names a datastore or a storage policy"}},
		// The class is missing because the policy is.
		"vsphere-no-thin": {withoutThin, thin, 3, []string{"The storage policy of StorageClass thin-csi is missing or wrong in a vCenter."}},
		"vsphere-no-thin-unexplained": {func(s *scene) { drop[*storagev1.StorageClass](s, thinClass) }, thin, 3, []string{
			"StorageClass thin-csi does not exist.",
		}},
		"vsphere-no-thin-other-class": {withoutThin, []string{"pvc", "data"}, 0, nil},
		"vsphere-pod-on-node": {func(s *scene) {
			s.reports(degraded(noVM, oldHost))
			s.add(eventOn("Pod", "db", "FailedAttachVolume", "AttachVolume.Attach failed: rpc error: failed to find VirtualMachine for node a"))
		}, db, 3, []string{"The vCenters do not show the VM of a node, or show only a part of the VM."}},
		// A pod on another node is not affected.
		"vsphere-pod-elsewhere": {func(s *scene) {
			s.reports(degraded(strings.Replace(noVM, "a (4211-aaaa), ", "", 1)))
			s.add(eventOn("Pod", "db", "FailedAttachVolume", "AttachVolume.Attach failed: rpc error: timed out"))
		}, db, 3, []string{"Kubernetes cannot attach a volume of the pod to its node.", "The pod waits for its volumes"}},
		"vsphere-volumes": {func(s *scene) {
			change(s, "db", func(pod *corev1.Pod) { pod.Spec.NodeName = "" })
			s.add(eventOn("Pod", "db", "FailedScheduling", "0/3 nodes are available: 3 node(s) exceed max volume count."))
		}, db, 3, []string{"All nodes that the pod may run on have reached their limit of volumes."}},
		// The failed checks prevent the installation. Other missing objects are consequences.
		"vsphere-refused": {func(s *scene) {
			drop[*appsv1.DaemonSet](s, "vmware-vsphere-csi-driver-node")
			drop[*appsv1.Deployment](s, "vmware-vsphere-csi-driver-controller")
			s.reports(condition("ControllerUpgradeable", "False", "HostVersion", oldHost), condition("DriverDisabled", "True", "DriverDisabled", oldHost))
		}, nil, 3, []string{"An ESXi host of a node is too old."}},
		// A vCenter that never answered. Nothing in the cluster has failed, but no volume can be provisioned.
		"vsphere-never-answered": {func(s *scene) {
			drop[*appsv1.DaemonSet](s, "vmware-vsphere-csi-driver-node")
			drop[*appsv1.Deployment](s, "vmware-vsphere-csi-driver-controller")
			drop[*storagev1.CSIDriver](s, vSphereName)
			drop[*storagev1.StorageClass](s, thinClass)
			s.reports(condition("OperatorCheckWarning", "True", vCenterAway, vCenterAway+": "+refusedLogin),
				condition("DriverDisabled", "True", "LoginRefused", refusedLogin), condition("DriverCloudDegraded", "False", "DriverDisabled", refusedLogin))
		}, nil, 3, []string{"A vCenter does not answer the operator, or refuses it."}},
		"vsphere-removed": {func(s *scene) {
			s.removed()
			drop[*storagev1.StorageClass](s, thinClass, "fast")
		}, nil, 0, []string{"Driver csi.vsphere.vmware.com is not installed, because its managementState is Removed."}},
		"vsphere-removed-claim": {(*scene).removed, disk, 3, []string{"Driver csi.vsphere.vmware.com is not installed, because its managementState is Removed."}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openVSphere(t)
			if tc.args == nil {
				// Otherwise, doctor also asks why this pod waits.
				drop[*corev1.Pod](s, "db")
			}
			tc.isNamed(s, name)
		})
	}
}

// removed sets managementState Removed, with the operator's conditions for it.
func (s *scene) removed() {
	drop[*appsv1.DaemonSet](s, "vmware-vsphere-csi-driver-node")
	drop[*appsv1.Deployment](s, "vmware-vsphere-csi-driver-controller")
	drop[*storagev1.CSIDriver](s, vSphereName)
	change(s, vSphereName, func(cr *operatorv1.ClusterCSIDriver) {
		cr.Spec.ManagementState = operatorv1.Removed
		cr.Status.Conditions[0] = condition("Available", "False", "Removed", "the driver is removed")
	})
	s.reports(condition("DriverDisabled", "True", "Removed", "the driver is removed because spec.managementState is Removed; set it to Managed to "+
		"install the driver"))
}

// The guide lists all checks.
func TestEveryCheckOfVSphereHasASentence(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guide/vsphere-checks.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(string(guide), -1) {
		// Severities are in lower case.
		listed[match[1]] = strings.ToLower(match[1]) != match[1]
	}
	for name, is := range listed {
		if is && vSphereChecks()[name] == "" {
			t.Errorf("%s has no sentence", name)
		}
	}
	for name, sentence := range vSphereChecks() {
		if !listed[name] || !strings.HasSuffix(sentence, ".") || len(strings.Fields(sentence)) >= 25 {
			t.Errorf("%s: %q", name, sentence)
		}
	}
}

func TestWhatTheDriverOfVSphereSaysHasASentence(t *testing.T) {
	for message, want := range map[string]string{
		`Storage policy name "gold" not found in VC "vc1"`:                                     "A vCenter does not have the storage policy of StorageClass ",
		"none of compatible datastores for given storage policy ID \"7\", is in the list":      "No datastore that matches the storage policy",
		"no shared datastores found among given NodeVMs":                                       "No datastore that matches the storage policy",
		"Post \"https://vc1/sdk\": tls: failed to verify certificate: x509: unknown authority": "Driver " + vSphereName + " does not trust the certificate",
		"ServerFaultCode: Permission to perform this operation was denied. NoPermission":       "The user of a vCenter lacks a privilege.",
		"exceeded quota: storage, requested: requests.storage=1Gi":                             "The quota of namespace n is exhausted",
		"something that nobody knows":                                                          "The driver cannot provision a volume",
	} {
		all := events(waiting(vSphereName, message))
		if len(all) != 1 || !strings.HasPrefix(all[0].Cause, want) || all[0].Page == "" || all[0].Do == "" {
			t.Errorf("%s: %+v, want %q", message, all, want)
		}
	}
}
