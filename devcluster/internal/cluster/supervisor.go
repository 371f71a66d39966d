package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

const (
	// File descriptors that the supervisor inherits from `up`.
	lockFD   = 3
	reportFD = 4
	// networkFD exists only if the cluster has nodes with a kubelet.
	networkFD = 5

	// StartLimit is the time after which devcluster ends a start that hangs.
	StartLimit = 3 * time.Minute
	// patience is the time that a process has to stop before the supervisor kills it. It is short for two reasons. A development cluster has no data to
	// save. The API server would wait for clients that never close their watches.
	patience = time.Second
)

// Why a cluster ends.
var (
	errOwnerEnded = errors.New("the process that owns the cluster has ended")
	errTakenDown  = errors.New("the cluster was taken down")
)

// supervisor is the parent of a cluster's components.
type supervisor struct {
	layout layout
	group  *supervise.Group

	mu    sync.Mutex
	state *State

	reports *json.Encoder
}

// Supervise runs the components of a cluster that Up has prepared. It returns after a signal to stop, after a failed start, or when the process with
// ID OwnerPID has ended. The hidden sub-command "supervisor" calls Supervise.
func Supervise(dir string) error {
	// The components must not inherit these files, because the lock must end with the supervisor.
	syscall.CloseOnExec(lockFD)
	syscall.CloseOnExec(reportFD)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// Ignore SIGPIPE, which would kill this process. A write into a broken report pipe then returns an error.
	signal.Ignore(syscall.SIGPIPE)

	l := layout{dir: dir}
	state, err := loadState(l)
	if err != nil {
		return err
	}
	state.Supervisor = os.Getpid()
	if state.Network != nil {
		// The claim to the network must end with this process.
		syscall.CloseOnExec(networkFD)
		state.Cgroup = node.CgroupName()
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the devcluster binary: %w", err)
	}
	pipe := os.NewFile(reportFD, "reports")
	s := &supervisor{layout: l, state: state, reports: json.NewEncoder(pipe)}
	s.group = supervise.NewGroup(supervise.Options{
		Executable: executable,
		Dir:        dir,
		Logs:       l.logs(),
		Env:        environment(dir),
		Changed:    func(all []supervise.Status) { s.update(func(state *State) { state.Processes = all }) },
	})
	s.update(func(*State) {})
	return s.run(signals, pipe)
}

func (s *supervisor) run(signals <-chan os.Signal, pipe *os.File) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if owner := s.state.Options.OwnerPID; owner != 0 {
		go func() {
			if supervise.WaitForEnd(ctx, owner) == nil {
				cancel(errOwnerEnded)
			}
		}()
	}
	started := make(chan error, 1)
	go func() { started <- s.start(ctx) }()

	for {
		select {
		case err := <-started:
			if err == nil {
				err = s.ready()
			}
			if err != nil {
				cancel(err)
				continue
			}
			_ = pipe.Close()
		case exit := <-s.group.Exits():
			log.Printf("%s ended: %s", exit.Name, exit.Exit)
			if s.phase() == Starting {
				cancel(exitError(exit))
			}
		case got := <-signals:
			if got == syscall.SIGHUP {
				s.serveRequests()
				continue
			}
			cancel(errTakenDown)
		case <-ctx.Done():
			return s.stop(context.Cause(ctx))
		}
	}
}

// ready tells `up` that the cluster is ready. If `up` was killed, the report pipe is broken, so ready returns an error, and the cluster stops.
func (s *supervisor) ready() error {
	s.update(func(state *State) { state.Phase = Ready })
	if err := s.reports.Encode(report{Ready: true}); err != nil {
		return fmt.Errorf("tell `up` that the cluster is ready: %w", err)
	}
	return nil
}

// stop ends all components. If the cluster's owner has ended, stop also removes the directory. In all other cases, `down` removes it.
func (s *supervisor) stop(cause error) error {
	starting := s.phase() == Starting
	failed := starting && !errors.Is(cause, errTakenDown)
	s.update(func(state *State) {
		state.Phase = Stopping
		if failed {
			state.Phase, state.Error = Failed, cause.Error()
		}
	})
	log.Printf("stopping: %v", cause)
	s.group.StopAll(patience)
	left := s.layout.sweep(s.state)
	if left != nil {
		log.Print(left)
	}
	if starting {
		// Send this report last, so that no process of the cluster is left when `up` returns.
		_ = s.reports.Encode(report{Error: cause.Error()})
	}
	if errors.Is(cause, errOwnerEnded) {
		return errors.Join(left, s.layout.remove())
	}
	return nil
}

func (s *supervisor) phase() Phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Phase
}

func (s *supervisor) update(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.state)
	if err := s.state.save(s.layout); err != nil {
		log.Print(err)
	}
}

func (s *supervisor) progress(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	log.Print(text)
	if err := s.reports.Encode(report{Progress: text}); err != nil {
		return fmt.Errorf("tell `up` about the progress: %w", err)
	}
	return nil
}

func exitError(exit supervise.Status) error {
	return fmt.Errorf("%s ended while the cluster was starting (%s): its log is %s%s", exit.Name, exit.Exit, exit.Log, lastLine(exit.Log))
}

// environment returns the environment of the components. It hides the user's configuration files, proxies and kubeconfig. It passes on GOGC and
// GOMAXPROCS, because a high GOGC and GOMAXPROCS=1 save processor time if many clusters run side by side.
func environment(dir string) []string {
	all := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "NO_PROXY=*"} //nolint:forbidigo // Programs are found in the PATH.
	for _, variable := range []string{"GOGC", "GOMAXPROCS"} {
		if value := os.Getenv(variable); value != "" { //nolint:forbidigo // As Go reads it.
			all = append(all, variable+"="+value)
		}
	}
	return all
}
