package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

const (
	barWidth = 30
	// redraw is how often the bar is drawn at most.
	redraw = 100 * time.Millisecond
)

// progress shows how far a cleanup is: a bar on a terminal, and a line for each change elsewhere, such as in the log of CI.
type progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	drawn    time.Time
	// open is true if the cursor is behind a bar.
	open bool
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	p := &progress{out: out, now: now}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) step(step efscleanup.Step) {
	object := step.Object
	line := fmt.Sprintf("%s %s: %s", object.Kind, object.ID, object.State)
	if object.Reason != "" {
		line += ": " + object.Reason
	}
	problem := object.State == efscleanup.Refused || object.State == efscleanup.Failed
	switch {
	case !p.terminal:
		_, _ = fmt.Fprintf(p.out, "%d/%d %s\n", step.Done, step.Total, line)
		return
	case problem:
		// It stays above the bar.
		_, _ = fmt.Fprintf(p.out, "\r\033[K%s\n", line)
	case p.now().Sub(p.drawn) < redraw && step.Done < step.Total:
		return
	}
	p.drawn, p.open = p.now(), true
	filled := 0
	if step.Total > 0 {
		filled = barWidth * step.Done / step.Total
	}
	_, _ = fmt.Fprintf(p.out, "\r\033[K[%s%s] %d/%d %s %s", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled),
		step.Done, step.Total, object.Kind, object.ID)
}

// end leaves the bar behind.
func (p *progress) end() {
	if p.open {
		_, _ = fmt.Fprintln(p.out)
	}
	p.open = false
}
