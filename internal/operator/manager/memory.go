package manager

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Metrics of the Go runtime, in bytes: the total of all allocations, and the live heap after the last garbage collection.
const (
	allocations = "/gc/heap/allocs:bytes"
	inUse       = "/gc/heap/live:bytes"
)

const (
	// memoryInterval is the interval at which the operator reads the metrics allocations and inUse.
	memoryInterval = 10 * time.Second
	// slack is how much garbage can accumulate before a collection. Go's default is the size of the live heap, which is a lot in a large cluster.
	slack = 8 << 20
	// leastPercent and mostPercent limit the GC percentage that follows from slack. With a lower percentage, Go would collect garbage often. Each
	// collection of a large heap takes long.
	leastPercent, mostPercent = 25, 50
	// The operator returns memory to the system when a burst of work is over. A burst is over if the operator has allocated at least "burst" bytes since
	// it last returned memory, and fewer than "calm" bytes in the last interval.
	burst, calm = 16 << 20, 1 << 20
)

// memory limits the memory of the process. It limits the garbage, and returns memory to the system after a burst of work. Go itself returns little
// memory while a program is idle, and an operator is idle nearly always.
type memory struct {
	// returned is the total of all allocations when the operator last returned memory. seen is the total at the last reading.
	returned, seen uint64
	percent        int
}

// Start runs until ctx ends. If the environment sets GOGC, Start does not change the GC percentage.
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

// NeedLeaderElection returns false, because replicas that do not lead also have caches in memory.
func (*memory) NeedLeaderElection() bool { return false }

// percentFor returns the GC percentage for a live heap, in steps of 5.
func percentFor(inUse uint64) int {
	const step = 5
	wanted := min(max(slack*100/max(inUse, 1)/step*step, leastPercent), mostPercent)
	return int(wanted)
}

// isDue reports whether a burst of allocations is over.
func (m *memory) isDue(allocated uint64) bool {
	quiet := allocated-m.seen < calm
	m.seen = allocated
	if !quiet || allocated-m.returned < burst {
		return false
	}
	m.returned = allocated
	return true
}
