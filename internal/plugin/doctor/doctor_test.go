package doctor

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/testing/golden"
)

const (
	noTarget     = "file system fs-1234cdef has no mount target in us-east-1c, where the cluster has nodes: pods there can't mount it; make one"
	closedTarget = "mount target fsmt-12 of file system fs-1234cdef in us-east-1a refuses TCP port 2049 from nodes in subnet-1: a: pods there can't mount " +
		"the file system; add an inbound rule for TCP port 2049 from security group sg-0a1b to security group sg-0c2d"
	hanging = "node a: at least 2 mounts of EFS hang, such as file system fs-1234cdef in pod my-project/web (PersistentVolume pv-data, the server does " +
		"not answer): do not unmount by force, find out why they hang\n"
	unreported = "it is unknown whether mounts of EFS hang on 1 nodes, because their pods of DaemonSet aws-efs-node-health do not report: c"
	noRight    = "the credentials of Secret aws-efs-cloud-credentials may not do elasticfilesystem:CreateAccessPoint: add it to their IAM policy"
	timedOut   = `MountVolume.SetUp failed for volume "pv-data" : mount failed: Connection timed out`
)

// situation is a broken cluster.
type situation struct {
	fault func(*scene)
	args  []string
	code  int
	// causes are prefixes of the expected causes.
	causes []string
}

// broken maps names of golden files to clusters with one cause each.
func broken() map[string]situation {
	pod, pvc := []string{"pod", "web"}, []string{"pvc", "data"}
	wait := func(s *scene) { s.stuck("a") }
	return map[string]situation{
		"healthy":                      {func(*scene) {}, nil, 0, nil},
		"healthy-pod":                  {func(*scene) {}, pod, 0, nil},
		"old-event-of-a-pod-that-runs": {func(s *scene) { s.add(eventOn("Pod", "web", "FailedMount", timedOut)) }, pod, 0, nil},
		"no-operator": {func(s *scene) {
			drop[*appsv1.Deployment](s, operator)
			s.says(condition(prefix+"DriverNodeServiceControllerDegraded", "True", "RolloutStuck", "no progress"))
		}, nil, 3, []string{"Driver efs.csi.aws.com has no operator"}},
		"cluster-operator": {func(s *scene) { s.add(storage()) }, nil, 3, []string{
			"ClusterOperator storage reports Degraded=True with reason SnapshotControllerDegraded.",
		}},
		"cluster-operator-sums-up": {func(s *scene) {
			s.add(storage())
			drop[*appsv1.Deployment](s, operator)
		}, nil, 3, []string{"Driver efs.csi.aws.com has no operator"}},
		"operator-scaled-down": {func(s *scene) {
			change(s, operator, func(d *appsv1.Deployment) {
				zero := int32(0)
				d.Spec.Replicas, d.Status = &zero, appsv1.DeploymentStatus{}
			})
		}, nil, 3, []string{"The operator of driver efs.csi.aws.com does not run: its Deployment is scaled to 0."}},
		"operator-crashes": {func(s *scene) {
			change(s, operator, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
			change(s, operator+"-1", func(p *corev1.Pod) { *p = *sickPod(p.Name, operator) })
		}, nil, 3, []string{"The operator of driver efs.csi.aws.com does not run."}},
		"two-copies": {func(s *scene) { s.add(deployment("elsewhere", operator, 1)) }, nil, 3, []string{"2 copies of the operator"}},
		"not-requested": {func(s *scene) {
			drop[*operatorv1.ClusterCSIDriver](s)
			drop[*storagev1.CSIDriver](s)
			drop[*appsv1.DaemonSet](s)
			wait(s)
		}, pod, 3, []string{"Driver efs.csi.aws.com is not installed, although its operator runs"}},
		"no-driver-at-all": {func(s *scene) {
			drop[*operatorv1.ClusterCSIDriver](s)
			drop[*storagev1.CSIDriver](s)
			drop[*appsv1.DaemonSet](s)
			drop[*appsv1.Deployment](s)
			s.Fail = func(request string) error {
				if strings.Contains(request, "ClusterCSIDriver") {
					return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "operator.openshift.io", Kind: "ClusterCSIDriver"}}
				}
				return nil
			}
			wait(s)
		}, pod, 3, []string{"Driver efs.csi.aws.com is not installed."}},
		"removed": {func(s *scene) {
			change(s, efsName, func(cr *operatorv1.ClusterCSIDriver) { cr.Spec.ManagementState = operatorv1.Removed })
			s.says(condition("Available", "False", "Removed", "the driver is removed"))
			drop[*storagev1.CSIDriver](s)
			drop[*appsv1.DaemonSet](s)
			wait(s)
		}, pod, 3, []string{"Driver efs.csi.aws.com is not installed, because its managementState is Removed."}},
		"unmanaged": {func(s *scene) {
			change(s, efsName, func(cr *operatorv1.ClusterCSIDriver) { cr.Spec.ManagementState = operatorv1.Unmanaged })
		}, nil, 0, []string{"The operator does not change"}},
		"no-status": {func(s *scene) {
			change(s, efsName, func(cr *operatorv1.ClusterCSIDriver) { cr.Status = operatorv1.ClusterCSIDriverStatus{} })
		}, nil, 3, []string{"No operator has written a status"}},
		"third-party": {func(s *scene) {
			change(s, efsName, func(d *storagev1.CSIDriver) {
				d.Labels = nil
				d.Annotations = map[string]string{"meta.helm.sh/release-name": "efs", "meta.helm.sh/release-namespace": "kube-system"}
			})
			s.says(condition("Available", "False", "Waiting", "waits"), condition(prefix+"DriverNodeServiceControllerProgressing", "True", "Waiting", "waits"))
		}, nil, 3, []string{"Driver efs.csi.aws.com is a third-party driver, installed by Helm release kube-system/efs."}},
		"removal-blocked": {func(s *scene) {
			s.says(condition("Progressing", "True", "VolumesInUse", "x"),
				condition(prefix+"DriverNodeServiceControllerProgressing", "True", "VolumesInUse",
					"Removal is blocked: 1 pods use volumes of the driver and would hang without it: my-project/web. Also, 1 nodes have mounts of the driver that no "+
						"pod uses: a"))
		}, nil, 3, []string{"The removal of driver efs.csi.aws.com waits for pods"}},
		"removal-waits-for-objects": {func(s *scene) {
			s.says(condition("Progressing", "True", "VolumesInUse", "x"), condition(prefix+"DriverNodeServiceControllerProgressing", "True", "VolumesInUse",
				"Removal is blocked: only the driver can delete these 1 objects: PersistentVolume pv-1. Also, 1 nodes have mounts of the driver that no pod uses: a"))
		}, nil, 3, []string{"The removal of driver efs.csi.aws.com waits for objects"}},
		"removal-waits-for-mounts": {func(s *scene) {
			s.says(condition("Progressing", "True", "VolumesInUse", "x"), condition(prefix+"DriverNodeServiceControllerProgressing", "True", "VolumesInUse",
				"Removal is blocked: 1 nodes have mounts of the driver that no pod uses: a. The kubelet can't unmount without the driver."))
		}, nil, 3, []string{"The removal of driver efs.csi.aws.com waits for mounts on nodes."}},
		"removal-waits-for-unknown-mounts": {func(s *scene) {
			s.says(condition("Progressing", "True", "VolumesInUse", "x"), condition(prefix+"DriverNodeServiceControllerProgressing", "True", "VolumesInUse",
				"Removal waits for 2m0s, then continues. It is unknown whether nodes have mounts of the driver: no route"))
		}, nil, 0, []string{"It is unknown whether nodes have mounts of driver efs.csi.aws.com"}},
		"canary-failed": {func(s *scene) {
			s.says(condition("Degraded", "True", "CanaryFailed", "x"), condition(prefix+"DriverNodeServiceControllerProgressing", "True", "TryingCanary", "tried on b"),
				condition(prefix+"DriverNodeServiceControllerDegraded", "True", "CanaryFailed", "the new pod on node b does not serve: ImagePullBackOff"))
			change(s, daemonSet+"-b", func(p *corev1.Pod) { *p = *sickPlugin(p.Name, "b") })
		}, nil, 3, []string{"The new node pod of driver efs.csi.aws.com fails on the node where"}},
		"canary-elsewhere": {func(s *scene) {
			s.says(condition(prefix+"DriverNodeServiceControllerDegraded", "True", "CanaryFailed", "the new pod on node b does not serve"))
			s.stuck("a", timedOut)
		}, pod, 3, []string{"Node a can't reach the mount target"}},
		"rollout-paused": {func(s *scene) {
			s.says(condition(prefix+"DriverNodeServiceControllerProgressing", "True", "RolloutPaused", "pods became unready: my-project/web on a"))
		}, nil, 3, []string{"The operator has paused the roll-out"}},
		"rolling-out": {func(s *scene) {
			s.says(condition(prefix+"DriverNodeServiceControllerProgressing", "True", "ReplacingPods", "1 of 3 nodes have the new node pod"))
		}, nil, 0, []string{"The operator of driver efs.csi.aws.com is rolling out a change."}},
		"no-credentials": {func(s *scene) {
			s.says(condition(prefix+"CredentialsRequestControllerAvailable", "False", "SecretMissing", "Secret aws-efs-cloud-credentials is missing"),
				condition(prefix+"DriverControllerServiceControllerProgressing", "True", "Waiting", "waits for Secret"),
				condition(prefix+"DriverControllerServiceControllerAvailable", "False", "Waiting", "waits for Secret"))
			drop[*appsv1.Deployment](s, "aws-efs-csi-driver-controller")
			s.add(claimOf("new", "efs", ""))
		}, []string{"pvc", "new"}, 3, []string{"Driver efs.csi.aws.com has no credentials"}},
		"plugin-not-ready": {func(s *scene) {
			change(s, daemonSet+"-a", func(p *corev1.Pod) { *p = *sickPlugin(p.Name, "a") })
			s.stuck("a", "MountVolume failed: driver name efs.csi.aws.com not found in the list of registered CSI drivers")
		}, pod, 3, []string{"The node pod of driver efs.csi.aws.com on node a is not ready."}},
		"plugin-absent-by-taint": {func(s *scene) {
			drop[*corev1.Pod](s, daemonSet+"-a")
			change(s, "a", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "special", Effect: corev1.TaintEffectNoExecute}}
			})
			change(s, "a", func(n *storagev1.CSINode) { n.Spec.Drivers = nil })
			wait(s)
		}, pod, 3, []string{"Node a has no node pod of driver efs.csi.aws.com, because of a taint"}},
		"not-registered": {func(s *scene) {
			change(s, "a", func(n *storagev1.CSINode) { n.Spec.Drivers = nil })
			s.stuck("a", "driver name efs.csi.aws.com not found in the list of registered CSI drivers")
		}, pod, 3, []string{"Driver efs.csi.aws.com is not registered on node a."}},
		"node-down": {func(s *scene) {
			change(s, "a", func(n *corev1.Node) { n.Status.Conditions[0].Status = "Unknown" })
			change(s, daemonSet+"-a", func(p *corev1.Pod) { *p = *sickPlugin(p.Name, "a") })
			wait(s)
		}, pod, 3, []string{"Node a is not ready."}},
		"plugins-not-ready": {func(s *scene) {
			for _, name := range []string{"a", "b"} {
				change(s, daemonSet+"-"+name, func(p *corev1.Pod) { *p = *sickPlugin(p.Name, name) })
			}
		}, nil, 3, []string{"The node pods of driver efs.csi.aws.com are not ready on 2 nodes."}},
		"mount-target-missing": {func(s *scene) {
			s.says(condition(prefix+"MountTargetMissing", "True", "MountTargetMissing", noTarget))
			s.stuck("c", timedOut)
		}, pod, 3, []string{"File system fs-1234cdef has no mount target in zone us-east-1c"}},
		"mount-target-missing-elsewhere": {func(s *scene) {
			s.says(condition(prefix+"MountTargetMissing", "True", "MountTargetMissing", noTarget))
			s.stuck("a", timedOut)
			s.log[daemonSet+"-a"] = "E1 Could not mount \"fs-1234cdef\": error token=abc.def AKIAABCDEFGHIJKLMNOP Connection timed out\nE2 failed for others"
		}, pod, 3, []string{"Node a can't reach the mount target of file system fs-1234cdef."}},
		"mount-target-closed": {func(s *scene) {
			s.says(condition(prefix+"MountTargetClosed", "True", "MountTargetClosed", closedTarget))
			s.stuck("a", timedOut)
		}, pod, 3, []string{"A security group does not let the nodes of zone us-east-1a reach the mount target of file system fs-1234cdef."}},
		"mounts-hang": {func(s *scene) {
			s.says(condition(prefix+"MountsStalled", "True", "MountsStalled", hanging+strings.Replace(hanging, "node a", "node b", 1)+"and 7 more nodes\n"+unreported))
		}, nil, 3, []string{"Mounts of EFS hang on node a.", "Mounts of EFS hang on node b.", "Mounts of EFS hang on further nodes.", "It is unknown"}},
		"mounts-hang-on-the-node": {func(s *scene) {
			s.says(condition(prefix+"MountsStalled", "True", "MountsStalled", hanging+strings.Replace(hanging, "node a", "node b", 1)))
		}, []string{"node", "a"}, 3, []string{"Mounts of EFS hang on node a."}},
		"mounts-unknown": {func(s *scene) {
			s.says(condition(prefix+"MountsStalled", "Unknown", "NoAnswer", "it is unknown whether mounts of EFS hang: no route"))
		}, nil, 0, []string{"It is unknown whether mounts of EFS hang."}},
		"mount-target-missing-in-the-cluster": {func(s *scene) {
			s.says(condition(prefix+"MountTargetMissing", "True", "MountTargetMissing", noTarget))
		}, nil, 3, []string{"File system fs-1234cdef has no mount target in zone us-east-1c"}},
		"access-point-missing": {func(s *scene) {
			s.says(condition(prefix+"AccessPointMissing", "True", "AccessPointMissing",
				"PersistentVolume/pv-data needs access point "+point+", which file system fs-1234cdef does not have"))
			s.stuck("a", "mount failed: access point does not exist")
		}, pod, 3, []string{"File system fs-1234cdef does not have access point"}},
		"file-system-missing": {func(s *scene) {
			s.says(condition(prefix+"FileSystemMissing", "True", "FileSystemMissing", "file system fs-1234cdef is not in us-east-1: StorageClass/efs"))
			s.add(claimOf("new", "efs", ""), eventOn("PersistentVolumeClaim", "new", "ProvisioningFailed", "rpc error: File System does not exist"))
		}, []string{"pvc", "new"}, 3, []string{"AWS has no file system fs-1234cdef"}},
		"iam": {func(s *scene) {
			s.says(condition(prefix+"PermissionMissing", "True", "PermissionMissing", noRight))
			s.add(claimOf("new", "efs", ""), eventOn("PersistentVolumeClaim", "new", "ProvisioningFailed",
				"rpc error: code = Unauthenticated desc = Access Denied. Please ensure you have the right AWS permissions"))
		}, []string{"pvc", "new"}, 3, []string{"The driver's AWS credentials lack a permission."}},
		"iam-unseen": {func(s *scene) {
			s.add(claimOf("new", "efs", ""), eventOn("PersistentVolumeClaim", "new", "ProvisioningFailed", "rpc error: Access Denied"))
		}, []string{"pvc", "new"}, 3, []string{"AWS refuses a request of the driver"}},
		"mount-denied": {func(s *scene) {
			s.stuck("a", "MountVolume.SetUp failed: mount.nfs4: access denied by server while mounting 127.0.0.1:/")
		}, pod, 3, []string{"The policy of file system fs-1234cdef does not let node a mount it."}},
		"two-default-classes": {func(s *scene) {
			change(s, "efs", func(c *storagev1.StorageClass) {
				c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
			})
		}, nil, 3, []string{"2 StorageClasses are marked as the default"}},
		"no-default-class": {func(s *scene) { drop[*storagev1.StorageClass](s, "other"); s.add(claimOf("new", "", "")) }, []string{"pvc", "new"}, 3,
			[]string{"The PersistentVolumeClaim names no StorageClass"}},
		"class-missing":    {func(s *scene) { s.add(claimOf("new", "nowhere", "")) }, []string{"pvc", "new"}, 3, []string{"StorageClass nowhere does not exist."}},
		"class-joins-only": {func(s *scene) { s.add(claimOf("new", "efs-sc", "")) }, []string{"pvc", "new"}, 3, []string{"StorageClass efs-sc provisions no volumes"}},
		"class-parameters": {func(s *scene) {
			change(s, "efs", func(c *storagev1.StorageClass) { c.Parameters["provisioningMode"] = "efs-xx" })
			s.add(claimOf("new", "efs", ""), eventOn("PersistentVolumeClaim", "new", "ProvisioningFailed", "rpc error: code = InvalidArgument desc = Provisioning mode"))
		}, []string{"pvc", "new"}, 3, []string{"The EFS driver can't provision a volume with the parameters of StorageClass efs."}},
		"volume-lost":   {func(s *scene) { drop[*corev1.PersistentVolume](s); wait(s) }, pod, 3, []string{"PersistentVolume pv-data, which the PersistentVolumeClaim names, does not exist."}},
		"claim-missing": {func(s *scene) { drop[*corev1.PersistentVolumeClaim](s); s.stuck("") }, pod, 3, []string{"PersistentVolumeClaim data does not exist."}},
		"claim-unknown": {func(s *scene) { drop[*corev1.PersistentVolumeClaim](s) }, pvc, 3, []string{"PersistentVolumeClaim data does not exist."}},
		"pod-unknown":   {func(s *scene) { drop[*corev1.Pod](s, "web") }, pod, 3, []string{"Pod web does not exist."}},
		"controller-down": {func(s *scene) {
			change(s, "aws-efs-csi-driver-controller", func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })
			s.add(claimOf("new", "efs", ""))
		}, []string{"pvc", "new"}, 3, []string{"The controller of driver efs.csi.aws.com does not run"}},
		"controller-without-image": {func(s *scene) {
			s.says(condition(prefix+"DriverControllerServiceControllerDegraded", "True", "PodsNotReady", "pods are not ready: ErrImagePull. Look at the pods"))
			s.add(sickPod("aws-efs-csi-driver-controller-1", "aws-efs-csi-driver-controller"))
		}, nil, 3, []string{"The controller of driver efs.csi.aws.com is unhealthy."}},
		"zone": {func(s *scene) {
			change(s, "pv-data", func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = inZone("us-east-1d") })
			s.stuck("")
			s.add(eventOn("Pod", "web", "FailedScheduling", "0/3 nodes are available: 3 node(s) had volume node affinity conflict."))
		}, pod, 3, []string{"No node that the pod may run on is in the zone of its volumes."}},
		"quota": {func(s *scene) {
			drop[*corev1.PersistentVolumeClaim](s)
			s.add(eventOn("StatefulSet", "web", "FailedCreate", "create Claim data for Pod web-0 failed: persistentvolumeclaims \"data\" is forbidden: exceeded quota: q"))
		}, pvc, 3, []string{"The quota of namespace my-project is exhausted."}},
		"scc": {func(s *scene) {
			drop[*corev1.Pod](s, "web")
			s.add(eventOn("ReplicaSet", "web", "FailedCreate", `pods "web-" is forbidden: unable to validate against any security context constraint: []`))
		}, pod, 3, []string{"No SecurityContextConstraints of the pod's ServiceAccount allows the pod."}},
		"nobody-says-why":     {wait, pod, 3, []string{"The pod waits for its volumes, and no event says why."}},
		"some-other-event":    {func(s *scene) { s.stuck("a", "MountVolume.SetUp failed: no such thing") }, pod, 3, []string{"Kubernetes cannot mount a volume of the pod."}},
		"node":                {func(*scene) {}, []string{"node", "a"}, 0, nil},
		"node-without-plugin": {func(s *scene) { drop[*corev1.Pod](s, daemonSet+"-a") }, []string{"node", "a"}, 3, []string{"Node a has no node pod of driver efs.csi.aws.com."}},
		"node-unknown":        {func(*scene) {}, []string{"node", "z"}, 3, []string{"Node z does not exist."}},
		"shared-ready": {func(s *scene) {
			s.share("Ready", is("Ready", "True", "Bound", ""), is("Mountable", "True", "Regional", "file system is regional"))
		}, []string{"sv", "sv1"}, 0, nil},
		"shared-not-looked-at": {func(s *scene) { s.share("Pending") }, []string{"sv", "sv1"}, 3, []string{"No operator has reconciled the SharedVolume."}},
		"shared-not-allowed": {func(s *scene) {
			s.share("Failed", is("Ready", "False", "NotAllowed", "may not"), is("Bound", "False", "NotAllowed", "may not"), is("Allowed", "False", "NotListed", "may not"))
		}, []string{"sharedvolume/sv1"}, 3, []string{"Namespace my-project may not use access point"}},
		"shared-mountable": {func(s *scene) {
			s.share("Ready", is("Ready", "True", "Bound", ""), is("Mountable", "False", "MountTargetMissing", "no mount target"))
		}, []string{"sv", "sv1"}, 3, []string{"A zone with nodes of the cluster has no mount target of file system fs-1234cdef"}},
		"shared-quota": {func(s *scene) { s.share("Failed", is("Ready", "False", "QuotaExceeded", "no room")) }, []string{"sv", "sv1"}, 3,
			[]string{"The PVC of the SharedVolume would exceed the quota of the namespace."}},
		"shared-without-operator": {func(s *scene) { s.share("Pending"); drop[*appsv1.Deployment](s, operator) }, []string{"sv", "sv1"}, 3,
			[]string{"Driver efs.csi.aws.com has no operator"}},
		"no-rights": {func(s *scene) {
			s.Refuse(apierrors.NewForbidden(schema.GroupResource{Group: "group.example", Resource: "things"}, "", errors.New("no")))
		}, nil, 1, nil},
		"no-rights-on-nodes-and-operators": {func(s *scene) {
			forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "", errors.New("no"))
			s.Refuse(forbidden, "list Deployment", "list DaemonSet", "list Node", "list CSINode", "list StorageClass", "list ClusterCSIDriver")
			s.stuck("a", timedOut)
		}, pod, 3, []string{"Node a can't reach the mount target of file system fs-1234cdef."}},
		"api-away": {func(s *scene) { s.Refuse(errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")) }, nil, 1,
			[]string{"The API server of your kubeconfig cannot be reached."}},
		"log-not-read": {func(s *scene) { s.stuck("a", timedOut); s.log[daemonSet+"-a"] = "broken" }, pod, 3, []string{"Node a can't reach"}},
	}
}

// storage returns OpenShift's ClusterOperator with a failing snapshot controller.
func storage() *configv1.ClusterOperator {
	return &configv1.ClusterOperator{ObjectMeta: named("", "storage"), Status: configv1.ClusterOperatorStatus{
		Conditions: []configv1.ClusterOperatorStatusCondition{
			{Type: configv1.OperatorAvailable, Status: configv1.ConditionTrue},
			{Type: configv1.OperatorDegraded, Status: configv1.ConditionTrue, Reason: "SnapshotControllerDegraded", Message: "the snapshot controller crashes"},
		},
	}}
}

func sickPod(name, app string) *corev1.Pod     { return pod(home, name, "a", app, false) }
func sickPlugin(name, node string) *corev1.Pod { return pod(home, name, node, daemonSet, false) }

func is(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message}
}

func inZone(zone string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
}

func TestDoctorNamesTheCauseAndNothingElse(t *testing.T) {
	all := broken()
	maps.Copy(all, unseen())
	for name, tc := range all {
		t.Run(name, func(t *testing.T) { tc.isNamed(open(t), name) })
	}
}

// isNamed compares the output with the golden file, and the findings with the expected causes.
func (tc situation) isNamed(s *scene, name string) {
	t := s.t
	t.Helper()
	tc.fault(s)
	text, code := s.ask(plugin.Table, tc.args...)
	golden.CompareText(t, name+".txt", text)
	if code != tc.code {
		t.Errorf("exit code %d, want %d", code, tc.code)
	}
	var causes []string
	for line := range strings.Lines(text) {
		if match := regexp.MustCompile(`^(?:ERROR|WARNING|UNKNOWN|INFO) +(.*)`).FindStringSubmatch(line); match != nil {
			causes = append(causes, match[1])
		}
	}
	if len(causes) != len(tc.causes) {
		t.Fatalf("causes %q, want %q", causes, tc.causes)
	}
	for i, want := range tc.causes {
		if !strings.HasPrefix(causes[i], want) {
			t.Errorf("cause %q, want %q", causes[i], want)
		}
	}
}

func TestTheOutputForScriptsHasTheSame(t *testing.T) {
	s := open(t)
	s.stuck("a", timedOut)
	text, code := s.ask(plugin.JSON, "pod", "web")
	var report Report
	if err := json.Unmarshal([]byte(text), &report); err != nil || code != plugin.Wrong {
		t.Fatalf("%v, exit code %d: %s", err, code, text)
	}
	if len(report.Findings) != 1 || report.Findings[0].Object != "Pod my-project/web" || report.Checks != len(checks()) {
		t.Errorf("%+v", report)
	}
	golden.CompareText(t, "report.json", text)
	text, _ = s.ask(plugin.YAML, "pod", "web")
	golden.CompareText(t, "report.yaml", text)
}
