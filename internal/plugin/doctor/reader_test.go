package doctor

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A reader who asks about the whole cluster must not take "nothing wrong" for a word about each PVC.
func TestACheckOfTheClusterSaysHowManyPVCsAreNotBound(t *testing.T) {
	s := open(t)
	s.add(claimOf("new", "efs", ""), claimOf("other", "efs", ""))
	text, code := s.ask("table")
	for _, want := range []string{
		"Not Bound, and not checked: my-project/new, my-project/other. Run doctor for each:\n  oc storage doctor pvc new -n my-project\n",
		"found nothing wrong, and none looked at 2 PersistentVolumeClaims not in phase Bound.",
	} {
		if !strings.Contains(text, want) || code != 0 {
			t.Errorf("exit %d, want %q:\n%s", code, want, text)
		}
	}
	if text, _ := s.ask("json"); !strings.Contains(text, `"my-project/other"`) {
		t.Error(text)
	}
	if text, _ := open(t).ask("table"); strings.Contains(text, "Bound") {
		t.Errorf("all PVCs are Bound:\n%s", text)
	}
}

// Where doctor compares objects, line "said" has what it compared.
func TestAComparisonShowsItsValues(t *testing.T) {
	pending := func(class string, do ...func(*corev1.PersistentVolumeClaim)) func(*scene) {
		return func(s *scene) {
			one := claimOf("new", class, "")
			for _, each := range do {
				each(one)
			}
			s.add(one)
		}
	}
	for name, tc := range map[string]struct {
		fault func(*scene)
		args  []string
		want  []string
	}{
		"access mode": {pending("efs", func(one *corev1.PersistentVolumeClaim) {
			one.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		}), []string{"pvc", "new"}, []string{"said     PersistentVolumeClaim: accessModes ReadOnlyMany, volumeMode Filesystem"}},
		"attribute": {func(s *scene) {
			change(s, "pv-data", func(one *corev1.PersistentVolume) {
				one.Spec.CSI.VolumeAttributes, one.Spec.MountOptions = map[string]string{"mounttargetip": "a.name"}, []string{"tls"}
			})
			s.stuck("a")
		}, []string{"pod", "web"}, []string{`mounttargetip "a.name", mountOptions ["tls"]`}},
		"class": {pending("gone"), []string{"pvc", "new"}, []string{`said     storageClassName: "gone"`}},
		"no class": {func(s *scene) {
			pending("")(s)
			change(s, "other", func(class *storagev1.StorageClass) { class.Annotations = nil })
		}, []string{"pvc", "new"}, []string{"said     storageClassName: none"}},
		"volume": {pending("efs", func(one *corev1.PersistentVolumeClaim) { one.Spec.VolumeName = "gone" }),
			[]string{"pvc", "new"}, []string{`said     volumeName: "gone"`}},
		"volume of another PVC": {pending("efs", func(one *corev1.PersistentVolumeClaim) { one.Spec.VolumeName = "pv-data" }),
			[]string{"pvc", "new"}, []string{`said     volumeName: "pv-data"; claimRef of the volume: my-project/data`}},
		"class of a volume without a class": {func(s *scene) {
			pending("efs", func(one *corev1.PersistentVolumeClaim) { one.Spec.VolumeName = "pv-new" })(s)
			free := volumeOf("pv-new", "new")
			free.Spec.ClaimRef, free.Status.Phase = nil, corev1.VolumeAvailable
			s.add(free)
		}, []string{"pvc", "new"}, []string{`said     storageClassName "efs" of the claim, "" of the volume`, `the line storageClassName: "".`}},
		"driver": {pending("other"), []string{"pvc", "new"}, []string{"StorageClass other has provisioner disk.example.com, and the cluster has no CSIDriver of this name"}},
		"in-tree class": {func(s *scene) {
			pending("other")(s)
			change(s, "other", func(class *storagev1.StorageClass) { class.Provisioner = "kubernetes.io/aws-ebs" })
		}, []string{"pvc", "new"}, []string{
			"StorageClass other has provisioner kubernetes.io/aws-ebs, which driver ebs.csi.aws.com replaces, and the cluster has no CSIDriver of this name",
			"Driver ebs.csi.aws.com is not installed.",
		}},
		"registration": {func(s *scene) {
			change(s, "a", func(one *storagev1.CSINode) {
				one.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "other.example.com"}}
			})
			s.stuck("a")
		}, []string{"pod", "web"}, []string{"said     drivers of the CSINode: other.example.com"}},
		"two volumes of one handle": {func(s *scene) {
			s.add(claimOf("second", "efs", "pv-second"), volumeOf("pv-second", "second"))
			s.stuck("a", "Unable to attach or mount volumes: timed out waiting for the condition")
			change(s, "web", func(one *corev1.Pod) {
				one.Spec.Volumes = append(one.Spec.Volumes, corev1.Volume{Name: "second", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "second"},
				}})
			})
		}, []string{"pod", "web"}, []string{"pv-data and pv-second, which have the same volumeHandle", "said     volumeHandle: " + system + "::" + point}},
	} {
		s := open(t)
		tc.fault(s)
		text, code := s.ask("table", tc.args...)
		for _, want := range tc.want {
			if code != 3 || !strings.Contains(text, want) {
				t.Errorf("%s: exit %d, want %q:\n%s", name, code, want, text)
			}
		}
	}
}

// The page of an unreachable mount target is about security groups, not about missing mount targets.
func TestAnUnreachableMountTargetLeadsToItsSecurityGroup(t *testing.T) {
	s := open(t)
	s.stuck("a", "MountVolume.SetUp failed: rpc error: code = DeadlineExceeded desc = context deadline exceeded")
	if text, _ := s.ask("table", "pod", "web"); !strings.Contains(text, "prepare-a-file-system.md#security-group") {
		t.Error(text)
	}
}

func TestOLMSaysWhetherTheOperatorIsInstalled(t *testing.T) {
	waits := strings.NewReplacer("approved: true", "approved: false", "Complete", "RequiresApproval")
	for name, tc := range map[string]struct {
		change func(*scene)
		text   *strings.Replacer
		want   string
	}{
		"it runs": {func(*scene) {}, waits, "Version v1 is installed, and the operator runs."},
		"it is gone": {func(s *scene) { drop[*appsv1.Deployment](s, operator) }, waits,
			"The operator is not installed, although OLM has installed version v1 before."},
		"it does not run": {func(s *scene) {
			change(s, operator, func(one *appsv1.Deployment) { one.Status.AvailableReplicas = 0 })
		}, waits, "The operator has a Deployment, but no ready pod."},
		"it never was": {func(s *scene) { drop[*appsv1.Deployment](s, operator) }, strings.NewReplacer("approved: true", "approved: false",
			"Complete", "RequiresApproval", "installedCSV: v1, ", ""), "The operator is not installed."},
		"its version is lost": {func(s *scene) { drop[*appsv1.Deployment](s, operator) }, strings.NewReplacer("name: v2}", "name: v0}",
			"installedCSV: v1, ", ""), "is Complete, but ClusterServiceVersion v2 does not exist."},
	} {
		s := open(t)
		tc.change(s)
		s.add(ofOLM(t, tc.text.Replace(strings.Join([]string{catalogYAML, groupYAML, planYAML, subscriptionYAML, versionYAML}, "---")))...)
		if text, code := s.ask("table"); code != 3 || !strings.Contains(text, tc.want) {
			t.Errorf("%s: exit %d, want %q:\n%s", name, code, tc.want, text)
		}
	}
}
