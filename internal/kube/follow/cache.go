package follow

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCache makes a cache beside the manager's own, which can hold only one selection of each kind. What names it in errors.
func NewCache(manager ctrl.Manager, what string, byObject map[client.Object]cache.ByObject) (cache.Cache, error) {
	made, err := cache.New(manager.GetConfig(), cache.Options{ //nolint:forbidigo // This is the one place.
		Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper(), HTTPClient: manager.GetHTTPClient(),
		ByObject: byObject, ReaderFailOnMissingInformer: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache of %s: %w", what, err)
	}
	if err := manager.Add(standby{made}); err != nil {
		return nil, fmt.Errorf("add the cache of %s: %w", what, err)
	}
	return made, nil
}

// standby starts a cache before its replica leads: the readiness probe waits for the start. Nothing is watched until a controller of the leader
// asks for it. The manager knows a cache of several kinds as nothing but a Runnable, which only the leader starts (controller-runtime v0.24.1,
// pkg/manager/runnable_group.go and pkg/cache/delegating_by_gvk_cache.go).
type standby struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }
