package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/test/env"
)

// asDemo makes the program of these tests the demonstration's own, as "make demo" starts it.
const asDemo = "CSI_OPERATORS_DEMO"

func TestMain(m *testing.M) {
	// The tests start themselves once more, with the flags of the demonstration.
	if os.Getenv(asDemo) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Ctrl-C ends the demonstration at any step, and everything that it has started.
func TestCtrlCLeavesNothing(t *testing.T) {
	for name, one := range map[string]struct {
		flags []string
		// at is what the demonstration prints before Ctrl-C comes.
		at         string
		real, soak bool
	}{
		"while the release is applied":    {flags: []string{"-platform", "GCP", "-real", "0"}, at: "Applying the manifests"},
		"while the cluster starts":        {flags: []string{"-real", "0"}, at: "Starting a cluster", soak: true},
		"beside the operator":             {flags: []string{"-real", "0"}, at: "Creating ClusterCSIDriver", soak: true},
		"beside an operator that is kept": {flags: []string{"-real", "0", "-keep"}, at: "Creating ClusterCSIDriver", soak: true},
		"beside a cloud that is kept":     {flags: []string{"-platform", "OpenStack", "-real", "0", "-keep"}, at: "Applying the manifests", soak: true},
		"while real nodes start":          {flags: []string{"-real", "1"}, at: "Starting a cluster", real: true, soak: true},
		"while real nodes get images":     {flags: []string{"-platform", "GCP", "-real", "1"}, at: "Loading the images", real: true, soak: true},
		"while real pods use a volume":    {flags: []string{"-real", "1"}, at: "in use last", real: true, soak: true},
		"beside real nodes that are kept": {flags: []string{"-real", "1", "-keep"}, at: "Installing the operator", real: true, soak: true},
	} {
		t.Run(name, func(t *testing.T) {
			if one.soak {
				env.OnlySoak(t)
			}
			if one.real {
				realPods(t)
			}
			p := start(t, one.flags...)
			if err := p.await(one.at); err != nil {
				t.Fatal(err)
			}
			cluster := p.cluster()
			// A terminal sends it to all processes in the foreground.
			env.Must(t, syscall.Kill(-p.command.Process.Pid, syscall.SIGINT))
			if err := p.end(); err == nil || !strings.Contains(p.printed.String(), "interrupted") {
				t.Errorf("after Ctrl-C it ends with %v and prints:\n%s", err, p.printed.String())
			}
			p.gone(cluster)
		})
	}
}

// With KEEP=1 the cluster, its operators and its cloud stay, and the printed commands end all of them.
func TestWhatIsKeptEndsByThePrintedCommands(t *testing.T) {
	for name, one := range map[string]struct {
		flags      []string
		real, soak bool
	}{
		// Both of its drivers ask the cloud.
		"a platform with a cloud": {flags: []string{"-platform", "OpenStack", "-nodes", "3", "-real", "0"}},
		"a vCenter":               {flags: []string{"-platform", "VSphere", "-real", "0"}, soak: true},
		"the operator of EFS":     {flags: []string{"-real", "0"}, soak: true},
		"real nodes":              {flags: []string{"-platform", "AWS", "-real", "1"}, real: true, soak: true},
	} {
		t.Run(name, func(t *testing.T) {
			if one.soak {
				env.OnlySoak(t)
			}
			if one.real {
				realPods(t)
			}
			p := start(t, append(one.flags, "-keep")...)
			if err := p.end(); err != nil {
				t.Fatalf("%v\n%s", err, p.printed.String())
			}
			cluster := p.cluster()
			root, err := env.Root()
			env.Must(t, err)
			// A block with a variable and three commands to look around, and at the end the command that ends all.
			text := strings.TrimSpace(p.printed.String()[strings.LastIndex(p.printed.String(), "\nexport "):])
			block, _, _ := strings.Cut(text, "\n\n")
			end := text[strings.LastIndex(text, "\n")+1:]
			shell := func(command string) string {
				t.Helper()
				run := exec.CommandContext(t.Context(), "bash", "-c", command)
				run.Dir = root
				output, err := run.CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v\n%s", command, err, output)
				}
				return string(output)
			}
			said := shell(block)
			if strings.Contains(block, "sharedvolume") && !regexp.MustCompile(`persistentvolumeclaim/pvc-sv1 +Bound`).MatchString(said) {
				t.Errorf("the PVC of a reader is not bound:\n%s", said)
			}
			shell(end)
			p.gone(cluster)
		})
	}
}

// realPods skips a test where pods can't be real, and says why.
func realPods(t *testing.T) {
	t.Helper()
	missing, err := env.RealNodesMissing(t.Context())
	env.Must(t, err)
	if _, images := env.Binary("node/images"); missing == "" && images != nil {
		missing = images.Error()
	}
	if missing != "" {
		t.Skip(missing)
	}
}

// running is a demonstration that is a process of its own.
type running struct {
	t       *testing.T
	command *exec.Cmd
	// home has all that it writes.
	home    string
	lines   *bufio.Scanner
	printed bytes.Buffer
}

// start starts a demonstration in a process group, as a shell does.
func start(t *testing.T, flags ...string) *running {
	t.Helper()
	p := &running{t: t, home: t.TempDir()}
	p.command = exec.Command(os.Args[0], append(flags, "-dir", filepath.Join(p.home, "kept"))...) //nolint:noctx // p.end waits for it.
	p.command.Env = append(os.Environ(), asDemo+"=1", "TMPDIR="+p.home)
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := p.command.StdoutPipe()
	env.Must(t, err)
	p.command.Stderr = p.command.Stdout
	env.Must(t, p.command.Start())
	p.lines = bufio.NewScanner(output)
	t.Cleanup(func() {
		// The test has failed: nothing that it has started may disturb the next one.
		for _, pid := range p.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return p
}

// await returns when the demonstration prints a text.
func (p *running) await(text string) error {
	for text != "" && p.lines.Scan() {
		p.printed.WriteString(p.lines.Text() + "\n")
		if strings.Contains(p.lines.Text(), text) {
			return nil
		}
	}
	if text != "" {
		return fmt.Errorf("it ended before %q: %s", text, p.printed.String())
	}
	return nil
}

// end reads the rest of what the demonstration prints, and waits for its process.
func (p *running) end() error {
	for p.lines.Scan() {
		p.printed.WriteString(p.lines.Text() + "\n")
	}
	return errors.Join(p.lines.Err(), p.command.Wait())
}

// state is what a cluster has outside of its folder.
type state struct {
	Cgroup  string
	Network struct{ Link string }
}

// cluster reads the state of the cluster, if there is one.
func (p *running) cluster() state {
	var found state
	files, err := filepath.Glob(filepath.Join(p.home, "*", "state.json"))
	env.Must(p.t, err)
	below, err := filepath.Glob(filepath.Join(p.home, "*", "state", "state.json"))
	env.Must(p.t, err)
	for _, file := range append(files, below...) {
		text, err := os.ReadFile(file)
		env.Must(p.t, err)
		env.Must(p.t, json.Unmarshal(text, &found))
	}
	return found
}

// processes are all that the demonstration has started, and that still run: they name its folder in their arguments or their environment.
func (p *running) processes() []int {
	folders, err := filepath.Glob("/proc/[0-9]*")
	env.Must(p.t, err)
	var found []int
	for _, folder := range folders {
		for _, file := range []string{"cmdline", "environ"} {
			// A process that has ended has neither.
			text, err := os.ReadFile(filepath.Join(folder, file))
			if err == nil && bytes.Contains(text, []byte(p.home)) {
				var pid int
				_, err := fmt.Sscan(filepath.Base(folder), &pid)
				env.Must(p.t, err)
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

// gone waits until no process, file, mount, cgroup and network name of the demonstration is left.
func (p *running) gone(cluster state) {
	p.t.Helper()
	err := env.AwaitFor(p.t.Context(), 30*time.Second, "nothing left", func() error {
		var left []string
		for _, pid := range p.processes() {
			arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			left = append(left, fmt.Sprintf("process %d: %s", pid, bytes.ReplaceAll(arguments, []byte{0}, []byte{' '})))
		}
		patterns := []string{filepath.Join(p.home, "*")}
		if cluster.Cgroup != "" {
			patterns = append(patterns, "/sys/fs/cgroup/"+cluster.Cgroup, "/sys/fs/cgroup/*/"+cluster.Cgroup)
		}
		if cluster.Network.Link != "" {
			patterns = append(patterns, "/sys/class/net/"+cluster.Network.Link)
		}
		for _, pattern := range patterns {
			found, err := filepath.Glob(pattern)
			env.Must(p.t, err)
			left = append(left, found...)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		env.Must(p.t, err)
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, p.home) {
				left = append(left, "mount "+line)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left are %s", strings.Join(left, "; "))
		}
		return nil
	})
	if err != nil {
		p.t.Error(err)
	}
}
