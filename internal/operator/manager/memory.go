package manager

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What Go counts, in bytes: all that was ever allocated, and what the last collection of garbage has found in use.
const (
	allocations = "/gc/heap/allocs:bytes"
	inUse       = "/gc/heap/live:bytes"
)

const (
	// memoryInterval is how often these are looked at.
	memoryInterval = 10 * time.Second
	// slack is how much garbage may wait to be collected. Go's own measure is as much as is in use, which is a lot in a large cluster.
	slack = 16 << 20
	// leastPercent and mostPercent bound what follows from it: to collect garbage takes the longer the more is in use.
	leastPercent, mostPercent = 25, 100
	// burst is how much must have been allocated since memory was given back before it is again, and calm how much at most in an interval.
	burst, calm = 16 << 20, 1 << 20
)

// memory keeps what the process takes of the system near to what it needs. It bounds the garbage, and gives back what a burst of work has
// taken once that is over: Go itself keeps it for as long as nothing happens, and an operator rests nearly always.
type memory struct {
	// returned and seen are what had been allocated when memory was given back, and at the last look.
	returned, seen uint64
	percent        int
}

// Start works until ctx ends. Who sets GOGC decides about the garbage.
func (m *memory) Start(ctx context.Context) error {
	_, decided := os.LookupEnv("GOGC")
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		samples := []metrics.Sample{{Name: allocations}, {Name: inUse}}
		metrics.Read(samples)
		if percent := percentFor(samples[1].Value.Uint64()); percent != m.percent && !decided {
			debug.SetGCPercent(percent)
			m.percent = percent
		}
		if m.isDue(samples[0].Value.Uint64()) {
			debug.FreeOSMemory()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// NeedLeaderElection is false: whoever waits to lead has filled caches as well.
func (*memory) NeedLeaderElection() bool { return false }

// percentFor is by how much the heap may grow before garbage is collected, in steps of 5.
func percentFor(inUse uint64) int {
	const step = 5
	wanted := min(max(slack*100/max(inUse, 1)/step*step, leastPercent), mostPercent)
	return int(wanted)
}

// isDue reports whether there was a burst, and is none any more.
func (m *memory) isDue(allocated uint64) bool {
	quiet := allocated-m.seen < calm
	m.seen = allocated
	if !quiet || allocated-m.returned < burst {
		return false
	}
	m.returned = allocated
	return true
}
