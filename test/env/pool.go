package env

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/csi-operators/csi-operators/test/env/sweep"
)

// Pool has the clusters of a package's tests. Each test has one of them to itself until it ends, and leaves it as the next one expects it, or the
// pool sweeps it. Tests that only wait so run side by side.
type Pool struct {
	// Size is how many clusters tests have at a time. One is started when a test finds none.
	Size int
	// Most, if set, is how many clusters there are at most: a test waits for one of them. It is for pools that have few tests of a package.
	Most int
	// Flags are those of "devcluster up".
	Flags []string
	// InOrder says that tests run one after the other, in the order of their files, so that the last one may leave a cluster that is of no more use.
	InOrder bool
	// Sweeps says that tests leave everything behind: the pool takes each cluster back to what it was when Prepare had ended.
	Sweeps bool
	// Prepare, if set, gives a new cluster what all tests expect.
	Prepare func(ctx context.Context, cluster *Cluster) error
	// Check, if set, looks at all clusters when all tests have run. Passed says whether they have passed.
	Check func(clusters []*Cluster, passed bool) error

	mutex   sync.Mutex
	turns   chan struct{}
	free    []*Cluster
	started []*Cluster
	// flags are the further flags with which a cluster was started, and states what it was then.
	flags  map[*Cluster]string
	states map[*Cluster]sweep.State
}

// Run runs the tests and stops all clusters, those of further pools too. It returns the exit code of the package.
func (p *Pool) Run(m *testing.M, further ...*Pool) int {
	err := flag.Set("test.parallel", strconv.Itoa(p.Size))
	code := 1
	if err == nil {
		code = m.Run()
		if p.Check != nil {
			err = p.Check(p.started, code == 0)
		}
	}
	for _, pool := range append(further, p) {
		for _, cluster := range pool.started {
			err = errors.Join(err, cluster.Stop(context.Background()))
		}
	}
	if err != nil {
		// hack/testrun knows these words: it is no test that has failed, so that none is tried again.
		fmt.Fprintln(os.Stderr, "PACKAGE FAILED:", err)
		return 1
	}
	return code
}

// Lend gives a test a cluster until the test ends, one that was started with these flags as well. That of a test that fails is lent to nobody else.
func (p *Pool) Lend(t *testing.T, flags ...string) *Cluster {
	t.Helper()
	if !p.InOrder {
		t.Parallel()
	}
	p.await(t)
	key := strings.Join(flags, " ")
	cluster := p.take(key)
	if cluster == nil {
		Must(t, p.makeRoom())
		var err error
		cluster, err = Start(t.Context(), slices.Concat(p.Flags, flags)...)
		Must(t, err)
		p.mutex.Lock()
		p.started = append(p.started, cluster)
		p.mutex.Unlock()
		if p.Prepare != nil {
			Must(t, p.Prepare(t.Context(), cluster))
		}
		Must(t, p.remember(t.Context(), cluster, key))
	}
	t.Cleanup(func() { p.giveBack(t, cluster) })
	return cluster
}

// LendForGood is Lend for a test after which no other test can use the cluster: the next test starts another one.
func (p *Pool) LendForGood(t *testing.T) *Cluster {
	t.Helper()
	cluster := p.Lend(t)
	t.Cleanup(func() { cluster.spent = true })
	return cluster
}

// await waits until fewer tests than Most have a cluster. It is this test's turn until its cluster was given back.
func (p *Pool) await(t *testing.T) {
	t.Helper()
	if p.Most == 0 {
		return
	}
	p.mutex.Lock()
	if p.turns == nil {
		p.turns = make(chan struct{}, p.Most)
	}
	turns := p.turns
	p.mutex.Unlock()
	select {
	case turns <- struct{}{}:
		t.Cleanup(func() { <-turns })
	case <-t.Context().Done():
		t.Fatal("the test ended while it waited for a cluster")
	}
}

// take finds a cluster that was started with these flags.
func (p *Pool) take(key string) *Cluster {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i, cluster := range slices.Backward(p.free) {
		if p.flags[cluster] == key {
			p.free = slices.Delete(p.free, i, i+1)
			return cluster
		}
	}
	return nil
}

// makeRoom stops a cluster of other flags that nobody has: one that idles has its price, too.
func (p *Pool) makeRoom() error {
	p.mutex.Lock()
	if len(p.free) == 0 || len(p.started) < p.Size {
		p.mutex.Unlock()
		return nil
	}
	oldest := p.free[0]
	p.free = p.free[1:]
	p.mutex.Unlock()
	return p.drop(oldest)
}

// remember records what a new cluster is.
func (p *Pool) remember(ctx context.Context, cluster *Cluster, key string) error {
	var state sweep.State
	if p.Sweeps {
		err := Await(ctx, "the new cluster settled", func() error {
			before := state
			var err error
			state, err = cluster.Swept().Record(ctx)
			return errors.Join(err, before.Settled(state))
		})
		if err != nil {
			return err
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.flags == nil {
		p.flags, p.states = map[*Cluster]string{}, map[*Cluster]sweep.State{}
	}
	p.flags[cluster], p.states[cluster] = key, state
	return nil
}

// giveBack lets the next test have the cluster. One that can't be swept is stopped: the next test starts another one.
func (p *Pool) giveBack(t *testing.T, cluster *Cluster) {
	t.Helper()
	if t.Failed() || cluster.spent {
		return
	}
	if p.Sweeps {
		p.mutex.Lock()
		state := p.states[cluster]
		p.mutex.Unlock()
		if err := cluster.Sweep(context.Background(), state); err != nil {
			fmt.Fprintf(os.Stderr, "after %s, the cluster is not lent again: %v\n", t.Name(), err)
			if err := p.drop(cluster); err != nil {
				t.Error(err)
			}
			return
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.free = append(p.free, cluster)
}

// Sweep takes the cluster back to a state, and returns an error if it does not come to be as it was.
func (c *Cluster) Sweep(ctx context.Context, state sweep.State) error {
	c.left = nil
	swept := func() error { return c.Swept().Sweep(ctx, state) }
	if err := Await(ctx, "the cluster as it was lent", swept); err != nil {
		return err
	}
	// Controllers have reported meanwhile, and may have been at work still.
	if err := c.Swept().Forget(ctx); err != nil {
		return err
	}
	return Await(ctx, "the cluster as it was lent, still", swept)
}

func (p *Pool) drop(cluster *Cluster) error {
	p.mutex.Lock()
	p.started = slices.DeleteFunc(p.started, func(other *Cluster) bool { return other == cluster })
	p.mutex.Unlock()
	return cluster.Stop(context.Background())
}
