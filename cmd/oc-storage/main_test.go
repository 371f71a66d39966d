package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/volumetest"
	released "github.com/csi-operators/csi-operators/internal/release"
)

func TestEveryCommandHasHelpAndNamesItselfAsItIsCalled(t *testing.T) {
	for _, line := range []string{
		"install efs", "uninstall efs", "migrate plan", "migrate status", "rollout status", "rollout resume", "share create", "share list", "share explain",
		"share revoke", "collect", "leftovers", "efs cleanup", "efs create", "iam policy", "iam trust-policy", "test",
	} {
		var out bytes.Buffer
		args := append([]string{"/usr/bin/kubectl-storage"}, strings.Fields(line)...)
		if err := run(t.Context(), nil, append(args, "--help"), genericiooptions.IOStreams{Out: &out, ErrOut: &out}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if !strings.Contains(out.String(), "kubectl storage "+line) {
			t.Errorf("help of %s:\n%s", line, out.String())
		}
	}
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{Out: &out, ErrOut: io.Discard}
	if err := run(t.Context(), nil, []string{"oc-storage", "__complete", "share", "re"}, streams); err != nil || !strings.HasPrefix(out.String(), "revoke\t") {
		t.Errorf("completion: %v, %q", err, out.String())
	}
	none := filepath.Join(t.TempDir(), "none")
	if err := run(t.Context(), nil, []string{"oc-storage", "migrate", "plan", "--kubeconfig", none}, streams); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("a plan of a cluster that is not configured: %v", err)
	}
	out.Reset()
	err := run(t.Context(), nil, []string{"oc-storage.exe", "nothing"}, genericiooptions.IOStreams{Out: &out, ErrOut: &out})
	if err == nil || err.Error() != `unknown command "nothing" for "oc storage": -h lists the commands` || plugin.Code(err) != plugin.WrongUsage {
		t.Error(err)
	}
}

// The pods of "oc storage test" run the image that the release of the plugin has.
func TestTheImageOfTestsIsThatOfTheRelease(t *testing.T) {
	current, err := released.Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	image, err := current.Find(released.Plugin)
	if want := volumetest.Image + ":" + current.Tag(); err != nil || image.Image != want {
		t.Errorf("image %q (%v), want %q", image.Image, err, want)
	}
}

func TestTheFirstSignalInterruptsAndTheSecondStops(t *testing.T) {
	signals := make(chan os.Signal)
	ctx, stopped := interruptible(t.Context(), signals)
	signals <- os.Interrupt
	<-ctx.Done()
	select {
	case <-stopped:
		t.Error("the first signal stops")
	default:
	}
	signals <- os.Interrupt
	<-stopped
}
