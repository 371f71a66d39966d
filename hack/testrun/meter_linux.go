package main

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// interval is the time between two readings of all processes. The processor time that a process uses after its last reading appears only in the line
// "not seen" of the report.
const interval = 500 * time.Millisecond

// ticks is the number of units of processor time in one second (man 5 proc).
const ticks = 100

// process is a child of this program, or another descendant.
type process struct {
	parent int
	// start is the start time, in ticks since the machine started. It distinguishes processes with the same ID.
	start     string
	component string
	// pkg is the folder of a package. It is set for the package's test program and for all descendants of the test program.
	pkg string
	// up is true if the process is "devcluster up". Field "cluster" is the folder of a cluster. It is set for "devcluster up" and for all components of
	// the cluster.
	up      bool
	cluster string
	cpu     float64
	zombie  bool
}

// meter measures all descendants of this process.
type meter struct {
	mutex sync.Mutex
	live  map[int]*process
	past  []*process
	usage usage
	// waited are the children for which run.make waits.
	waited map[int]bool
	ticker *time.Ticker
	ended  chan struct{}
}

// newMeter starts a meter, and makes this process a subreaper. So if the parent of a descendant ends, the descendant becomes a child of this process.
func newMeter() *meter {
	const setChildSubreaper = 36 // man 2 prctl
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	m := &meter{live: map[int]*process{}, usage: newUsage(), waited: map[int]bool{}, ticker: time.NewTicker(interval), ended: make(chan struct{})}
	go func() {
		for {
			select {
			case <-m.ended:
				return
			case <-m.ticker.C:
				m.look()
			}
		}
	}()
	return m
}

func (m *meter) stop() {
	m.ticker.Stop()
	close(m.ended)
}

// start starts a command. The caller must wait for the command. All other children of this process are descendants that have lost their parent, and
// the meter reaps these children.
func (m *meter) start(command *exec.Cmd) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	err := command.Start()
	if err == nil {
		m.waited[command.Process.Pid] = true
	}
	return err //nolint:wrapcheck // The caller says what was started.
}

// sum adds up the processor time that all processes have used so far.
func (m *meter) sum() usage {
	m.look()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	seen := 0.0
	for _, one := range slices.Concat(m.past, slices.Collect(maps.Values(m.live))) {
		m.usage.components[one.component] += one.cpu
		seen += one.cpu
		if one.pkg != "" {
			m.usage.packages[one.pkg] += one.cpu
		}
	}
	var all syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all) == nil {
		m.usage.total = time.Duration(all.Utime.Nano() + all.Stime.Nano()).Seconds()
		m.usage.components["not seen, as too short"] = max(0, m.usage.total-seen)
	}
	return m.usage
}

// look reads the processor time of every process.
func (m *meter) look() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	now := map[int]*process{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fields := stat(pid)
		if fields == nil {
			continue
		}
		one := m.live[pid]
		if one == nil || one.start != fields[19] {
			one = &process{start: fields[19]}
		}
		one.parent, _ = strconv.Atoi(fields[1])
		one.zombie = fields[0] == "Z"
		user, _ := strconv.ParseFloat(fields[11], 64)
		system, _ := strconv.ParseFloat(fields[12], 64)
		one.cpu = (user + system) / ticks
		now[pid] = one
	}
	m.update(now)
}

// update sets the names of new processes, and adds ended processes to past.
func (m *meter) update(now map[int]*process) {
	self := os.Getpid()
	for pid, one := range now {
		if m.live[pid] != one && !below(now, pid, self) {
			delete(now, pid)
			continue
		}
		// Between fork and exec, a process has the name of its parent, so set the name again.
		if m.live[pid] != one || one.component == "" || one.component == shells {
			one.name(pid)
		}
		if one.zombie && one.parent == self && !m.waited[pid] {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
	for _, one := range now {
		for up := now[one.parent]; up != nil; up = now[up.parent] {
			one.pkg, one.cluster = cmp.Or(one.pkg, up.pkg), cmp.Or(one.cluster, up.cluster)
		}
	}
	for pid, one := range m.live {
		if now[pid] != one {
			m.end(one, now)
		}
	}
	m.live = now
}

// end adds an ended process to past. If the process was "devcluster up", end adds the processor time that the cluster has used so far to
// usage.startTime.
func (m *meter) end(one *process, now map[int]*process) {
	m.past = append(m.past, one)
	if !one.up {
		return
	}
	m.usage.starts++
	for _, other := range now {
		if other.cluster == one.cluster {
			m.usage.startTime += other.cpu
		}
	}
}

func below(now map[int]*process, pid, root int) bool {
	for one := now[pid]; one != nil && one.parent != 0; one = now[one.parent] {
		if one.parent == root {
			return true
		}
	}
	return false
}

// stat returns the fields of /proc/PID/stat that follow the process' name, which can have spaces. The first of these fields is the state.
func stat(pid int) []string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return nil
	}
	return fields
}

// name finds the component and the package of a process from the arguments of the process.
func (one *process) name(pid int) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(text) == 0 {
		return
	}
	args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	one.component = componentOf(args)
	if one.component == tests {
		if folder, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd")); err == nil {
			one.pkg = inRoot(folder)
		}
	}
	if filepath.Base(args[0]) == "devcluster" && len(args) > 1 {
		one.up = args[1] == "up"
		for i, arg := range args {
			if arg == "--dir" && i+1 < len(args) && one.up {
				one.cluster = args[i+1]
			}
		}
		if args[1] == "supervisor" {
			one.cluster = args[len(args)-1]
		}
	}
}

// inRoot returns the path of a folder relative to the root. The root is the working directory of this process.
func inRoot(folder string) string {
	root, err := os.Getwd()
	if err != nil {
		return folder
	}
	return strings.TrimPrefix(strings.TrimPrefix(folder, root), "/")
}
