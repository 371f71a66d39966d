package manager

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// The configuration is that of all clients of the program: with a timeout, each watch would be opened again and again.
func TestTheClientOfTheLeaseHasItsOwnConfiguration(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1", UserAgent: "operator"}
	for uid, leads := range map[string]bool{"": true, "uid-1": true, "uid-2": false} {
		options := Options{PodUID: uid, LeaderElect: leads, LockName: "lock", Namespace: "here"}
		lock, err := podLock(config, options, runtime.NewScheme(), 107*time.Second)
		if err != nil || (lock != nil) != (uid == "uid-1") {
			t.Fatalf("UID %q, leader election %t: %v, error %v", uid, leads, lock, err)
		}
		if lock != nil && (!strings.HasSuffix(lock.Identity(), "_uid-1") || lock.Describe() != "here/lock") {
			t.Errorf("%s holds %s", lock.Identity(), lock.Describe())
		}
	}
	if config.Timeout != 0 || config.UserAgent != "operator" {
		t.Errorf("the program has timeout %s, user agent %s", config.Timeout, config.UserAgent)
	}
}
