package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type writer func() error

func (w writer) Write(text []byte) (int, error) { return len(text), w() }

// Tests that print without end stand in for the suite. Whatever the reason, certify signals them before it ends them. So they can delete what they
// have created.
func TestTestsThatAreEndedCleanUp(t *testing.T) {
	full := errors.New("no space left on device")
	for name, want := range map[string]string{"the log can't be written": full.Error(), "interrupted": "a test has failed"} {
		t.Run(name, func(t *testing.T) {
			// With a handler here, as in main, the shell can have one, too.
			ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
			defer stop()
			log := writer(func() error {
				if want == full.Error() {
					return full
				}
				stop()
				return nil
			})
			c := &certification{folder: t.TempDir()}
			err := c.attend(ctx, log, "sh", "-c", "trap 'echo > deleted; exit 1' INT; while :; do echo line; done")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if _, err := os.Stat(filepath.Join(c.folder, "deleted")); err != nil {
				t.Error("the tests were not told to end:", err)
			}
		})
	}
}

// If the tests reach the limit, certify reports this as the reason. Its name comes before each error.
func TestTheLimitIsNoInterruption(t *testing.T) {
	c := &certification{limit: time.Minute}
	if err := c.early(t.Context()); err != nil {
		t.Error(err)
	}
	late, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	const want = "the tests did not end within 1m0s, the limit"
	if err := c.early(late); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	if err := c.early(interrupted); err == nil || err.Error() != "interrupted" {
		t.Errorf("%v, want interrupted", err)
	}
}
