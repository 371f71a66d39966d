package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/test/env"
)

// contested is a cluster that several runs use at once. The API server keeps its Namespace, if any.
type contested struct {
	*remembered
	mutex sync.Mutex
	at    *corev1.Namespace
	// before is called before each command, without the lock.
	before func(line string)
}

// killedRun is a cluster with what a killed run has left.
func killedRun(t *testing.T) *contested {
	t.Helper()
	cluster, noted := ours()
	at := noteIn(t, "killed", noted)
	at.UID, at.ResourceVersion, at.Annotations[alive] = "space", "1", "then"
	return &contested{remembered: cluster, at: &at, before: func(string) {}}
}

// run returns a run of the proof that uses the cluster.
func (c *contested) run(id string) *proof {
	p := c.opened()
	p.id, p.command, p.beat, p.patience = id, c.command, 25*time.Millisecond, time.Minute
	return p
}

func (c *contested) command(ctx context.Context, input, name string, args ...string) (string, error) {
	line := strings.Join(args, " ")
	c.before(line)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	isNamespace := len(args) > 1 && args[1] == "namespace"
	switch {
	case args[0] == "create" && c.at != nil:
		return "", errors.New("oc create: exit status 1: Error from server (AlreadyExists)")
	case args[0] == "create":
		c.at = &corev1.Namespace{}
		c.at.UID, c.at.ResourceVersion = "new", "1000"
		return "", yaml.Unmarshal([]byte(input), c.at)
	case args[0] == "annotate" && slices.Contains(args, "-l"):
		if c.at == nil || "-l "+runLabel+"="+c.at.Labels[runLabel] != args[3]+" "+args[4] {
			return "", nil
		}
		return "namespace/" + space, c.change(func(at *corev1.Namespace) error {
			at.Annotations[alive] = sign()
			return nil
		})
	case isNamespace && args[0] == "get" && c.at == nil:
		return "", nil
	case isNamespace && args[0] == "get":
		return asJSON(c.at)
	case isNamespace && args[0] == "patch" && c.at == nil:
		return "", errors.New("oc patch: exit status 1: Error from server (NotFound)")
	case isNamespace && args[0] == "patch":
		return "", c.change(func(at *corev1.Namespace) error {
			patch := &corev1.Namespace{}
			if err := json.Unmarshal([]byte(args[len(args)-1]), patch); err != nil || patch.ResourceVersion != at.ResourceVersion {
				return errors.New("oc patch: exit status 1: Error from server (Conflict)")
			}
			return json.Unmarshal([]byte(args[len(args)-1]), at)
		})
	case strings.HasPrefix(line, "delete --raw /api/v1/namespaces/"+space) && strings.Contains(input, string(c.at.UID)):
		c.at = nil
	}
	return c.remembered.command(ctx, input, name, args...)
}

func (c *contested) change(how func(*corev1.Namespace) error) error {
	version, _ := strconv.Atoi(c.at.ResourceVersion)
	if err := how(c.at); err != nil {
		return err
	}
	c.at.ResourceVersion = strconv.Itoa(version + 1)
	return nil
}

func (c *contested) has(line string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.changed(line)) > 0
}

// Both have seen that the killed run gives no sign of life.
func TestOfTwoCleanUpsOnlyOneTakesOver(t *testing.T) {
	cluster := killedRun(t)
	var both, ended sync.WaitGroup
	both.Add(2)
	cluster.before = func(line string) {
		if strings.HasPrefix(line, "patch namespace") {
			both.Done()
			both.Wait()
		}
	}
	problems := make([]error, 2)
	for i, id := range []string{"one", "two"} {
		ended.Go(func() { problems[i] = cluster.run(id).cleanUpEarlier(t.Context()) })
	}
	ended.Wait()
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "only one run can") {
		t.Errorf("the errors are %v", problems)
	}
	if len(cluster.changed("storage uninstall efs")) != 1 || len(cluster.objects) > 0 || cluster.at != nil {
		t.Errorf("left are %v, and the commands are %q", cluster.objects, cluster.did)
	}
}

// A clean-up takes minutes in AWS.
func TestACleanUpIsNotTakenForAnEndedRun(t *testing.T) {
	for _, hasNamespace := range []bool{true, false} {
		cluster := killedRun(t)
		if !hasNamespace {
			cluster.at = nil
		}
		var once sync.Once
		cluster.before = func(line string) {
			if strings.HasPrefix(line, "-n "+space+" delete pods") {
				once.Do(func() {
					if err := cluster.run("second").cleanUpEarlier(t.Context()); err == nil || !strings.Contains(err.Error(), "another run works") {
						t.Errorf("the error of the second is %v", err)
					}
				})
			}
		}
		p := cluster.run("first")
		p.cleanOnly = true
		if err := p.cleanUpEarlier(t.Context()); err != nil || cluster.at != nil {
			t.Errorf("%v, and the namespace is %v", err, cluster.at)
		}
		if !hasNamespace && !cluster.has("delete --raw /api/v1/namespaces/"+space) {
			t.Errorf("without the namespace, another run could have begun meanwhile: the commands are %q", cluster.did)
		}
	}
}

// A laptop slept for longer than other runs wait for its next sign of life. All that the run does between two of its looks may be too late.
func TestARunThatHasLostItsNamespaceChangesNothing(t *testing.T) {
	for _, at := range []string{"get namespace", "-n " + space + " delete pods", "get -n " + space + " pods"} {
		cluster := killedRun(t)
		cluster.at.Labels[runLabel] = "this"
		cluster.shares = map[string]string{shareName: "fs-1"}
		cluster.lists["pods"] = corev1.PodList{}
		var once sync.Once
		did := 0
		cluster.before = func(line string) {
			if strings.HasPrefix(line, at) {
				once.Do(func() {
					cluster.mutex.Lock()
					defer cluster.mutex.Unlock()
					cluster.at.Labels[runLabel], did = "another", len(cluster.did)
				})
			}
		}
		err := cluster.run("this").cleanUp(t.Context(), func() {})
		if err == nil || !strings.Contains(err.Error(), "another run") {
			t.Errorf("%s: the error is %v", at, err)
		}
		// A command that has begun goes on.
		if len(cluster.did) > did+1 || cluster.at == nil {
			t.Errorf("%s: the commands are %q", at, cluster.did)
		}
	}
}

func TestARunEndsWhenItHasLostItsNamespace(t *testing.T) {
	cluster := killedRun(t)
	cluster.at = nil
	p := cluster.run("this")
	hang := make(chan struct{})
	defer close(hang)
	p.command = func(ctx context.Context, input, name string, args ...string) (string, error) {
		// The first step waits for the cluster.
		if args[0] != "get" || !strings.Contains(args[1], "clustercsidrivers") {
			return cluster.command(ctx, input, name, args...)
		}
		cluster.mutex.Lock()
		cluster.at.Labels[runLabel] = "another"
		cluster.mutex.Unlock()
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-hang:
			return "", nil
		}
	}
	err := p.work(t.Context(), []string{"install"})
	if !errors.Is(err, errLost) || len(cluster.did) > 0 {
		t.Errorf("the error is %v, and the commands are %q", err, cluster.did)
	}
}

// Both runs were started at once, and the other one has made the Namespace.
func TestTheCleanUpLeavesAnotherRunAlone(t *testing.T) {
	cluster := killedRun(t)
	cluster.shares = map[string]string{shareName: "fs-1"}
	if err := cluster.run("this").cleanUp(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "another run") || len(cluster.did) > 0 {
		t.Errorf("the error is %v, and the commands are %q", err, cluster.did)
	}
}

// A run that renews its annotation is at work. What a killed run has left is cleaned up.
func TestARunAtWorkIsNotTakenForAnEarlierOne(t *testing.T) {
	for _, works := range []bool{true, false} {
		cluster := killedRun(t)
		if works {
			cluster.before = func(string) {
				cluster.mutex.Lock()
				defer cluster.mutex.Unlock()
				env.Must(t, cluster.change(func(at *corev1.Namespace) error {
					at.Annotations[alive] = sign()
					return nil
				}))
			}
		}
		err := cluster.run("this").cleanUpEarlier(t.Context())
		if works && (err == nil || !strings.Contains(err.Error(), "another run") || len(cluster.did) > 0) {
			t.Errorf("the error is %v, and the commands are %q", err, cluster.did)
		}
		if !works && (err != nil || len(cluster.objects) > 0) {
			t.Errorf("left are %v (%v)", cluster.objects, err)
		}
	}
}

// The clean-up after a Ctrl-C is a part of the run.
func TestARunRenewsItsAnnotationToItsEnd(t *testing.T) {
	cluster := killedRun(t)
	cluster.at = nil
	p := cluster.run("this")
	p.beat = time.Millisecond
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var once sync.Once
	cluster.before = func(line string) {
		if strings.HasPrefix(line, "-n "+space+" delete pods") {
			once.Do(func() {
				read := func() string {
					cluster.mutex.Lock()
					defer cluster.mutex.Unlock()
					return cluster.at.Annotations[alive]
				}
				first := read()
				env.Must(t, p.until(t.Context(), "the annotation is new", func() error {
					if read() == first {
						return errors.New("it is that of the beginning")
					}
					return nil
				}))
			})
		}
	}
	p.patience = 10 * time.Second
	p.command = func(ctx context.Context, input, name string, args ...string) (string, error) {
		if args[0] == "create" {
			ctx = t.Context()
		}
		return cluster.command(ctx, input, name, args...)
	}
	if err := p.work(ctx, nil); err == nil || err.Error() != "interrupted" {
		t.Errorf("the error is %v", err)
	}
}

// cleanTwice starts two clean-ups at once, as a person and a job of a CI can. One of them cleans up, and the other one does nothing.
func (a *account) cleanTwice(t *testing.T) {
	t.Helper()
	second := a.prove(t.TempDir(), "-clean")
	var said bytes.Buffer
	second.Stdout, second.Stderr = &said, &said
	env.Must(t, second.Start())
	output, first := a.prove(t.TempDir(), "-clean").CombinedOutput()
	other := second.Wait()
	t.Logf("the first:\n%s\nthe second:\n%s", output, said.String())
	if first == nil {
		output = said.Bytes()
	}
	if first != nil && other != nil || (first != nil || other != nil) && !bytes.Contains(output, []byte("another run works")) &&
		!bytes.Contains(output, []byte("only one run can")) {
		t.Errorf("the clean-ups have ended with %v and %v", first, other)
	}
}
