package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// alive is the annotation of the Namespace that a run renews while it works. Its value is the time.
const alive = "csi-operators/prove-alive"

func sign() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// beats renews the annotation until its caller calls what it returns. A Ctrl-C does not end that, because the clean-up is a part of the run.
func (p *proof) beats(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() {
		ticks := time.NewTicker(p.beat)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				// The next one may succeed. At its end, the run deletes the Namespace.
				_, _ = p.oc(ctx, "annotate", "--overwrite", "namespace", space, alive+"="+sign())
			}
		}
	})
	return func() {
		cancel()
		group.Wait()
	}
}

// afterTheEnd waits until it is sure that the run that has made the Namespace has ended, and reports whether the Namespace is still there. It returns an
// error if that run is at work. Two machines may have different clocks, so that only a change of the annotation counts.
func (p *proof) afterTheEnd(ctx context.Context, at *corev1.Namespace) (bool, error) {
	first, has := at.Annotations[alive]
	if !has {
		return true, nil
	}
	silence := 4 * p.beat
	p.say("Namespace %s is there. Watching for %s whether the run that has made it is still at work.", space, silence)
	ticks := time.NewTicker(p.poll)
	defer ticks.Stop()
	for deadline := time.Now().Add(silence); time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-ticks.C:
		}
		now := &corev1.Namespace{}
		there, err := p.get(ctx, now, "namespace", space)
		if err != nil || !there {
			return false, err
		}
		if now.Annotations[alive] != first {
			return true, fmt.Errorf("another run works on this cluster: it has just renewed annotation %s of namespace %s. Wait until it has ended, or end "+
				"it with Ctrl-C, and run this command again", alive, space)
		}
	}
	return true, nil
}
