package filesystem

import (
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// After etcd was restored, the resource version of the last write never comes back.
func TestACacheThatNeverShowsTheLastWriteIsNotWaitedForForEver(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &Reconciler{Now: func() time.Time { return now }, written: "200", writtenAt: now}
	cr := &operatorv1.ClusterCSIDriver{}
	for _, tc := range []struct {
		version string
		age     time.Duration
		want    time.Duration
	}{{"100", 0, stale}, {"100", 10 * time.Second, 20 * time.Second}, {"200", 0, 0}, {"201", 0, 0}, {"100", stale, 0}, {"100", time.Hour, 0}} {
		cr.ResourceVersion, now = tc.version, time.Unix(1000, 0).Add(tc.age)
		if got := r.isBehind(cr); got != tc.want {
			t.Errorf("version %s after %s: waits for %s, want %s", tc.version, tc.age, got, tc.want)
		}
	}
}
