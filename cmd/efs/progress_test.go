package main

import (
	"strings"
	"testing"
	"time"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

func object(id string, state efscleanup.State, reason string) efscleanup.Object {
	return efscleanup.Object{Kind: efscleanup.AccessPoint, ID: id, State: state, Reason: reason}
}

func TestProgressIsALineForEachChangeInALog(t *testing.T) {
	var out strings.Builder
	bar := newProgress(&out, time.Now)
	bar.step(efscleanup.Step{Object: object("fsap-1", efscleanup.Deleted, ""), Done: 1, Total: 2})
	bar.step(efscleanup.Step{Object: object("fsap-2", efscleanup.Failed, "denied"), Done: 2, Total: 2})
	bar.end()
	if want := "1/2 access point fsap-1: deleted\n2/2 access point fsap-2: failed: denied\n"; out.String() != want {
		t.Errorf("it prints %q, want %q", out.String(), want)
	}
}

func TestProgressIsABarOnATerminal(t *testing.T) {
	var out strings.Builder
	now := time.Now()
	bar := newProgress(&out, func() time.Time { return now })
	bar.terminal = true
	bar.step(efscleanup.Step{Object: object("fsap-1", efscleanup.Deleted, ""), Done: 1, Total: 4})
	// Too soon to be seen.
	bar.step(efscleanup.Step{Object: object("fsap-2", efscleanup.Deleted, ""), Done: 2, Total: 4})
	bar.step(efscleanup.Step{Object: object("fsap-3", efscleanup.Refused, "not ours"), Done: 3, Total: 4})
	now = now.Add(time.Second)
	bar.step(efscleanup.Step{Object: object("fsap-4", efscleanup.Deleted, ""), Done: 4, Total: 4})
	bar.end()
	const start = "\r\033[K"
	want := start + "[" + strings.Repeat("#", 7) + strings.Repeat(".", 23) + "] 1/4 access point fsap-1" +
		start + "access point fsap-3: refused: not ours\n" +
		start + "[" + strings.Repeat("#", 22) + strings.Repeat(".", 8) + "] 3/4 access point fsap-3" +
		start + "[" + strings.Repeat("#", 30) + "] 4/4 access point fsap-4\n"
	if out.String() != want {
		t.Errorf("it prints\n%q, want\n%q", out.String(), want)
	}
}
