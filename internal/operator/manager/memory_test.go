package manager

import "testing"

func TestMemoryIsGivenBackAfterABurst(t *testing.T) {
	const mebibyte = 1 << 20
	m := &memory{}
	for i, step := range []struct {
		allocated uint64
		want      bool
	}{
		{30 * mebibyte, false},       // The start.
		{60 * mebibyte, false},       // It goes on.
		{60*mebibyte + 1000, true},   // It is over.
		{60*mebibyte + 2000, false},  // Idle: nothing is collected again and again.
		{61*mebibyte - 500, false},   // Nearly idle.
		{75 * mebibyte, false},       // A small burst.
		{75*mebibyte + 1, false},     // It is not worth it.
		{77*mebibyte - 10000, false}, // More of it.
		{77*mebibyte - 9000, true},   // Together it is.
	} {
		if got := m.isDue(step.allocated); got != step.want {
			t.Errorf("step %d, %d bytes: %t", i, step.allocated, got)
		}
	}
}

func TestGarbageIsBounded(t *testing.T) {
	for inUse, want := range map[uint64]int{0: 50, 4 << 20: 50, 16 << 20: 50, 20 << 20: 40, 32 << 20: 25, 60 << 20: 25, 1 << 40: 25} {
		if got := percentFor(inUse); got != want {
			t.Errorf("%d MiB in use: %d, want %d", inUse>>20, got, want)
		}
	}
}
