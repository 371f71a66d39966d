package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// counting counts what is opened in a file system. It has no other way to read a file, and none to stat one.
type counting struct {
	fs.FS
	opened map[string]int
	bytes  int
}

func (c *counting) Open(name string) (fs.File, error) {
	c.opened[name]++
	file, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if folder, ok := file.(fs.ReadDirFile); ok {
		return folder, nil
	}
	return &countingFile{file, c}, nil
}

type countingFile struct {
	fs.File
	of *counting
}

func (f *countingFile) Read(into []byte) (int, error) {
	count, err := f.File.Read(into)
	f.of.bytes += count
	return count, err
}

// crowd is a node with mounts, ten times as many processes, all of which are good.
func crowd(t *testing.T, count int) Source {
	t.Helper()
	proc, states := fstest.MapFS{}, fstest.MapFS{}
	cgroups := fstest.MapFS{"kubepods.slice/cgroup.events": {Data: []byte("populated 1\n")}}
	var info, stats bytes.Buffer
	for i := range count {
		uid := fmt.Sprintf("2c7bf0b0-0d66-4c1f-9d5e-%012d", i)
		target := fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/pvc-%d/mount", uid, i)
		fmt.Fprintf(&info, "%d 22 0:%d / %s rw,relatime shared:4 - nfs4 127.0.0.1:/ rw,vers=4.1,port=%d,addr=127.0.0.1\n", 100+i, 100+i, target, 20000+i)
		fmt.Fprintf(&stats, "device 127.0.0.1:/ mounted on %s with fstype nfs4 statvers=1.1\n\txprt:\ttcp 0 0 2 0 0 431 428 0 433 0 3 5 210\n", target)
		stats.WriteString("\tper-op statistics\n" + strings.Repeat("\t        READ: 1200 1202 0 880000 35200 12 90100 120300 0\n", 70) + "\n")
		name := fmt.Sprintf("fs-0123456789abcdef0.x.%d", 20000+i)
		states[name] = &fstest.MapFile{Data: []byte(`{"pid": 17, "cmd": ["/usr/sbin/efs-proxy"], "mount_time": 1.5}`)}
		group := "kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
		cgroups[group+"/cgroup.events"] = &fstest.MapFile{Data: []byte("populated 1\n")}
		cgroups[group+"/memory.events"] = &fstest.MapFile{Data: []byte("oom_kill 0\n")}
		process(proc, fmt.Sprint(5000+i), "efs-proxy", "S", "880", "4711", "/usr/sbin/efs-proxy /var/run/efs/stunnel-config."+name, "/"+group+"/crio-0a.scope")
	}
	for i := range 10 * count {
		process(proc, fmt.Sprint(100000+i), "other", "S", "1", "5", "/usr/bin/other", "/system.slice/other.service")
	}
	process(proc, "1", "systemd", "S", "0", "1", "/sbin/init", "/init.scope")
	proc["1/mountinfo"], proc["1/mountstats"] = &fstest.MapFile{Data: info.Bytes()}, &fstest.MapFile{Data: stats.Bytes()}
	return Source{Proc: proc, States: states, Cgroups: cgroups}
}

// costs are what one reading needs.
type costs struct{ opened, again, bytes, allocations int }

func costOf(t *testing.T, count int) costs {
	t.Helper()
	source := crowd(t, count)
	var all [3]*counting
	for i, folder := range []*fs.FS{&source.Proc, &source.States, &source.Cgroups} {
		all[i] = &counting{FS: *folder, opened: map[string]int{}}
		*folder = all[i]
	}
	now := time.Unix(1764297600, 0)
	reading, err := source.Read(now)
	if err != nil || len(reading.Mounts) != count || len(reading.Stats) != count || len(reading.Tunnels) != count || len(reading.Kills) != count {
		t.Fatalf("%v: %d mounts, %d statistics, %d tunnels, %d kills", err, len(reading.Mounts), len(reading.Stats), len(reading.Tunnels), len(reading.Kills))
	}
	var found costs
	for _, folder := range all {
		found.bytes += folder.bytes
		for _, times := range folder.opened {
			found.opened += times
			found.again = max(found.again, times)
		}
	}
	var tracker Tracker
	tracker.Next(reading)
	var text bytes.Buffer
	source = crowd(t, count)
	found.allocations = int(testing.AllocsPerRun(5, func() {
		now = now.Add(time.Hour)
		reading, err := source.Read(now)
		// Each mount has two problems.
		reading.Tunnels = map[int]Process{}
		for pod := range reading.Pods {
			reading.Pods[pod] = Absent
		}
		text.Reset()
		err = errors.Join(err, WriteMetrics(&text, Status{Report: tracker.Next(reading), Known: true}, now))
		if err != nil {
			t.Error(err)
		}
	}))
	if want := fmt.Sprintf(`problem="tunnel_dead"} %d`, count); !strings.Contains(text.String(), want) {
		t.Errorf("no %s in\n%s", want, &text)
	}
	return found
}

// Time is for make bench. A reading opens each file of the node a bounded number of times, and twice as many mounts and processes need twice as much.
func TestAReadingGrowsWithTheNodeAndNoFaster(t *testing.T) {
	half, whole := costOf(t, 50), costOf(t, 100)
	t.Logf("50 mounts and 500 processes: %+v; 100 and 1,000: %+v", half, whole)
	for name, pair := range map[string][2]int{
		"opened files": {half.opened, whole.opened}, "bytes": {half.bytes, whole.bytes}, "allocations": {half.allocations, whole.allocations},
	} {
		if pair[1] > 2*pair[0]+pair[0]/10 {
			t.Errorf("%s: %d for half of the node, %d for all of it", name, pair[0], pair[1])
		}
	}
	if whole.again > 250 || whole.opened > 2500 || whole.allocations > 40_000 {
		t.Errorf("a reading opens %d files, one of them %d times, and allocates %d times", whole.opened, whole.again, whole.allocations)
	}
}
