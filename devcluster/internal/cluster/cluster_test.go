package cluster

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

func validOptions() Options {
	return Options{Profile: openshift.Profile{
		Name: "dev-abcde", Nodes: 6, Topology: "HighlyAvailable", Platform: "AWS", Region: "us-east-1", CredentialsMode: openshift.Mint,
	}}
}

func TestPortsAreFreeAndDifferent(t *testing.T) {
	got, err := choosePorts(0)
	if err != nil {
		t.Fatal(err)
	}
	if got.API == got.Etcd || got.API == got.EtcdPeer || got.Etcd == got.EtcdPeer {
		t.Errorf("got %+v", got)
	}
	for _, port := range []int{got.API, got.Etcd, got.EtcdPeer} {
		listener, err := listen(port)
		if err != nil {
			t.Errorf("port %d is not free: %v", port, err)
			continue
		}
		_ = listener.Close()
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	listener, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port
	_, err = choosePorts(port)
	if err == nil || !strings.Contains(err.Error(), "port "+strconv.Itoa(port)) || !strings.Contains(err.Error(), "--port") {
		t.Errorf("got %v", err)
	}
}

func TestOptionsAreCheckedInTermsOfFlags(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Options)
		want string
	}{
		"valid":                 {func(*Options) {}, ""},
		"port":                  {func(o *Options) { o.Port = 70000 }, "--port"},
		"version":               {func(o *Options) { o.EmulatedVersion = "v1.33" }, "--emulated-version"},
		"version of real nodes": {func(o *Options) { o.EmulatedVersion, o.Profile.RealNodes = "1.33", 1 }, "no kubelet may be newer"},
		"owner":                 {func(o *Options) { o.OwnerPID = -1 }, "--owner-pid"},
		"profile":               {func(o *Options) { o.Profile.Topology = "Flat" }, "--topology"},
	} {
		t.Run(name, func(t *testing.T) {
			options := validOptions()
			test.edit(&options)
			err := options.Validate()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestFeatureGatesAreParsedStrictly(t *testing.T) {
	got, err := ParseFeatureGates("B=true,A=false")
	if diff := cmp.Diff(map[string]bool{"A": false, "B": true}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if got, err := ParseFeatureGates(""); got != nil || err != nil {
		t.Errorf("without gates: %v, %v", got, err)
	}
	for _, wrong := range []string{"A", "A=", "=true", "A=1", "A=True", "A=true,", " A=true", "A=true,A=true", "kube:A=true"} {
		gates, err := ParseFeatureGates(wrong)
		if err == nil {
			options := validOptions()
			options.Profile.FeatureGates = gates
			err = options.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), "--feature-gates") {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
}

func TestFeatureGatesAreRefusedAsKubernetesDoes(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		gates   map[string]bool
		want    string
	}{
		"known":              {"", map[string]bool{"VolumeLimitScaling": true}, ""},
		"unknown":            {"", map[string]bool{"NoSuchGate": true}, "unrecognized feature gate: NoSuchGate"},
		"locked":             {"", map[string]bool{"VolumeAttributesClass": false}, "--feature-gates is VolumeAttributesClass=false"},
		"not locked earlier": {"1.34", map[string]bool{"VolumeAttributesClass": false}, ""},
		"too new":            {"1.33", map[string]bool{"VolumeLimitScaling": true}, "PreAlpha"},
	} {
		t.Run(name, func(t *testing.T) {
			options := validOptions()
			options.EmulatedVersion, options.Profile.FeatureGates = test.version, test.gates
			err := options.Validate()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestTheControlPlaneGetsTheFeatureGates(t *testing.T) {
	l, state := layout{dir: t.TempDir()}, &State{Options: validOptions()}
	has := func(component string) bool {
		return slices.Contains(l.process(component, state).Args, "--feature-gates=ContextualLogging=false,VolumeLimitScaling=true")
	}
	for _, gates := range []map[string]bool{nil, {"VolumeLimitScaling": true, "ContextualLogging": false}} {
		state.Options.Profile.FeatureGates = gates
		for _, component := range []string{APIServer, ControllerManager, Scheduler} {
			if has(component) != (gates != nil) {
				t.Errorf("gates %v: %s has %v", gates, component, l.process(component, state).Args)
			}
		}
		if has(Etcd) || has(Kwok) {
			t.Errorf("gates %v: programs that are not of Kubernetes have the flag", gates)
		}
	}
}

func TestUpRefusesAnOwnerThatDoesNotExist(t *testing.T) {
	// A process that has ended and was waited for.
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	options := validOptions()
	options.OwnerPID = ended.Process.Pid
	dir := filepath.Join(t.TempDir(), "cluster")
	if _, err := Up(context.Background(), dir, options, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "no such process") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made (%v)", err)
	}
}

func TestQuoteMakesOneShellWord(t *testing.T) {
	for _, path := range []string{"/plain/path-1.2_x", "/with space", "/it's", "/$HOME/`x`", ""} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote(path)).Output()
		if err != nil || string(out) != path {
			t.Errorf("Quote(%q) is %s, which a shell reads as %q (%v)", path, Quote(path), out, err)
		}
	}
	if got := Quote("/plain/path-1.2_x"); got != "/plain/path-1.2_x" {
		t.Errorf("a plain path became %s", got)
	}
}

func TestStateSurvivesTheFile(t *testing.T) {
	l := layout{dir: t.TempDir()}
	want := &State{
		Phase: Ready, URL: "https://127.0.0.1:1", Supervisor: 7, Options: validOptions(), Ports: ports{1, 2, 3},
		Processes: []supervise.Status{{Name: Etcd, PID: 8, State: supervise.Running, Log: "log"}},
	}
	if err := want.save(l); err != nil {
		t.Fatal(err)
	}
	got, err := loadState(l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDirectoryOfADeadClusterIsNotReused(t *testing.T) {
	l := layout{dir: filepath.Join(t.TempDir(), "cluster")}
	lock, err := l.claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.claim(t.Context()); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("claim of a locked directory: %v", err)
	}
	if err := os.MkdirAll(l.logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.claim(t.Context()); err == nil || !strings.Contains(err.Error(), "devcluster down") {
		t.Errorf("claim of what is left: %v", err)
	}
	if err := Down(context.Background(), l.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(l.dir); !os.IsNotExist(err) {
		t.Errorf("down left the directory (%v)", err)
	}
}

// What is left of a cluster that was ready goes without a moment in which another one could start there.
func TestACrashedClusterIsReplacedUnderItsLock(t *testing.T) {
	l := layout{dir: filepath.Join(t.TempDir(), "cluster")}
	lock, err := l.claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := (&State{Phase: Ready, Options: validOptions()}).save(l); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(l.logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := lock.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := l.claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	now, err := again.Stat()
	if err != nil || !os.SameFile(held, now) {
		t.Errorf("the lock is another file: it was free for a while (%v)", err)
	}
	if left, err := os.ReadDir(l.dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v (%v), want the lock alone", left, err)
	}
}

// withNodes is a cluster that is ready, with these processes. The test holds its lock.
func withNodes(t *testing.T, processes ...supervise.Status) layout {
	t.Helper()
	l := layout{dir: t.TempDir()}
	lock, err := supervise.Lock(l.marker())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	state := &State{Phase: Ready, Machine: &node.Machine{}, Processes: processes}
	if err := state.save(l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestImagesThatAStoppedNodeLacksAreNamed(t *testing.T) {
	l := withNodes(t,
		supervise.Status{Name: Etcd, State: supervise.Stopped},
		supervise.Status{Name: Node + "worker-1", State: supervise.Stopped}, supervise.Status{Name: Node + "worker-2", State: supervise.Exited},
	)
	archive := filepath.Join(t.TempDir(), "all.tar")
	if err := os.WriteFile(archive, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := LoadImages(t.Context(), l.dir, []node.Archive{{File: archive}})
	for _, want := range []string{"node-worker-1 is stopped", "node-worker-2 is exited", "devcluster start --dir " + Quote(l.dir) + " node-worker-1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// However many nodes there are, and whether they run or not, a file that is missing is said once.
func TestAMissingArchiveIsNamedOnce(t *testing.T) {
	l := withNodes(t,
		supervise.Status{Name: Node + "worker-1", State: supervise.Running}, supervise.Status{Name: Node + "worker-2", State: supervise.Running},
	)
	missing := filepath.Join(t.TempDir(), "missing.tar")
	err := LoadImages(t.Context(), l.dir, []node.Archive{{File: missing}})
	if want := "load images: open " + missing + ": no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStatusOfNothingSaysHowToStart(t *testing.T) {
	_, err := Status(t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "devcluster up") {
		t.Errorf("got %v", err)
	}
}

func TestLastLineIsTheReason(t *testing.T) {
	for name, test := range map[string]struct{ log, want string }{
		"empty": {"", ""},
		"plain": {"first\nlast\n\n", "; it ends with: last"},
		"panic": {"first\npanic: no such thing\n\ngoroutine 1 [running]:\nmain.main()\n", "; it ends with: panic: no such thing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := lastLine(path); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestComponentsGetRelativePathsOnly(t *testing.T) {
	l := layout{dir: "/a b,c/cluster"}
	state := &State{Options: validOptions()}
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok, StandIns} {
		process := l.process(name, state)
		if process.Args[0] != name {
			t.Errorf("%s: the first argument is %s", name, process.Args[0])
		}
		for _, arg := range process.Args {
			if strings.Contains(arg, l.dir) {
				t.Errorf("%s: %s depends on the directory", name, arg)
			}
		}
	}
}
