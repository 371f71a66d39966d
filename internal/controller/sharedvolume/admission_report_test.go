package sharedvolume

import (
	"slices"
	"strings"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// The volumes are watched after the first look of an operator that has started.
func TestConditionsWaitUntilVolumesAreWatched(t *testing.T) {
	r, c := admission(t, driverCR(""), served(true, false))
	if _, err := r.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	c.Writes = nil
	c.Refuse(&cache.ErrResourceNotCached{}, "list PersistentVolume")
	again, err := r.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || again.RequeueAfter != time.Second || slices.ContainsFunc(c.Writes, func(write string) bool { return strings.Contains(write, "ClusterCSIDriver") }) {
		t.Errorf("again after %s, error %v, writes %q", again.RequeueAfter, err, c.Writes)
	}
}
