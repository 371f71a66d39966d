package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/controller/sharedvolume"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/predecessors"
)

const defaultClass = "storageclass.kubernetes.io/is-default-class"

// Each situation is broken in one way, and whole again when its subtest ends.
func TestDoctorNamesTheCauseInABrokenClusterAndNothingElse(t *testing.T) {
	s := open(t)
	noTarget := "File system " + s.lame + " has no mount target in zone us-east-1c"
	s.Until("what is missing in AWS is known", s.causes(nil))
	for _, situation := range []struct {
		name string
		test func(*scene)
	}{
		{"no operator", (*scene).noOperator},
		{"operator scaled to 0", (*scene).operatorDown},
		{"recorded session", (*scene).session},
		{"two default classes", (*scene).twoDefaults},
		{"class with wrong parameters", (*scene).wrongParameters},
		{"class that does not exist", func(s *scene) {
			s.claim("nowhere", "nowhere")
			s.Until("named", s.causes([]string{"pvc", "nowhere"}, "StorageClass nowhere does not exist."))
		}},
		{"class that only joins", func(s *scene) {
			// As early versions of the operator made it.
			s.Keep(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: "efs.csi.aws.com"})
			s.claim("static", "efs-sc")
			s.Until("named", s.causes([]string{"pvc", "static"}, "StorageClass efs-sc provisions no volumes"))
		}},
		{"no default class", func(s *scene) {
			s.claim("classless", "")
			s.Until("named", s.causes([]string{"pvc", "classless"}, "The PersistentVolumeClaim names no StorageClass, and no StorageClass is the default."))
		}},
		{"class of a driver that is not installed", func(s *scene) {
			s.Keep(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3"}, Provisioner: "ebs.csi.aws.com"})
			s.claim("disk", "gp3")
			// The PVC asks for ReadWriteMany.
			s.Until("named", s.causes([]string{"pvc", "disk"}, "Driver ebs.csi.aws.com is not installed.",
				"Driver ebs.csi.aws.com refuses access mode ReadWriteMany with volumeMode Filesystem: the driver accepts it with volumeMode Block only."))
		}},
		{"volume of another claim", (*scene).volumeTaken},
		{"claim that does not exist", func(s *scene) {
			pod := env.Application(project, "early", "", "nothing")
			s.T.Cleanup(func() { s.Drop(pod) })
			env.Must(s.T, s.Client.Create(s.T.Context(), pod))
			s.Until("named", s.causes([]string{"pod", "early"}, "PersistentVolumeClaim nothing does not exist."))
		}},
		{"SharedVolume without room in the quota", (*scene).sharedQuota},
		{"SharedVolume that is not allowed any more", (*scene).notAllowed},
		{"quota", (*scene).quota},
		{"SCC", (*scene).scc},
		{"third-party driver", (*scene).thirdParty},
		{"wrong zone", (*scene).wrongZone},
		{"node without plugin", (*scene).withoutPlugin},
		{"network", func(s *scene) {
			s.volume("far", s.system+"::"+s.point, "")
			s.stuck("far", s.workerIn("us-east-1a"), "far", "mount failed: Connection timed out")
			s.Until("named", s.causes([]string{"pod", "far"}, "Node "+s.workerIn("us-east-1a")+" can't reach the mount target"))
		}},
		{"missing mount target", func(s *scene) {
			s.volume("data", s.lame+"::"+s.cloud.AccessPoint(s.lame, nil), "")
			s.stuck("web", s.workerIn("us-east-1c"), "data", "mount failed: Connection timed out")
			// An operator that starts checks AWS at once.
			s.stop()
			s.start()
			s.Until("named for the cluster", s.causes(nil, noTarget))
			s.Until("named for the pod", s.causes([]string{"pod", "web"}, noTarget))
		}},
		{"no right in AWS", (*scene).noIAM},
		{"removal blocked", (*scene).removalBlocked},
		{"canary failed, and status waits", (*scene).canaryFailed},
	} {
		if !t.Run(situation.name, func(t *testing.T) { situation.test(s.in(t)) }) {
			return
		}
		s.Until("the cluster is whole again", s.causes(nil))
	}
}

func (s *scene) noOperator() {
	s.Drop(s.standin)
	s.Until("named", s.causes(nil, "Driver "+efs+" has no operator"))
	again := s.standin.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	env.Must(s.T, s.Client.Create(s.T.Context(), again))
	s.Until("it runs again", s.operatorRuns)
}

func (s *scene) operatorDown() {
	s.Patch(s.standin.DeepCopy(), `{"spec":{"replicas":0}}`)
	s.Until("named", s.causes(nil, "The operator of driver "+efs+" does not run: its Deployment is scaled to 0."))
	s.Patch(s.standin.DeepCopy(), `{"spec":{"replicas":1}}`)
	s.Until("it runs again", s.operatorRuns)
}

func (s *scene) good() map[string]string {
	return map[string]string{"provisioningMode": "efs-ap", "fileSystemId": s.system, "directoryPerms": "700"}
}

func (s *scene) twoDefaults() {
	s.class("one", nil, defaultClass)
	s.class("two", nil, defaultClass)
	s.Until("named", s.causes(nil, "2 StorageClasses are marked as the default"))
}

func (s *scene) wrongParameters() {
	parameters := s.good()
	parameters["provisioningMode"] = "efs-xp"
	delete(parameters, "fileSystemId")
	parameters["fileSystemIdConfigRef"] = "a/b/c"
	s.class("wrong", parameters)
	s.claim("wrong", "wrong")
	s.Until("named", s.causes([]string{"pvc", "wrong"}, "The EFS driver can't provision a volume with the parameters of StorageClass wrong."))
}

func (s *scene) volumeTaken() {
	s.volume("owner", s.system+"::"+s.point, "")
	_, pvc, _ := env.Workload()
	pvc.Name, pvc.Namespace, pvc.Spec.VolumeName = "late", project, project+"-owner"
	s.Keep(pvc)
	s.Until("named", s.causes([]string{"pvc", "late"}, "PersistentVolume "+project+"-owner belongs to another PersistentVolumeClaim, "+project+"/owner."))
}

// allow lists what the namespace of the user may use.
func (s *scene) allow(shares string) {
	s.T.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: project}}
	s.Patch(namespace, `{"metadata":{"annotations":{"`+sharedvolume.AllowedAnnotation+`":"`+shares+`"}}}`)
	s.T.Cleanup(func() { s.Patch(namespace, `{"metadata":{"annotations":{"`+sharedvolume.AllowedAnnotation+`":null}}}`) })
}

func (s *scene) share(name, point string) {
	s.T.Helper()
	s.Keep(&v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: name},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: s.system, AccessPointID: point},
	})
}

func (s *scene) sharedQuota() {
	s.allow("*")
	s.noRoom()
	s.share("full", s.point)
	s.Until("named", s.causes([]string{"sharedvolume", "full"}, "The PVC of the SharedVolume would exceed the quota of the namespace."))
}

func (s *scene) notAllowed() {
	s.allow(s.system + "/" + s.point)
	s.share("listed", s.point)
	s.Until("it is whole at first", s.causes([]string{"sharedvolume", "listed"}))
	s.allow(s.lame + "/*")
	s.Until("named", s.causes([]string{"sharedvolume", "listed"}, "Namespace "+project+" may not use access point "+s.point+"."))
}

// noRoom is a quota of the project for no PVC.
func (s *scene) noRoom() {
	s.T.Helper()
	s.Keep(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"persistentvolumeclaims": resource.MustParse("0")}},
	})
	s.Until("the quota counts", func() error {
		quota := &corev1.ResourceQuota{}
		if err := s.Client.Get(context.Background(), client.ObjectKey{Namespace: project, Name: "none"}, quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
}

func (s *scene) quota() {
	s.noRoom()
	labels := map[string]string{"app": "db"}
	_, pvc, _ := env.Workload()
	template := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: pvc.Spec}
	template.Spec.VolumeName = ""
	pod := env.Application("", "", "")
	s.Keep(&appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{template},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	})
	s.Until("named", s.causes([]string{"pvc", "data-db-0"}, "The quota of namespace "+project+" is exhausted."))
}

// No devcluster has SecurityContextConstraints; the event is that of OpenShift.
func (s *scene) scc() {
	s.event("ReplicaSet", "api", "FailedCreate", `pods "api-" is forbidden: unable to validate against any security context constraint: [provider restricted]`)
	s.Until("named", s.causes([]string{"pod", "api-1"}, "No SecurityContextConstraints of the pod's ServiceAccount allows the pod."))
}

// The driver is one without an operator here: that of EFS would take the CSIDriver back.
func (s *scene) thirdParty() {
	s.Keep(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com", Annotations: map[string]string{
		"meta.helm.sh/release-name": "ebs", "meta.helm.sh/release-namespace": "kube-system",
	}}})
	s.Keep(env.CR("ebs.csi.aws.com", operatorv1.Managed))
	s.Until("named", s.causes(nil, "Driver ebs.csi.aws.com is a third-party driver, installed by Helm release kube-system/ebs."))
}

func (s *scene) wrongZone() {
	s.volume("away", s.system+"::"+s.point, "us-east-1d")
	pod := env.Application(project, "away", "", "away")
	s.T.Cleanup(func() { s.Drop(pod) })
	env.Must(s.T, s.Client.Create(s.T.Context(), pod))
	s.Until("the scheduler has seen it", func() error { return s.HasEvent(context.Background(), pod, "FailedScheduling", "node affinity") })
	s.Until("named", s.causes([]string{"pod", "away"}, "No node that the pod may run on is in the zone of its volumes."))
}

// withoutPlugin has a node of another operating system than the driver's.
func (s *scene) withoutPlugin() {
	like := &corev1.Node{}
	env.Must(s.T, s.Client.Get(s.T.Context(), client.ObjectKey{Name: s.workerIn("us-east-1a")}, like))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other-system", Labels: like.Labels}, Status: like.Status, Spec: corev1.NodeSpec{
		ProviderID: "aws:///us-east-1a/i-other-system",
	}}
	node.Labels[corev1.LabelHostname], node.Labels[corev1.LabelOSStable] = node.Name, "other"
	s.Keep(node)
	s.volume("lonely", s.system+"::"+s.point, "")
	s.stuck("lonely", node.Name, "lonely", "")
	s.Until("named", s.causes([]string{"pod", "lonely"}, "Node other-system has no node pod of driver "+efs))
}

func (s *scene) noIAM() {
	s.volume("seen", s.system+"::"+s.point, "")
	s.cloud.Set(denied("elasticfilesystem:DescribeMountTargets"))
	s.stop()
	s.start()
	s.Until("named", s.causes(nil, "The driver's AWS credentials lack a permission."))
	s.cloud.Set(nil)
	s.stop()
	s.start()
}

func (s *scene) removalBlocked() {
	s.volume("used", s.system+"::"+s.point, "")
	pod := env.Application(project, "user", s.workerIn("us-east-1a"), "used")
	s.T.Cleanup(func() { s.Drop(pod) })
	s.RunPod(s.T, pod)
	s.Patch(env.EFS(""), `{"spec":{"managementState":"Removed"}}`)
	s.T.Cleanup(func() {
		s.Patch(env.EFS(""), `{"spec":{"managementState":"Managed"}}`)
		if err := env.Await(context.Background(), "the driver is managed again", func() error { return s.Settled(context.Background()) }); err != nil {
			s.T.Error(err)
		}
	})
	s.Until("named", s.causes(nil, "The removal of driver "+efs+" waits for pods that use its volumes."))
}

func (s *scene) canaryFailed() {
	env.HoldReadiness(s.T, s.Cluster, predecessors.NodeAccount, "", s.workerIn("us-east-1a"))
	s.Patch(env.EFS(""), `{"spec":{"logLevel":"Debug"}}`)
	s.Until("the canary is tried", func() error {
		return s.Says(context.Background(), efs, "AWSEFSDriverNodeServiceControllerProgressing", "True/TryingCanary")
	})
	named := s.causes(nil, "The new node pod of driver "+efs+" fails on the node where the operator tries it first.")
	s.Until("named, as its image can't be pulled", func() error { return errors.Join(s.pullFails(), named()) })
	s.statusWaits("1s", plugin.Unfinished, "0/1 drivers are available; "+efs+" is Degraded", "run the command again")
	env.ReleaseReadiness(s.T, s.Cluster, env.OperatorNamespace, "efs-csi-node")
	s.statusWaits("1m", 0, efs+"   Available")
}

// statusWaits checks what "status --wait" says within a time, and its exit code.
func (s *scene) statusWaits(limit string, want int, texts ...string) {
	s.T.Helper()
	text, code := run(s.T, s.Kubeconfig(), "status", "--wait", "--timeout", limit)
	for _, part := range texts {
		if code != want || !strings.Contains(text, part) {
			s.T.Errorf("exit code %d, want %d and %q:\n%s", code, want, part, text)
		}
	}
}

// pullFails says of the new node pod what a kubelet says without an image.
func (s *scene) pullFails() error {
	pods := &corev1.PodList{}
	if err := s.Client.List(context.Background(), pods, client.InNamespace(env.OperatorNamespace), client.MatchingLabels{"app": "efs-csi-node"}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if env.IsReady(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "csi-driver", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
		}}
		return s.Client.Status().Update(context.Background(), pod)
	}
	return errors.New("no node pod waits")
}

func TestAUserWithoutRightsIsToldWhichAreMissing(t *testing.T) {
	s := open(t)
	s.Keep(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: "nobody"}})
	kubeconfig, err := s.AccountKubeconfig(t.Context(), project, "nobody")
	env.Must(t, err)
	for _, command := range [][]string{{"doctor"}, {"doctor", "pod", "web"}, {"status"}} {
		text, code := run(t, kubeconfig, command...)
		_, unseen, said := strings.Cut(text, "You lack permission to read ")
		for _, resource := range []string{"csidrivers.storage.k8s.io", "clustercsidrivers.operator.openshift.io"} {
			if !said || !strings.Contains(unseen, resource) {
				t.Errorf("%v does not say %q:\n%s", command, resource, text)
			}
		}
		if want := map[bool]int{true: plugin.Failed}[command[0] == "doctor"]; code != want || strings.Contains(text, "ERROR") {
			t.Errorf("%v: exit code %d:\n%s", command, code, text)
		}
	}
}

func TestAnAPIServerThatIsAwayIsNamed(t *testing.T) {
	address, err := env.FreeAddress(t.Context())
	env.Must(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	env.Must(t, os.WriteFile(file, []byte(strings.ReplaceAll(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://ADDRESS", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, "ADDRESS", address)), 0o600))
	text, code := run(t, file, "doctor")
	if code != plugin.Failed || strings.Count(text, "ERROR") != 1 || !strings.Contains(text, "The API server of your kubeconfig cannot be reached.") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if text, code = run(t, file, "status"); code != plugin.Failed || !strings.Contains(text, "the API server of your kubeconfig does not answer") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}
