package drivers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// interval is how often the cluster is read while waiting.
const interval = 3 * time.Second

// await reads the cluster until all drivers are available. An API server that is away for a while is waited for as well: it is part of an
// update.
func (c *command) await(ctx context.Context) (survey.Survey, error) {
	begun, last := c.Now(), survey.Survey{}
	show := &progress{command: c}
	defer show.end()
	for {
		found, err := survey.Read(ctx, c.Cluster)
		switch {
		case err == nil:
			last = found
			left, wanted := pending(found)
			if len(left) == 0 && len(found.Failures) == 0 && found.CRs.Known() {
				return found, nil
			}
			if !found.CRs.Known() && len(found.Failures) == 0 {
				return found, errors.New("wait: you may not list ClusterCSIDrivers, so nobody can tell when they are available; see: " +
					"oc auth can-i list clustercsidrivers.operator.openshift.io")
			}
			show.line(fmt.Sprintf("%d of %d drivers available", wanted-len(left), wanted), strings.Join(left, "; "))
		case ctx.Err() != nil:
			return last, unfinished("interrupted")
		default:
			show.line("the API server can't be asked", err.Error())
		}
		if c.timeout > 0 && c.Now().Sub(begun) >= c.timeout {
			return last, unfinished(fmt.Sprintf("not all drivers are available after %s", c.timeout))
		}
		select {
		case <-ctx.Done():
			return last, unfinished("interrupted")
		case <-c.after(interval):
		}
	}
}

func unfinished(why string) error {
	return &plugin.ExitError{Code: plugin.Unfinished, Err: fmt.Errorf("%s: run the command again to go on waiting", why)}
}

// progress overwrites its line on a terminal. Elsewhere it writes a line when something has changed.
type progress struct {
	*command
	last string
	open bool
}

func (p *progress) line(count, rest string) {
	text := count
	if rest != "" {
		text += ": " + rest
	}
	switch {
	case p.Streams.ErrOut == nil, text == p.last:
	case p.ShowsProgress():
		_, _ = fmt.Fprintf(p.Streams.ErrOut, "\r\x1b[K%s", shorten(text))
		p.open = true
	default:
		_, _ = fmt.Fprintln(p.Streams.ErrOut, text)
	}
	p.last = text
}

// end leaves the line to what comes next.
func (p *progress) end() {
	if p.open {
		_, _ = fmt.Fprint(p.Streams.ErrOut, "\r\x1b[K")
	}
}
