package mounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	pod   = "2c7bf0b0-0d66-4c1f-9d5e-0d0f9f9a1111"
	other = "3d8cf1c1-1e77-4d2f-8e6f-1e1f0a0b2222"
	first = "pvc-8a0b1c2d-aaaa-4bbb-8ccc-000000000001"
)

func target(pod, volume string) string {
	return "/var/lib/kubelet/pods/" + pod + "/volumes/kubernetes.io~csi/" + volume + "/mount"
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestMountsOfEFSForPodsAreFound(t *testing.T) {
	got, err := ParseMounts(open(t, "mountinfo"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{Target: target(pod, first), Pod: pod, Volume: first, Device: "0:104", Port: 20147},
		{Target: target(pod, "with space"), Pod: pod, Volume: "with space", Device: "0:105", Port: 20311},
		{Target: target(other, "plain"), Pod: other, Volume: "plain", Device: "0:110"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestALineThatIsTooLongHidesNoOther(t *testing.T) {
	good := "830 22 0:104 / " + target(pod, first) + " rw - nfs4 127.0.0.1:/ rw,port=20147\n"
	long := "9 1 0:1 / /x rw - overlay overlay rw,lowerdir=" + strings.Repeat("/a:", longestLine) + "\n"
	got, err := ParseMounts(strings.NewReader(long + good + long))
	if err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAMountThatIsNotUnderstoodIsAnError(t *testing.T) {
	for _, line := range []string{"830 22 0:104 / " + target(pod, first) + " rw - nfs4 127.0.0.1:/ rw,port=x", "830 22 - nfs4 127.0.0.1:/"} {
		if got, err := ParseMounts(strings.NewReader(line)); err == nil {
			t.Errorf("%s: got %v", line, got)
		}
	}
}

func TestStatisticsAreAddedUpForEachMount(t *testing.T) {
	got, err := ParseStats(open(t, "mountstats"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Stats{
		target(pod, first):        {LeaseExpired: 135, HasLease: true, Connections: 2, Sent: 431, Replies: 428, Timeouts: 3},
		target(pod, "with space"): {HasLease: true, Connections: 2, Sent: 31, Replies: 30},
		target(other, "plain"):    {Connections: 1, Sent: 7, Replies: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatisticsThatAreNotUnderstoodAreAnError(t *testing.T) {
	head := "device a mounted on /a with fstype nfs4 statvers=1.1\n"
	for _, line := range []string{"\txprt:\ttcp 0 0 2 0 0 x 428 0", "\tnfsv4:\tbm0=0,lease_expired=-1", "\tper-op statistics\n\tREAD: 1 1 x 1 1 1 1 1"} {
		if got, err := ParseStats(strings.NewReader(head + line)); err == nil {
			t.Errorf("%s: got %v", line, got)
		}
	}
}

func TestStateFilesAreFoundByPort(t *testing.T) {
	name := "fs-0123456789abcdef0.var.lib.kubelet.pods." + pod + ".volumes.kubernetes.io~csi." + first + ".mount."
	got, err := ReadStates(fstest.MapFS{
		name + "20147":                     {Data: []byte(`{"pid": 17, "cmd": ["/usr/sbin/efs-proxy"], "files": [], "mount_time": 1.5, "mountpoint": "/x"}`)},
		name + "20148":                     {Data: []byte(`{"pid": 18, "unmount_time": 1764297600.25}`)},
		name + "20149":                     {Data: []byte(`{"pid": 19, "unmou`)},
		"~" + name + "20150":               {Data: []byte(`{"pid": -1}`)},
		"stunnel-config." + name + "20151": {Data: []byte("[efs]")},
		name + "20147+/stunnel.pid":        {Data: []byte("17")},
		"fs-0123456789abcdef0.nothing":     {Data: []byte("{}")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]State{20147: {Port: 20147}, 20148: {Port: 20148, Unmounted: true}, 20149: {Port: 20149}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// process adds a process to a procfs.
func process(proc fstest.MapFS, pid, comm, state, parent, start, command, cgroup string) {
	rest := strings.Repeat("0 ", 17)
	proc[pid+"/comm"] = &fstest.MapFile{Data: []byte(comm + "\n")}
	proc[pid+"/stat"] = &fstest.MapFile{Data: []byte(pid + " (a) b) " + state + " " + parent + " " + rest + start + " 0 0\n")}
	proc[pid+"/cmdline"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(command, " ", "\x00") + "\x00")}
	proc[pid+"/cgroup"] = &fstest.MapFile{Data: []byte("0::" + cgroup + "\n")}
}

func TestTunnelsAndTheKubeletAreFound(t *testing.T) {
	const config = "/var/run/efs/stunnel-config.fs-0123456789abcdef0.var.lib.kubelet.pods.x.volumes.kubernetes.io~csi.y.mount."
	const group = "/../../kubepods-burstable-pod3d8cf1c1_1e77_4d2f_8e6f_1e1f0a0b2222.slice/crio-0a.scope"
	proc := fstest.MapFS{"self/comm": {Data: []byte("kubelet")}, "meminfo": {}}
	process(proc, "1", "systemd", "S", "0", "1", "/sbin/init", "/init.scope")
	process(proc, "700", "kubelet", "S", "1", "90", "/usr/bin/kubelet", "/system.slice/kubelet.service")
	process(proc, "701", "kubelet", "S", "9", "91", "/usr/bin/kubelet", group)
	process(proc, "900", "efs-proxy", "S", "880", "4711", "/usr/sbin/efs-proxy "+config+"20147 --tls", group)
	process(proc, "901", "stunnel5", "S", "880", "4712", "/usr/sbin/stunnel5 "+config+"20148", group)
	process(proc, "902", "efs-proxy", "Z", "880", "4713", "/usr/sbin/efs-proxy "+config+"20149 --tls", group)
	process(proc, "903", "efs-proxy", "S", "880", "4714", "/usr/sbin/efs-proxy --help", group)
	process(proc, "904", "sh", "S", "880", "4715", "sh "+config+"20150", group)
	got, err := ReadProcesses(proc)
	if err != nil {
		t.Fatal(err)
	}
	want := Processes{Kubelet: 700, Tunnels: map[int]Process{
		20147: {PID: 900, Start: 4711, Pod: other}, 20148: {PID: 901, Start: 4712, Pod: other},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestThePresenceOfAPodComesFromItsCgroup(t *testing.T) {
	events := func(populated string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("populated " + populated + "\nfrozen 0\n")}
	}
	systemd := func(class, populated string) fstest.MapFS {
		return fstest.MapFS{"kubepods.slice/cgroup.events": events("1"),
			"kubepods.slice/" + class + "pod3d8cf1c1_1e77_4d2f_8e6f_1e1f0a0b2222.slice/cgroup.events": events(populated)}
	}
	for name, test := range map[string]struct {
		cgroups fstest.MapFS
		want    Presence
	}{
		"guaranteed": {systemd("kubepods-", "1"), Present},
		"burstable":  {systemd("kubepods-burstable.slice/kubepods-burstable-", "1"), Present},
		"empty":      {systemd("kubepods-besteffort.slice/kubepods-besteffort-", "0"), Absent},
		"gone":       {fstest.MapFS{"kubepods.slice/cgroup.events": events("1")}, Absent},
		"cgroupfs":   {fstest.MapFS{"kubepods/cgroup.events": events("1"), "kubepods/besteffort/pod" + other + "/cgroup.events": events("1")}, Present},
		"version 1":  {fstest.MapFS{"memory/kubepods/tasks": {}}, Unknown},
	} {
		if got := podPresence(test.cgroups, other); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
