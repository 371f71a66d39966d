package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/internal/testing/gobuild"
)

// statistics is how long the statistics of a mount are on a node: about 70 kinds of requests.
func statistics(target string) string {
	text := "device 127.0.0.1:/ mounted on " + target + " with fstype nfs4 statvers=1.1\n" +
		"\topts:\trw,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,hard,noresvport,proto=tcp,port=20147,timeo=600\n\tage:\t7201\n" +
		"\tnfsv4:\tbm0=0xfdffbfff,bm1=0xf9be3e,bm2=0x800,acl=0x0,sessions,pnfs=not configured,lease_time=90,lease_expired=0\n" +
		"\txprt:\ttcp 0 0 2 0 0 431 428 0 433 0 3 5 210\n\tper-op statistics\n"
	for i := range 70 {
		text += fmt.Sprintf("\t%12s: 1200 1202 0 880000 35200 12 90100 120300 0\n", fmt.Sprint("OPERATION", i))
	}
	return text + "\n"
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// node makes the files of a node with mounts of EFS and with processes. The first mount has no tunnel.
func node(t *testing.T, mounts, processes int) (proc, states, cgroups string) {
	t.Helper()
	folder := t.TempDir()
	proc, states, cgroups = filepath.Join(folder, "proc"), filepath.Join(folder, "efs"), filepath.Join(folder, "cgroup")
	var info, stats strings.Builder
	write(t, filepath.Join(cgroups, "kubepods.slice/cgroup.events"), "populated 1\n")
	for i := range mounts {
		pod := fmt.Sprintf("2c7bf0b0-0d66-4c1f-9d5e-%012d", i)
		target := "/var/lib/kubelet/pods/" + pod + "/volumes/kubernetes.io~csi/pvc-" + strconv.Itoa(i) + "/mount"
		fmt.Fprintf(&info, "%d 22 0:%d / %s rw,relatime shared:4 - nfs4 127.0.0.1:/ rw,vers=4.1,port=%d,addr=127.0.0.1\n", 100+i, 100+i, target, 20000+i)
		stats.WriteString(statistics(target))
		name := fmt.Sprintf("fs-0123456789abcdef0.x.%d", 20000+i)
		write(t, filepath.Join(states, name), `{"pid": 17, "cmd": ["/usr/sbin/efs-proxy"], "mount_time": 1.5}`)
		slice := "kubepods.slice/kubepods-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice"
		write(t, filepath.Join(cgroups, slice, "cgroup.events"), "populated 1\n")
		if i > 0 {
			process(t, proc, 5000+i, "efs-proxy", "/usr/sbin/efs-proxy\x00/var/run/efs/stunnel-config."+name)
		}
	}
	for i := range processes {
		process(t, proc, 10000+i, "other", "/usr/bin/other")
	}
	process(t, proc, 1, "systemd", "/sbin/init")
	write(t, filepath.Join(proc, "1/mountinfo"), info.String())
	write(t, filepath.Join(proc, "1/mountstats"), stats.String())
	return proc, states, cgroups
}

func process(t *testing.T, proc string, pid int, name, command string) {
	t.Helper()
	folder := filepath.Join(proc, strconv.Itoa(pid))
	write(t, filepath.Join(folder, "comm"), name+"\n")
	write(t, filepath.Join(folder, "cmdline"), command+"\x00")
	write(t, filepath.Join(folder, "stat"), fmt.Sprintf("%d (%s) S 2 %s 4711 0\n", pid, name, strings.Repeat("0 ", 17)))
	write(t, filepath.Join(folder, "cgroup"), "0::/system.slice/x.service\n")
}

func TestOnceNamesTheMountThatHasNoTunnel(t *testing.T) {
	proc, states, cgroups := node(t, 3, 10)
	write(t, filepath.Join(proc, "1/mountstats"), strings.ReplaceAll(readFile(t, filepath.Join(proc, "1/mountstats")), "expired=0", "expired=120"))
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"once", "-interval=1s", "-proc", proc, "-states", states, "-cgroups", cgroups}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"efs_node_mounts 3", `efs_node_mount_problems{problem="stalled"} 3`, `volume="pvc-0",pod_uid="2c7bf0b0-0d66-4c1f-9d5e-000000000000"} 120`} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"stop"}, {"start", "more"}, {"start", "-interval=1ms"}, {"start", "-listen=nowhere"}} {
		if err := run(t.Context(), io.Discard, args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// A node pays for the program all the time: at most 15 MiB with 100 mounts and 1,000 processes. The bench measures the processor time of a reading.
func TestTheProgramIsSmall(t *testing.T) {
	proc, states, cgroups := node(t, 100, 1000)
	program := filepath.Join(t.TempDir(), "program")
	if text, err := exec.Command("go", "build", "-ldflags=-w", "-toolexec", gobuild.LinkCache(), "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	command := exec.CommandContext(ctx, program, "start", "-interval=1s", "-listen=127.0.0.1:18214", "-proc", proc, "-states", states, "-cgroups", cgroups)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer command.Wait()
	readings := 0
	for deadline := time.Now().Add(time.Minute); readings < 5; {
		if time.Now().After(deadline) {
			t.Fatalf("%d readings in a minute", readings)
		}
		if response, err := http.Get("http://127.0.0.1:18214/metrics"); err == nil {
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			_, after, _ := strings.Cut(string(text), `efs_node_readings_total{result="read"} `)
			number, _, _ := strings.Cut(after, "\n")
			readings, _ = strconv.Atoi(number)
		}
		<-time.After(100 * time.Millisecond)
	}
	_, after, _ := strings.Cut(readFile(t, fmt.Sprintf("/proc/%d/status", command.Process.Pid)), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	stop()
	_ = command.Wait()
	t.Logf("%d kB at most", kilobytes)
	if kilobytes > 15<<10 {
		t.Errorf("%d kB, want at most %d", kilobytes, 15<<10)
	}
}
