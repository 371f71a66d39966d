// Package supervise starts child processes, watches them and stops them.
package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// State is the state of a process.
type State string

const (
	// Running means that the process lives.
	Running State = "running"
	// Exited means that the process ended by itself.
	Exited State = "exited"
	// Stopped means that the supervisor ended the process.
	Stopped State = "stopped"
)

// Process configures a child.
type Process struct {
	// Name is unique in a group. The log file has the same name.
	Name string
	// Args are the arguments of the executable.
	Args []string
	// Executable is the program to run. If it is empty, the group's Executable runs.
	Executable string
	// Env is the whole environment. If it is nil, the process gets the group's Env.
	Env []string
	// Namespaces are the new Linux namespaces of the process, as flags of clone(2).
	Namespaces uintptr
}

// Status describes a child.
type Status struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	State State  `json:"state"`
	// Exit says how the process ended, such as "exit status 1" or "signal: killed". It is empty while the process runs.
	Exit string `json:"exit,omitempty"`
	// Log is the absolute path of the file with the output of the process.
	Log string `json:"log"`
}

// Group is a set of child processes. Most of them run the executable of this program. On Linux, the kernel kills all child processes when the process
// that started the group ends.
type Group struct {
	options Options
	spawn   chan func()

	mu       sync.Mutex
	closed   bool
	children []*child
	exits    chan Status
}

type child struct {
	process Process
	command *exec.Cmd
	status  Status
	asked   bool
	done    chan struct{}
}

// Options configures a group.
type Options struct {
	// Executable is the default executable of children.
	Executable string
	// Dir is the working directory of the children. The arguments of a child can have paths that are relative to Dir.
	Dir string
	// Logs is the directory of the log files.
	Logs string
	// Env is the default environment of children.
	Env []string
	// Changed is called after a child has started or ended. Two calls never overlap.
	Changed func([]Status)
}

// NewGroup returns a group without children.
func NewGroup(options Options) *Group {
	g := &Group{options: options, spawn: make(chan func()), exits: make(chan Status, 16)}
	go g.spawner()
	return g
}

// spawner starts every child from one OS thread that never ends. The kernel sends a child its parent-death signal when the thread that started
// the child ends, not when the process ends.
func (g *Group) spawner() {
	runtime.LockOSThread()
	for start := range g.spawn {
		start()
	}
}

// Exits returns a channel with the children that have ended by themselves.
func (g *Group) Exits() <-chan Status { return g.exits }

// Start starts a process. If the group has a process of the same name, that process must have ended, and the new process replaces it.
func (g *Group) Start(process Process) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fmt.Errorf("start %s: all processes are being stopped", process.Name)
	}
	old := g.find(process.Name)
	if old != nil && old.status.State == Running {
		return fmt.Errorf("start %s: it is running already, as process %d", process.Name, old.status.PID)
	}
	path := filepath.Join(g.options.Logs, process.Name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: open its log: %w", process.Name, err)
	}
	defer func() { _ = log.Close() }()

	command := g.command(process)
	command.Stdout, command.Stderr = log, log
	started := make(chan error)
	g.spawn <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", process.Name, err)
	}

	c := &child{process: process, command: command, done: make(chan struct{})}
	c.status = Status{Name: process.Name, PID: command.Process.Pid, State: Running, Log: path}
	if old == nil {
		g.children = append(g.children, c)
	} else {
		g.children[slices.Index(g.children, old)] = c
	}
	go g.wait(c)
	g.notify()
	return nil
}

func (g *Group) command(process Process) *exec.Cmd {
	executable, env := process.Executable, process.Env
	if executable == "" {
		executable = g.options.Executable
	}
	if env == nil {
		env = g.options.Env
	}
	command := exec.Command(executable, process.Args...)
	command.Dir, command.Env, command.SysProcAttr = g.options.Dir, env, attributes(process)
	return command
}

func (g *Group) wait(c *child) {
	// Ignore the error, because it only repeats what ProcessState says.
	_ = c.command.Wait()
	g.mu.Lock()
	c.status.Exit = c.command.ProcessState.String()
	c.status.State = Exited
	if c.asked {
		c.status.State = Stopped
	}
	status := c.status
	g.notify()
	g.mu.Unlock()
	close(c.done)
	if status.State == Exited {
		g.exits <- status
	}
}

// Restart starts an ended process again, with the same arguments.
func (g *Group) Restart(name string) error {
	g.mu.Lock()
	c := g.find(name)
	g.mu.Unlock()
	if c == nil {
		return fmt.Errorf("start %s: there is no such process", name)
	}
	return g.Start(c.process)
}

// Forget drops the status of a process that has ended.
func (g *Group) Forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.children = slices.DeleteFunc(g.children, func(c *child) bool { return c.process.Name == name && c.status.State != Running })
	g.notify()
}

// Status returns the status of one process, and whether the group has such a process.
func (g *Group) Status(name string) (Status, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.find(name); c != nil {
		return c.status, true
	}
	return Status{}, false
}

// Stop asks a process to end. After a time limit, it kills the process. If the process does not run, Stop does nothing.
func (g *Group) Stop(name string, patience time.Duration) {
	g.mu.Lock()
	c := g.find(name)
	g.mu.Unlock()
	if c != nil {
		g.end([]*child{c}, patience)
	}
}

// StopAll asks all processes to end, and begins with the newest. After a time limit, it kills the processes that still run. From then on, Start
// fails.
func (g *Group) StopAll(patience time.Duration) {
	g.mu.Lock()
	g.closed = true
	all := slices.Clone(g.children)
	g.mu.Unlock()
	slices.Reverse(all)
	g.end(all, patience)
}

func (g *Group) end(children []*child, patience time.Duration) {
	for _, c := range children {
		g.signal(c, syscall.SIGTERM)
	}
	deadline := time.After(patience)
	for _, c := range children {
		select {
		case <-c.done:
		case <-deadline:
			for _, late := range children {
				g.signal(late, syscall.SIGKILL)
			}
			for _, late := range children {
				<-late.done
			}
			return
		}
	}
}

func (g *Group) signal(c *child, signal syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.status.State != Running {
		return
	}
	c.asked = true
	// Ignore the error. Signal fails only if the process has ended a moment ago.
	_ = c.command.Process.Signal(signal)
}

// Statuses returns the status of all processes, in the order in which the processes first started.
func (g *Group) Statuses() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.statuses()
}

func (g *Group) statuses() []Status {
	all := make([]Status, 0, len(g.children))
	for _, c := range g.children {
		all = append(all, c.status)
	}
	return all
}

func (g *Group) notify() {
	if g.options.Changed != nil {
		g.options.Changed(g.statuses())
	}
}

func (g *Group) find(name string) *child {
	for _, c := range g.children {
		if c.process.Name == name {
			return c
		}
	}
	return nil
}
