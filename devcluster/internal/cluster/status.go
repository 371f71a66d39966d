package cluster

import (
	"errors"
	"fmt"
	"os"

	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// Status returns the state of the cluster in the directory. The last entry of State.Processes is the supervisor.
func Status(dir string) (*State, error) {
	l, err := newLayout(dir)
	if err != nil {
		return nil, err
	}
	state, up, err := l.look()
	if err != nil {
		return nil, err
	}
	supervisor := supervise.Status{
		Name: Supervisor, PID: state.Supervisor, State: supervise.Running, Log: l.path("logs", Supervisor+".log"),
	}
	if !up {
		supervisor.State = supervise.Exited
		for i, process := range state.Processes {
			if process.State == supervise.Running && !supervise.Is(process.PID, process.Name) {
				state.Processes[i].State, state.Processes[i].Exit = supervise.Exited, "ended with the supervisor"
			}
		}
	}
	state.Processes = append(state.Processes, supervisor)
	return state, nil
}

// Dead returns an error if the cluster did not start, or if a process of the cluster does not run. The error has a sentence for each process that
// does not run.
func (s *State) Dead() error {
	if s.Phase == Failed {
		return fmt.Errorf("the cluster did not start: %s", s.Error)
	}
	var dead []error
	for _, process := range s.Processes {
		how := process.Exit
		if how == "" {
			how = "it left no exit status"
		}
		switch process.State {
		case supervise.Exited:
			dead = append(dead, fmt.Errorf("%s has died (%s): its log is %s", process.Name, how, process.Log))
		case supervise.Stopped:
			dead = append(dead, fmt.Errorf("%s was stopped (%s): its log is %s", process.Name, how, process.Log))
		case supervise.Running:
		}
	}
	return errors.Join(dead...)
}

// Kubeconfig returns the path of the administrator's kubeconfig, for the cluster that runs in the directory.
func Kubeconfig(dir string) (string, error) {
	_, state, err := live(dir)
	if err != nil {
		return "", err
	}
	return state.Kubeconfig, nil
}

// live returns the files and the state of the cluster that runs in a directory.
func live(dir string) (layout, *State, error) {
	l, err := newLayout(dir)
	if err != nil {
		return l, nil, err
	}
	state, up, err := l.look()
	if err != nil {
		return l, nil, err
	}
	if !up {
		return l, nil, fmt.Errorf("the cluster in %s has ended: remove it with: devcluster down --dir %s", l.dir, Quote(l.dir))
	}
	return l, state, nil
}

// look returns the state of the cluster, and whether its supervisor runs.
func (l layout) look() (*State, bool, error) {
	if _, err := os.Stat(l.marker()); err != nil {
		return nil, false, fmt.Errorf("there is no cluster in %s: start one with: devcluster up --dir %s", l.dir, Quote(l.dir))
	}
	up, err := running(l)
	if err != nil {
		return nil, false, err
	}
	state, err := loadState(l)
	return state, up, err
}
