package mounts

import (
	"io"
	"testing"
	"testing/fstest"
	"time"
)

// file returns the content of a file of testdata.
func file(t *testing.T, name string) *fstest.MapFile {
	t.Helper()
	text, err := io.ReadAll(open(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: text}
}

// node is a node whose kubelet has a mount namespace of its own.
func node(t *testing.T) Source {
	t.Helper()
	const config = "/var/run/efs/stunnel-config.fs-0123456789abcdef0.var.lib.kubelet.pods.x.volumes.kubernetes.io~csi.y.mount."
	const group = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3d8cf1c1_1e77_4d2f_8e6f_1e1f0a0b2222.slice"
	proc := fstest.MapFS{"1/mountinfo": {}, "1/mountstats": {}, "700/mountinfo": file(t, "mountinfo"), "700/mountstats": file(t, "mountstats")}
	process(proc, "1", "systemd", "S", "0", "1", "/sbin/init", "/init.scope")
	process(proc, "700", "kubelet", "S", "1", "90", "/usr/bin/kubelet", "/system.slice/kubelet.service")
	process(proc, "900", "efs-proxy", "S", "880", "4711", "/usr/sbin/efs-proxy "+config+"20147 --tls", "/../../"+group+"/crio-0a.scope")
	return Source{
		Proc: proc, States: fstest.MapFS{"fs-0123456789abcdef0.x.20147": {Data: []byte(`{"pid": 17}`)}},
		Cgroups: fstest.MapFS{
			"kubepods.slice/cgroup.events": {Data: []byte("populated 1\n")}, group + "/cgroup.events": {Data: []byte("populated 1\n")},
			group + "/memory.events": {Data: []byte("low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n")},
		},
	}
}

func TestANodeIsReadWithTheMountsOfItsKubelet(t *testing.T) {
	reading, err := node(t).Read(time.Unix(1764297600, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(reading.Mounts) != 3 || len(reading.Stats) != 3 || len(reading.States) != 1 || reading.Tunnels[20147].PID != 900 {
		t.Errorf("got %+v", reading)
	}
	if reading.Pods[pod] != Absent || reading.Pods[other] != Present || reading.Kills[other] != 2 {
		t.Errorf("pods %v, kills %v", reading.Pods, reading.Kills)
	}
}

func TestAFileThatCanNotBeReadIsAnError(t *testing.T) {
	for _, name := range []string{"700/mountinfo", "700/mountstats"} {
		source := node(t)
		delete(source.Proc.(fstest.MapFS), name)
		if _, err := source.Read(time.Now()); err == nil {
			t.Errorf("without %s there is no error", name)
		}
	}
	source := node(t)
	source.States = fstest.MapFS{"x": {}}
	if _, err := source.Read(time.Now()); err != nil {
		t.Errorf("without state files: %v", err)
	}
}
