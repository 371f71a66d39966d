package real

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// The driver of these tests passes the official test of CSI drivers with all that the three real ones can do: one that accepted more than
// the specification allows would hide what sidecars do wrong.
func TestTheDriverFollowsTheSpecification(t *testing.T) {
	t.Run("without storage", func(t *testing.T) { sanity(t) })
	// On real nodes it keeps what is written, as "make certify" wants: csi-sanity mounts, grows and copies volumes.
	t.Run("with disks", func(t *testing.T) {
		lacks := exec.CommandContext(t.Context(), "sh", "-c", "test $(id -u) = 0 && test -c /dev/loop-control && command -v mkfs.ext4 resize2fs")
		if err := lacks.Run(); err != nil {
			t.Skip("disks need root on Linux, loop devices, and the package e2fsprogs")
		}
		sanity(t, "--disks", "--storage="+filepath.Join(t.TempDir(), "volumes"))
	})
}

// sanity runs csi-sanity against a driver with these flags.
func sanity(t *testing.T, flags ...string) {
	t.Helper()
	binary, err := env.Binary("real/csidriver")
	env.Must(t, err)
	program, err := env.Binary("real/csi-sanity")
	env.Must(t, err)
	folder, err := os.MkdirTemp(suite.folder, "")
	env.Must(t, err)
	var capabilities []string
	for _, profile := range suite.profiles {
		capabilities = append(capabilities, profile.Capabilities...)
	}
	slices.Sort(capabilities)
	socket := filepath.Join(folder, "csi.sock")
	driver, err := env.RunExactly(binary, append([]string{
		"--endpoint=" + socket, "--name=sanity.example", "--node=sanity", "--topology=zone=a",
		"--capabilities=" + strings.Join(slices.Compact(capabilities), ","),
	}, flags...), []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
	env.Must(t, err)
	t.Cleanup(func() { _ = driver.Stop() })
	parameters := filepath.Join(folder, "mutable.yaml")
	env.Must(t, os.WriteFile(parameters, []byte("iops: \"100\"\n"), 0o600))
	command := exec.CommandContext(t.Context(), program, "--csi.endpoint=unix://"+socket, "--csi.testvolumemutableparameters="+parameters,
		"--csi.mountdir="+filepath.Join(folder, "target"), "--csi.stagingdir="+filepath.Join(folder, "staging"))
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "SUCCESS!") {
		t.Errorf("csi-sanity: %v\n%s\nthe driver printed:\n%s", err, output, env.LastLines(driver.Output()))
	}
}
