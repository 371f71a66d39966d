package plugin_test

import (
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/collect"
	"github.com/csi-operators/csi-operators/internal/plugin/doctor"
	"github.com/csi-operators/csi-operators/internal/plugin/drivers"
	"github.com/csi-operators/csi-operators/internal/plugin/install"
	"github.com/csi-operators/csi-operators/internal/plugin/share"
	"github.com/csi-operators/csi-operators/internal/testing/plugintest"
)

func at(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// oc and kubectl ask with the words that the user has typed so far, an empty one at the end included.
func TestNamesOfTheClusterAreCompleted(t *testing.T) {
	project := &corev1.Namespace{ObjectMeta: at("", "my-project")}
	project.Annotations = map[string]string{efs.AllowedAnnotation: "fs-0a0a0a0a/fsap-0a0a0a0a, *"}
	shared := &v1alpha1.SharedVolume{ObjectMeta: at("my-project", "reports")}
	shared.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: "fs-0b0b0b0b", AccessPointID: "fsap-0b0b0b0b"}
	class := &storagev1.StorageClass{
		ObjectMeta: at("", "efs"), Provisioner: efs.DriverName, Parameters: map[string]string{"fileSystemId": "fs-0c0c0c0c"},
	}
	cluster := plugintest.Cluster(t,
		project, &corev1.Namespace{ObjectMeta: at("", "other")},
		&corev1.Node{ObjectMeta: at("", "worker-1")}, &corev1.Pod{ObjectMeta: at("my-project", "web-0")}, &corev1.Pod{ObjectMeta: at("other", "web-1")},
		&corev1.PersistentVolumeClaim{ObjectMeta: at("my-project", "data")}, shared, &operatorv1.ClusterCSIDriver{ObjectMeta: at("", "ebs.csi.aws.com")},
		&corev1.PersistentVolume{ObjectMeta: at("", "pv")}, class,
		&storagev1.CSIDriver{ObjectMeta: at("", "efs.csi.aws.com")})
	for line, want := range map[string]string{
		"doctor |p":                     "pod pv pvc",
		"doctor |c":                     "class",
		"doctor |class|":                "efs",
		"doctor |pod|":                  "web-0",
		"doctor |pvc|d":                 "data",
		"doctor |pvc/":                  "pvc/data",
		"doctor |sv|":                   "reports",
		"doctor |node|":                 "worker-1",
		"doctor |node|worker-1|":        "",
		"doctor |nothing|":              "",
		"doctor |-n|o":                  "other",
		"doctor |--namespace=m":         "my-project",
		"doctor |-o|":                   "json table wide yaml",
		"share|revoke|":                 "reports",
		"share|revoke|x":                "",
		"share|re":                      "revoke",
		"status|":                       "ebs.csi.aws.com efs.csi.aws.com",
		"status|efs.csi.aws.com|":       "ebs.csi.aws.com",
		"share|create|x|--file-system|": "fs-0a0a0a0a fs-0b0b0b0b fs-0c0c0c0c",
		"share|create|x|--file-system|fs-0a0a0a0a|--access-point|": "fsap-0a0a0a0a",
		"share|explain|--access-point|fsap-0b":                     "fsap-0b0b0b0b",
		"collect|--node|":                                          "worker-1",
		"install|efs|--partition|":                                 "aws aws-cn aws-eusc aws-iso aws-iso-b aws-iso-e aws-iso-f aws-us-gov",
		"install|efs|--operator-namespace|m":                       "my-project",
		"install|efs|--role-arn|":                                  "",
	} {
		args := append([]string{"__complete"}, strings.Split(strings.ReplaceAll(line, " |", "|"), "|")...)
		got := plugintest.Run(t, cluster, "", func(p *plugin.Plugin) *cobra.Command {
			for _, command := range []*cobra.Command{doctor.Command(p), share.Command(p), collect.Command(p), install.Command(p), drivers.Command(p)} {
				if command.Name() == args[1] {
					return command
				}
			}
			return nil
		}, args...)
		var names []string
		for one := range strings.Lines(got.Out) {
			name, _, _ := strings.Cut(strings.TrimSpace(one), "\t")
			names = append(names, name)
		}
		// The last line is the directive: 4 offers no files.
		if last := names[len(names)-1]; last != ":4" {
			t.Errorf("%s: directive %s", line, last)
		}
		names = names[:len(names)-1]
		slices.Sort(names)
		if text := strings.Join(names, " "); text != want {
			t.Errorf("%s: %q, want %q", line, text, want)
		}
	}
	for _, kind := range []string{"PersistentVolume", "CSIDriver"} {
		if names := plugintest.Plugin(t, cluster, "").Names(t.Context(), "", kind); len(names) != 1 {
			t.Errorf("%s: %q", kind, names)
		}
	}
}
