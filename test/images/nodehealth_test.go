package images

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/test/env"
)

// nodeHealth is the program that runs on nodes, with setting WATCH_MOUNTS.
const nodeHealth = "aws-efs-node-health"

// watches lets the program of an image read the flags of its DaemonSet, which has no command: the image's entrypoint starts the program.
func watches(t *testing.T, tree string, built v1.Image) {
	t.Helper()
	config, err := built.ConfigFile()
	env.Must(t, err)
	container := nodeHealthContainer(t)
	if len(container.Command) > 0 || len(container.Args) < 2 {
		t.Fatalf("command %q, arguments %q", container.Command, container.Args)
	}
	if user := container.SecurityContext.RunAsUser; user == nil || *user != 0 {
		t.Errorf("the user is %v: only root may read the statistics of mounts, and the image has another user", user)
	}
	for name, args := range map[string][]string{"": container.Args, "-no-such-flag": append(slices.Clone(container.Args), "-no-such-flag")} {
		output, err := exec.CommandContext(t.Context(), filepath.Join(tree, config.Config.Entrypoint[0]), append(args, "-h")...).CombinedOutput()
		if refused := strings.Contains(string(output), "not defined: -no-such-flag"); refused != (name != "") || (err != nil) != refused {
			t.Errorf("%q: %v\n%s", args, err, output)
		}
	}
}

// nodeHealthContainer is the container of the DaemonSet that runs the program.
func nodeHealthContainer(t *testing.T) corev1.Container {
	t.Helper()
	text, err := fs.ReadFile(awsefs.Driver().Assets, "assets/nodehealth.yaml")
	env.Must(t, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if !strings.Contains(document, "\nkind: DaemonSet\n") {
			continue
		}
		daemonSet := &appsv1.DaemonSet{}
		env.Must(t, yaml.Unmarshal([]byte(document), daemonSet))
		return daemonSet.Spec.Template.Spec.Containers[0]
	}
	t.Fatal("nodehealth.yaml has no DaemonSet")
	return corev1.Container{}
}
