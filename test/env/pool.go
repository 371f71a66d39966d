package env

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Pool has the clusters of a package's tests. Each test has one of them to itself until it ends, and leaves it as the next one expects it.
// Tests that only wait so run side by side.
type Pool struct {
	// Size is how many clusters there are at most. One is started when a test finds none.
	Size int
	// Flags are those of "devcluster up".
	Flags []string
	// Prepare, if set, gives a new cluster what all tests expect.
	Prepare func(ctx context.Context, cluster *Cluster) error
	// Check, if set, looks at all clusters when all tests have run. Passed says whether they have passed.
	Check func(clusters []*Cluster, passed bool) error

	mutex   sync.Mutex
	free    []*Cluster
	started []*Cluster
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
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Lend gives a test a cluster until the test ends. That of a test that fails is lent to nobody else.
func (p *Pool) Lend(t *testing.T) *Cluster {
	t.Helper()
	t.Parallel()
	cluster := p.take()
	if cluster == nil {
		var err error
		cluster, err = Start(t.Context(), p.Flags...)
		Must(t, err)
		p.mutex.Lock()
		p.started = append(p.started, cluster)
		p.mutex.Unlock()
		if p.Prepare != nil {
			Must(t, p.Prepare(t.Context(), cluster))
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.free = append(p.free, cluster)
		}
	})
	return cluster
}

func (p *Pool) take() *Cluster {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	last := len(p.free) - 1
	cluster := p.free[last]
	p.free = p.free[:last]
	return cluster
}
