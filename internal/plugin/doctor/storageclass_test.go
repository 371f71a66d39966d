package doctor

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAClassIsComparedWithItsDriverAndItsClaims(t *testing.T) {
	type class = storagev1.StorageClass
	efsOf := func(parameters ...string) map[string]string {
		made := map[string]string{"provisioningMode": "efs-ap", "fileSystemId": system, "directoryPerms": "700"}
		for i := 0; i+1 < len(parameters); i += 2 {
			made[parameters[i]] = parameters[i+1]
		}
		return made
	}
	yes := true
	long := strings.Repeat("p", 70)
	for name, tc := range map[string]struct {
		class *class
		add   func(*scene)
		want  []string
		code  int
	}{
		"healthy":     {&class{Provisioner: efsName, Parameters: efsOf()}, nil, []string{"StorageClass new", "found nothing wrong"}, 0},
		"joins only":  {&class{Provisioner: efsName}, nil, []string{"found nothing wrong"}, 0},
		"a wrong one": {&class{Provisioner: efsName, Parameters: efsOf("directoryPerms", "rwx")}, nil, []string{`ERROR `, `parameter directoryPerms is "rwx"`}, 3},
		"grows":       {&class{Provisioner: efsName, Parameters: efsOf(), AllowVolumeExpansion: &yes}, nil, []string{"can't expand volumes"}, 3},
		"a long path": {&class{Provisioner: efsName, Parameters: efsOf("basePath", "/"+long, "subPathPattern", "${.PVC.name}")}, nil,
			[]string{"its path has 110 characters, and EFS allows 100"}, 3},
		"deep": {&class{Provisioner: efsName, Parameters: efsOf("basePath", "/a/b/c/d", "subPathPattern", "${.PVC.namespace}/${.PVC.name}")}, nil,
			[]string{"its path has 6 levels, and EFS allows 5"}, 3},
		"another driver": {&class{Provisioner: "ebs.csi.aws.com", Parameters: map[string]string{"encrypted": "true", "Type": "gp3", "no": "x"}}, nil,
			[]string{"Driver ebs.csi.aws.com, which provisions volumes of StorageClass new, is not installed.", "has parameter no, which driver ebs.csi.aws.com does not know"}, 3},
		"a value": {&class{Provisioner: "manila.csi.openstack.org", Parameters: map[string]string{"Protocol": "smtp"}}, nil,
			[]string{"Driver manila.csi.openstack.org refuses parameter Protocol of StorageClass new."}, 3},
		"default": {&class{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: efsName, Parameters: efsOf()}, func(s *scene) { drop[*storagev1.StorageClass](s, "other") }, []string{"INFO     StorageClass new is the default"}, 0},
		"two defaults": {&class{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: efsName, Parameters: efsOf()}, nil, []string{"one of 2 classes that are marked as the default"}, 3},
		"waiting": {&class{Provisioner: efsName, Parameters: efsOf()}, func(s *scene) { s.add(claimOf("a", "new", ""), claimOf("b", "new", "")) },
			[]string{"StorageClass new has 2 PersistentVolumeClaims not in phase Bound.", "my-project/a, my-project/b", "oc storage doctor pvc a -n my-project"}, 3},
	} {
		s := open(t)
		if tc.class.Name = "new"; tc.add != nil {
			tc.add(s)
		}
		s.add(tc.class)
		got, code := s.ask("table", "class", "new")
		for _, want := range tc.want {
			if code != tc.code || !strings.Contains(got, want) {
				t.Errorf("%s: exit %d, want %d and %q:\n%s", name, code, tc.code, want, got)
			}
		}
	}
	if got, code := open(t).ask("table", "sc/absent"); code != 3 || !strings.Contains(got, "StorageClass absent does not exist.") {
		t.Errorf("exit %d:\n%s", code, got)
	}
}

// aws-efs-csi-driver#1187. The suffix that makes a directory unique has 37 characters.
func TestAClaimWithALongPathIsNamedBeforeTheDriverRefusesIt(t *testing.T) {
	parameters := map[string]string{
		"provisioningMode": "efs-ap", "fileSystemId": system, "directoryPerms": "700",
		"basePath": "/dynamic_provisioning", "subPathPattern": "${.PVC.namespace}/${.PVC.name}",
	}
	for name, long := range map[string]bool{"short": false, strings.Repeat("n", 30): false, strings.Repeat("n", 31): true} {
		for _, unique := range []string{"", "true", "false"} {
			s := open(t)
			parameters["ensureUniqueDirectory"] = unique
			s.add(&storagev1.StorageClass{ObjectMeta: named("", "new"), Provisioner: efsName, Parameters: parameters}, claimOf(name, "new", ""))
			got, _ := s.ask("table", "pvc", name)
			if has := strings.Contains(got, "its path has 101 characters, and EFS allows 100"); has != (long && unique != "false") {
				t.Errorf("a name of %d letters, unique %q:\n%s", len(name), unique, got)
			}
		}
	}
}

// The fault of a full disk is only in the log.
func TestAFullDiskIsReadFromTheLogOfTheNode(t *testing.T) {
	s := open(t)
	s.stuck("a", `MountVolume.SetUp failed for volume "pv-data" : mount failed: exit status 1`)
	s.log[daemonSet+"-a"] = "OSError: [Errno 28] No space left on device: '/var/run/efs/stunnel-config." + system + ".1' failed"
	got, code := s.ask("table", "pod", "web")
	if code != 3 || !strings.Contains(got, "ERROR    A disk of node a is full") || strings.Contains(got, "UNKNOWN") ||
		!strings.Contains(got, "oc debug node/a -- chroot /host sh -c 'df -h; df -i'") {
		t.Errorf("exit %d:\n%s", code, got)
	}
	s.log[daemonSet+"-a"] = "error: mount of " + system + " ended"
	if got, _ = s.ask("table", "pod", "web"); !strings.Contains(got, "UNKNOWN") || strings.Index(got, "mount of") > strings.Index(got, "  do  ") {
		t.Errorf("the log is not beside what doctor does not know:\n%s", got)
	}
}

func TestALongTextIsClippedBetweenWords(t *testing.T) {
	text := strings.Repeat("word ", 200)
	if got := clip(text); !strings.Contains(got, "word … word") || len(got) > 410 {
		t.Errorf("%q", got)
	}
	if text := strings.Repeat("word ", 95); clip(text) != strings.TrimSpace(text) {
		t.Error("a text is clipped to spare a few letters")
	}
}
