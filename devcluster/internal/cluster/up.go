package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/csi-operators/csi-operators/devcluster/internal/node"
	"github.com/csi-operators/csi-operators/devcluster/internal/openshift"
	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// report is one line that the supervisor sends to `up` during the start.
type report struct {
	Progress string `json:"progress,omitempty"`
	Error    string `json:"error,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
}

// Up starts a cluster in the directory. When the cluster is ready, Up returns the path of the administrator's kubeconfig. If the start fails, Up
// keeps the directory, because it has the logs.
func Up(ctx context.Context, dir string, options Options, progress io.Writer) (string, error) {
	if err := options.Validate(); err != nil {
		return "", err
	}
	l, err := newLayout(dir)
	if err != nil {
		return "", err
	}
	if options.OwnerPID != 0 && syscall.Kill(options.OwnerPID, 0) == syscall.ESRCH {
		return "", fmt.Errorf("--owner-pid is %d: there is no such process", options.OwnerPID)
	}
	if err := openshift.CheckCRDs(); err != nil {
		return "", err
	}
	lock, err := l.claim(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	network, err := l.prepare(options)
	defer func() { _ = network.Close() }()
	if err != nil {
		// No component was started, so there is no log to keep.
		return "", errors.Join(err, l.remove())
	}
	supervisor, reports, err := l.spawn(lock, network)
	if err != nil {
		return "", errors.Join(err, l.remove())
	}
	defer func() { _ = reports.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = supervisor.Process.Signal(syscall.SIGTERM) })
	defer stop()

	err = l.printProgress(reports, progress)
	if ctx.Err() != nil {
		_ = supervisor.Wait()
		return "", errors.Join(errors.New("interrupted: the cluster was taken down"), l.remove())
	}
	if err != nil {
		_ = supervisor.Wait()
		if _, gone := os.Stat(l.logs()); gone != nil {
			// The owner of the cluster has ended, or a user has run `down`, so the directory is gone.
			return "", err
		}
		return "", fmt.Errorf("%w\nThe logs are kept in %s; remove them with: devcluster down --dir %s", err, l.logs(), Quote(l.dir))
	}
	return l.adminKubeconfig(), nil
}

// claim locks the directory for this cluster. If it can't, the error says why. If an earlier cluster in the directory was killed or ended with
// the machine, claim removes what is left of that cluster.
func (l layout) claim(ctx context.Context) (*os.File, error) {
	entries, err := os.ReadDir(l.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the cluster's directory: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("look into --dir: %w", err)
	case len(entries) > 0:
		if _, err := os.Stat(l.marker()); err != nil {
			return nil, fmt.Errorf("--dir %s holds other files: choose an empty directory or one that does not exist", l.dir)
		}
	}
	lock, err := supervise.Lock(l.marker())
	if errors.Is(err, supervise.ErrLocked) {
		return nil, fmt.Errorf("a cluster runs in %s already: choose another --dir, or take it down with: devcluster down --dir %s",
			l.dir, Quote(l.dir))
	}
	if err != nil {
		return nil, err
	}
	if err := l.clear(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// clear removes what is left of an earlier cluster, if that cluster was ready once. It keeps the lock file, which the caller has locked. If the
// earlier cluster was never ready, clear returns an error, because its logs may be needed.
func (l layout) clear(ctx context.Context) error {
	left, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("look into --dir: %w", err)
	}
	var names []string
	for _, entry := range left {
		if l.path(entry.Name()) != l.marker() {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return nil
	}
	if state, err := loadState(l); err != nil || state.Phase != Ready {
		return fmt.Errorf("%s holds what is left of a cluster that has ended: remove it with: devcluster down --dir %s", l.dir, Quote(l.dir))
	}
	if err := l.finish(ctx); err != nil {
		return err
	}
	return l.remove(names...)
}

// prepare chooses ports, and writes every file that the components read. If the cluster has nodes with a kubelet, prepare returns the open file that
// claims the network of these nodes.
func (l layout) prepare(options Options) (*os.File, error) {
	chosen, err := choosePorts(options.Port)
	if err != nil {
		return nil, err
	}
	state := &State{
		Phase:      Starting,
		URL:        fmt.Sprintf("https://%s:%d", host, chosen.API),
		Kubeconfig: l.adminKubeconfig(),
		Supervisor: os.Getpid(),
		Options:    options,
		Ports:      chosen,
	}
	network, err := l.planNodes(state)
	if err != nil {
		return nil, err
	}
	if err := state.save(l); err != nil {
		return network, err
	}
	return network, l.writeFiles(state)
}

// planNodes finds what nodes with a kubelet need on this machine, and claims a network for these nodes. It also removes the cgroups of killed
// clusters.
func (l layout) planNodes(state *State) (*os.File, error) {
	if state.Options.Profile.RealNodes == 0 {
		return nil, nil
	}
	machine, err := node.Check(l.dir)
	if err != nil {
		return nil, err
	}
	if err := node.Sweep("", nil); err != nil {
		return nil, err
	}
	plan, claimed, err := node.FindPlan()
	if err != nil {
		return nil, err
	}
	state.Machine, state.Network = &machine, &plan
	return claimed, nil
}

// spawn starts the supervisor in a session of its own, so that the supervisor survives the end of the terminal. The supervisor inherits the lock,
// one end of a pipe and, if there is one, the claim to a network. spawn returns the other end of the pipe.
func (l layout) spawn(lock, network *os.File) (*exec.Cmd, *os.File, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find the devcluster binary: %w", err)
	}
	log, err := os.Create(l.path("logs", Supervisor+".log"))
	if err != nil {
		return nil, nil, fmt.Errorf("make the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe to the supervisor: %w", err)
	}
	defer func() { _ = writer.Close() }()
	command := exec.Command(executable, Supervisor, l.dir)
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = []*os.File{lock, writer}
	if network != nil {
		command.ExtraFiles = append(command.ExtraFiles, network)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		_ = reader.Close()
		return nil, nil, fmt.Errorf("start the supervisor: %w", err)
	}
	return command, reader, nil
}

// printProgress prints the progress that the supervisor reports, until the cluster is ready or has failed.
func (l layout) printProgress(reports io.Reader, progress io.Writer) error {
	begin := time.Now()
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		var line report
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("understand the supervisor's report %q: %w", lines.Text(), err)
		}
		switch {
		case line.Error != "":
			return errors.New(line.Error)
		case line.Ready:
			_, _ = fmt.Fprintf(progress, "devcluster: ready in %.1f s\n", time.Since(begin).Seconds())
			return nil
		default:
			_, _ = fmt.Fprintf(progress, "devcluster: %s\n", line.Progress)
		}
	}
	return fmt.Errorf("the supervisor ended without a report: its log is %s", l.path("logs", Supervisor+".log"))
}
