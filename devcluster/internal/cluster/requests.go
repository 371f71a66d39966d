package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csi-operators/csi-operators/devcluster/internal/supervise"
)

// A file in the cluster's directory requests that a component stops or starts. The name of the file is the component's name, and the content is one
// of these words. A signal makes the supervisor read these files. Unlike a socket, a file also works in a directory with a long path.
const (
	requestStop  = "stop"
	requestStart = "start"
)

// StopComponent stops one component. All other components keep running.
func StopComponent(ctx context.Context, dir, name string) error {
	return request(ctx, dir, name, requestStop, func(state supervise.State) bool { return state != supervise.Running })
}

// StartComponent starts a component that was stopped or has died.
func StartComponent(ctx context.Context, dir, name string) error {
	err := request(ctx, dir, name, requestStart, func(state supervise.State) bool { return state == supervise.Running })
	if err != nil || name != APIServer {
		return err
	}
	// The components retry by themselves while the API server starts. Commands that a user starts next do not retry, so wait here.
	return waitForAPI(ctx, dir)
}

func waitForAPI(ctx context.Context, dir string) error {
	kubeconfig, err := Kubeconfig(dir)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	limit, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	if err := poll(limit, func(ctx context.Context) bool { return answers(ctx, client, config.Host+"/readyz") }); err != nil {
		return fmt.Errorf("wait until kube-apiserver is ready: %w", err)
	}
	return nil
}

func request(ctx context.Context, dir, name, word string, done func(supervise.State) bool) error {
	l, state, err := live(dir)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(state.Processes))
	for _, process := range state.Processes {
		names = append(names, process.Name)
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("%s %s: there is no such component; the components are %s", word, name, strings.Join(names, ", "))
	}
	file := filepath.Join(l.requests(), name)
	if err := replaceFile(file, []byte(word)); err != nil {
		return err
	}
	if err := syscall.Kill(state.Supervisor, syscall.SIGHUP); err != nil {
		return fmt.Errorf("%s %s: signal the supervisor, process %d: %w", word, name, state.Supervisor, err)
	}
	err = poll(ctx, func(context.Context) bool {
		_, err := os.Stat(file)
		return errors.Is(err, fs.ErrNotExist)
	})
	if err != nil {
		return fmt.Errorf("%s %s: the supervisor did not answer: %w; its log is %s", word, name, err, l.path("logs", Supervisor+".log"))
	}
	if state, err = loadState(l); err != nil {
		return err
	}
	for _, process := range state.Processes {
		if process.Name == name && !done(process.State) {
			return fmt.Errorf("%s %s: it is %s; the supervisor's log is %s", word, name, process.State, l.path("logs", Supervisor+".log"))
		}
	}
	return nil
}

// serveRequests carries out the requests in the request files. It removes each file afterwards.
func (s *supervisor) serveRequests() {
	files, err := os.ReadDir(s.layout.requests())
	if err != nil {
		log.Printf("look for requests: %v", err)
		return
	}
	for _, file := range files {
		path := filepath.Join(s.layout.requests(), file.Name())
		word, err := os.ReadFile(path)
		if err != nil {
			log.Printf("read a request: %v", err)
			continue
		}
		log.Printf("request: %s %s", word, file.Name())
		switch string(word) {
		case requestStop:
			s.group.Stop(file.Name(), patience)
		case requestStart:
			if err := s.group.Restart(file.Name()); err != nil {
				log.Print(err)
			}
		}
		if err := os.Remove(path); err != nil {
			log.Printf("finish a request: %v", err)
		}
	}
}
