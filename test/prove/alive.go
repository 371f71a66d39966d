package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// alive is the annotation of the Namespace that a run renews while it works. Its value is the time.
const alive = "csi-operators/prove-alive"

// errLost ends a run whose Namespace another run has taken over: that of a laptop that slept, for example.
var errLost = errors.New("this run has lost namespace " + space + ": another run has taken it over, because this run gave no sign of life, or a person has " +
	"deleted it. This run has changed nothing since it noticed. When no other run works on this cluster, run this command with CLEAN=1")

func sign() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// beats renews the annotation until its caller calls end. The context that it returns ends with errLost when no Namespace has the label of this run.
func (p *proof) beats(ctx context.Context) (owning context.Context, end func()) {
	owning, lose := context.WithCancelCause(ctx)
	beating, stop := context.WithCancel(owning)
	var group sync.WaitGroup
	group.Go(func() {
		ticks := time.NewTicker(p.beat)
		defer ticks.Stop()
		for {
			select {
			case <-beating.Done():
				return
			case <-ticks.C:
				// Without a Namespace of this label, oc prints nothing. After an error, the next one may succeed.
				renewed, err := p.oc(beating, "annotate", "--overwrite", "namespace", "-l", runLabel+"="+p.id, alive+"="+sign(), "-o", "name",
					"--request-timeout", p.beat.String())
				if err == nil && strings.TrimSpace(renewed) == "" {
					lose(errLost)
					return
				}
			}
		}
	})
	return owning, func() {
		stop()
		group.Wait()
	}
}

// afterTheEnd waits until it is sure that the run that has made the Namespace has ended, and returns the Namespace as it is then, if it is still there.
// It returns an error if that run is at work. Two machines may have different clocks, so that only a change of the annotation counts.
func (p *proof) afterTheEnd(ctx context.Context, at *corev1.Namespace) (*corev1.Namespace, bool, error) {
	first, has := at.Annotations[alive]
	if !has {
		return at, true, nil
	}
	silence := 4 * p.beat
	p.say("Namespace %s is there. Watching for %s whether the run that has made it is still at work.", space, silence)
	ticks := time.NewTicker(p.poll)
	defer ticks.Stop()
	for deadline := time.Now().Add(silence); time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return nil, true, ctx.Err()
		case <-ticks.C:
		}
		now, there, err := p.found(ctx)
		if err != nil || !there {
			return nil, false, err
		}
		if now.Annotations[alive] != first {
			return nil, true, fmt.Errorf("another run works on this cluster: it has just renewed annotation %s of namespace %s. Wait until it has ended, or "+
				"end it with Ctrl-C, and run this command again", alive, space)
		}
		at = now
	}
	return at, true, nil
}

// takeOver makes the Namespace that of this run. Of several runs that try this at once, the API server lets one succeed: the others have read an older
// resourceVersion.
func (p *proof) takeOver(ctx context.Context, at *corev1.Namespace) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": at.ResourceVersion, "labels": map[string]string{runLabel: p.id}, "annotations": map[string]string{alive: sign()},
	}})
	if err != nil {
		return err
	}
	if _, err := p.oc(ctx, "patch", "namespace", space, "--type=merge", "--patch", string(patch)); err != nil {
		return fmt.Errorf("take over namespace %s from an earlier run, which only one run can: %w. If no other run is at work, run this command again",
			space, err)
	}
	return nil
}

// mine reads the Namespace, and returns an error unless it is that of this run.
func (p *proof) mine(ctx context.Context) (*corev1.Namespace, error) {
	at, there, err := p.found(ctx)
	if err == nil && (!there || at.Labels[runLabel] != p.id) {
		err = errLost
	}
	return at, err
}
