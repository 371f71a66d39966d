package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/test/env"
)

// crowd follows those objects of a kind that are expected, and notes when the last of them has come, is done, or has gone. To
// watch costs the control plane less than to ask again and again.
type crowd struct {
	expected map[client.ObjectKey]bool
	isDone   func(client.Object) bool

	mutex       sync.Mutex
	there, done map[client.ObjectKey]bool
	now         crowdState
}

// crowdState is how far a crowd is. A time is zero until that has happened.
type crowdState struct {
	there, done                int
	allThere, allDone, allGone time.Time
	// mostDone is when 19 of 20 were done.
	mostDone time.Time
	err      error
}

// gather follows a crowd until ctx ends. The list says of which kind it is.
func gather(
	ctx context.Context, cluster *env.Cluster, expected []client.ObjectKey, list client.ObjectList, isDone func(client.Object) bool,
) (*crowd, error) {
	c := newCrowd(expected, isDone)
	if err := cluster.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list %T before watching: %w", list, err)
	}
	began := time.Now()
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		c.see(watch.Added, object, began)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %T: %w", list, err)
	}
	watching, err := watchFrom(ctx, cluster, list, client.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", list, err)
	}
	go func() {
		defer watching.Stop()
		c.follow(ctx, watching.ResultChan())
	}()
	return c, nil
}

func newCrowd(expected []client.ObjectKey, isDone func(client.Object) bool) *crowd {
	c := &crowd{expected: map[client.ObjectKey]bool{}, isDone: isDone, there: map[client.ObjectKey]bool{}, done: map[client.ObjectKey]bool{}}
	for _, key := range expected {
		c.expected[key] = true
	}
	return c
}

func (c *crowd) follow(ctx context.Context, events <-chan watch.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-events:
			object, err := objectOf(event, open)
			if err != nil {
				c.fail(err)
				return
			}
			c.see(event.Type, object, time.Now())
		}
	}
}

func (c *crowd) see(event watch.EventType, object client.Object, at time.Time) {
	key := client.ObjectKeyFromObject(object)
	if volume, ok := object.(*corev1.PersistentVolume); ok && !c.expected[key] && volume.Spec.ClaimRef != nil {
		// Its name depends on a UID.
		key = plainVolume(volume.Spec.ClaimRef.Namespace, strings.TrimPrefix(volume.Spec.ClaimRef.Name, "pvc-"))
	}
	if !c.expected[key] {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if event == watch.Deleted {
		delete(c.there, key)
		delete(c.done, key)
		if len(c.there) == 0 {
			c.now.allGone = at
		}
		return
	}
	c.there[key] = true
	if c.isDone(object) {
		c.done[key] = true
	}
	// What comes again was not all that long ago.
	if len(c.there) == len(c.expected) && c.now.allThere.IsZero() {
		c.now.allThere = at
	}
	if 20*len(c.done) >= 19*len(c.expected) && c.now.mostDone.IsZero() {
		c.now.mostDone = at
	}
	if len(c.done) == len(c.expected) && c.now.allDone.IsZero() {
		c.now.allDone = at
	}
}

func (c *crowd) fail(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now.err = err
}

func (c *crowd) state() crowdState {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := c.now
	now.there, now.done = len(c.there), len(c.done)
	return now
}

// awaitCrowds waits until all crowds are as far as asked; it says no if that takes longer than the limit.
func awaitCrowds(ctx context.Context, limit time.Duration, crowds []*crowd, reached func(crowdState) bool) (bool, error) {
	return within(ctx, limit, 20*time.Millisecond, func() (bool, error) {
		all := true
		var failures []error
		for _, one := range crowds {
			now := one.state()
			failures = append(failures, now.err)
			all = all && reached(now)
		}
		return all, errors.Join(failures...)
	})
}

func isDone(count int) func(crowdState) bool {
	return func(now crowdState) bool { return now.done == count }
}

func isGone(now crowdState) bool { return now.there == 0 }

// latest is the time from the beginning until the last of these; nil if one of them has not happened.
func latest(began time.Time, times ...time.Time) *float64 {
	last := began
	for _, one := range times {
		if one.IsZero() {
			return nil
		}
		if one.After(last) {
			last = one
		}
	}
	return between(began, last)
}
