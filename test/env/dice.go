package env

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// DefaultRounds is the share of make test.
const DefaultRounds = 5

// Rounds is how often something is disturbed: DefaultRounds times, or as often as FAULT_ROUNDS says; make soak sets it.
func Rounds(t *testing.T) int {
	t.Helper()
	return number(t, "FAULT_ROUNDS", DefaultRounds)
}

// IsSoak tells whether this is make soak, and not the share of make test: then crowds are as large as they get.
func IsSoak(t *testing.T) bool {
	t.Helper()
	return Rounds(t) > DefaultRounds
}

// OnlySoak skips a test in make test: there another test of the same shape runs, and make soak runs both.
func OnlySoak(t *testing.T) {
	t.Helper()
	if !IsSoak(t) {
		t.Skip("make soak runs this: set FAULT_ROUNDS")
	}
}

// Dice are thrown alike for the same seed, FAULT_SEED, which the test prints; make soak chooses others than 1.
func Dice(t *testing.T) *rand.Rand {
	t.Helper()
	seed := number(t, "FAULT_SEED", 1)
	t.Logf("FAULT_SEED=%d", seed)
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

func number(t *testing.T, variable string, fallback int) int {
	t.Helper()
	text := os.Getenv(variable) //nolint:forbidigo // A test has no flags; so make soak says it.
	if text == "" {
		return fallback
	}
	value, err := strconv.Atoi(text)
	Must(t, err)
	return value
}
