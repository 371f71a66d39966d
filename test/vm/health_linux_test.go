package vm

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/test/env"
)

// The reader of mounts names exactly the mounts that hang, while programs hang on them, and hangs with none of them. It stays small beside a hundred
// good ones. UPDATE=1 records what it reads as the golden inputs of its package.
func TestTheReaderNamesTheMountsThatHang(t *testing.T) {
	r := boot(t)
	good := r.share("good", 20049)
	// The tunnel of the first answers nothing. Those of the next two are killed, and nobody writes to the second of them. The last one's server stops.
	silent, killed, idle, stopped := r.share("silent", 20050), r.share("killed", 20051), r.share("idle", 20052), r.share("stopped", 20053)
	// The client knows the server of this one, and does not use its tunnel.
	second := &share{rig: r, name: "second", port: 20054, server: good.server}
	second.open()
	r.sh("mkdir /disk/good/folder")
	second.mount("folder")
	written, writers := []*share{good, silent, killed, stopped}, []int{}
	for _, s := range written {
		writers = append(writers, r.beside(false, env.Writes(s.at()+"/lines")...))
		s.goesOn(10)
	}
	reader := r.startReader()
	reader.says("good", 6)

	silent.signal("-STOP")
	killed.signal("-KILL")
	idle.signal("-KILL")
	stopped.threads("0")
	reader.record("begin")
	reader.says("bad", 6, "stalled idle", "stalled killed", "stalled silent", "stalled stopped", "tunnel_dead idle", "tunnel_dead killed")
	// The kernel says so when a request has had no answer for three minutes, and sends it again.
	env.Must(t, env.AwaitFor(t.Context(), 5*time.Minute, "a major timeout", func() error {
		if !strings.Contains(r.sh("dmesg"), "not responding") {
			return fmt.Errorf("no request has timed out")
		}
		return nil
	}))
	reader.says("timeout", 6, "stalled idle", "stalled killed", "stalled silent", "stalled stopped", "tunnel_dead idle", "tunnel_dead killed")

	silent.signal("-CONT")
	killed.open()
	idle.open()
	stopped.threads("1")
	for _, s := range written {
		s.goesOn(len(s.lines()) + 10)
	}
	reader.says("recovered", 6)
	r.sh(`umount "$1"`, idle.at())
	reader.says("unmounted", 5)

	// Beside those that write, an emulated processor would take minutes for this.
	for _, pid := range writers {
		r.sh(`kill "$1"`, strconv.Itoa(pid))
	}
	for i := range 5 {
		r.share(fmt.Sprintf("more%d", i), 20100+20*i).more(18)
	}
	silent.signal("-STOP")
	killed.signal("-KILL")
	reader.says("hundred", 100, "stalled killed", "stalled silent", "tunnel_dead killed")
	reader.cost()
}

// reader is the program that reads mounts.
type reader struct{ *rig }

func (r *rig) startReader() reader {
	r.Helper()
	r.sh("mkdir /sys/fs/cgroup/reader")
	r.beside(false, "sh", "-c", "echo 0 > /sys/fs/cgroup/reader/cgroup.procs; exec aws-efs-node-health start")
	r.eventually("the reader's metrics", "wget -q -O - http://127.0.0.1:8214/metrics")
	return reader{r}
}

// says waits until the reader knows so many mounts, and names exactly these problems. It records what the reader has read. It fails the test if a reading
// has failed, or has not ended within its interval: the reader counts both.
func (r reader) says(state string, mounts int, want ...string) {
	r.Helper()
	named := regexp.MustCompile(`efs_node_mount_problem_seconds\{problem="(\w+)",volume="pvc-(\w+)"`)
	env.Eventually(r.T, "the reader's words: "+state, func() error {
		metrics := r.sh("wget -q -O - http://127.0.0.1:8214/metrics")
		if !strings.Contains(metrics, `{result="failed"} 0`) || !strings.Contains(metrics, `{result="skipped"} 0`) {
			r.Fatalf("a reading has failed or did not end:\n%s", metrics)
		}
		var got []string
		for _, found := range named.FindAllStringSubmatch(metrics, -1) {
			got = append(got, found[1]+" "+found[2])
		}
		if slices.Sort(got); !slices.Equal(got, want) || !strings.Contains(metrics, fmt.Sprintf("efs_node_mounts %d\n", mounts)) {
			return fmt.Errorf("it names %q, want %q among %d mounts:\n%s", got, want, mounts, metrics)
		}
		return nil
	})
	r.record(state)
}

// record keeps what the kernel says about mounts, and when.
func (r reader) record(state string) {
	r.Helper()
	if os.Getenv("UPDATE") != "1" {
		return
	}
	root, err := env.Root()
	env.Must(r.T, err)
	file, err := os.Create(filepath.Join(root, "internal/controller/efshealth/mounts/testdata/recorded", state+".gz"))
	env.Must(r.T, err)
	defer file.Close()
	packed := gzip.NewWriter(file)
	_, err = packed.Write([]byte(r.sh(`cut -d " " -f 1 /proc/uptime; cat /proc/self/mountinfo; echo; cat /proc/self/mountstats`)))
	env.Must(r.T, err)
	env.Must(r.T, packed.Close())
}

// cost fails the test if the reader has needed more memory than a node should give it.
func (r reader) cost() {
	r.Helper()
	const most = 15 << 20
	peak, err := strconv.Atoi(strings.TrimSpace(r.sh("cat /sys/fs/cgroup/reader/memory.peak")))
	env.Must(r.T, err)
	used := func() float64 {
		microseconds, err := strconv.ParseFloat(strings.Fields(r.sh("cat /sys/fs/cgroup/reader/cpu.stat"))[1], 64)
		env.Must(r.T, err)
		return microseconds / 1e6
	}
	before, begin := used(), r.now()
	r.eventually("four readings", `[ "$(cut -d . -f 1 /proc/uptime)" -ge "$1" ]`, strconv.Itoa(int(begin)+60))
	// An emulated processor needs about twenty times as long as a real one, so its time is no bound of a test.
	r.Logf("the reader's memory: %.1f MiB at most. Its processor time: %.1f milli-cores of an emulated processor",
		float64(peak)/(1<<20), (used()-before)/(r.now()-begin)*1000)
	if peak > most {
		r.Errorf("the reader has needed %d bytes of memory, want %d at most", peak, most)
	}
}
