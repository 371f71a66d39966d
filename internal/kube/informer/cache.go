package informer

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCache adds a further cache to the manager, because the manager's own cache supports only one selector per kind. Argument "what" names the new
// cache in errors.
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

// standby starts a cache even on replicas that do not lead, because the readiness probe waits for the cache. Watches start only when a controller of
// the leader needs them. The manager treats a cache of several kinds as a Runnable that only the leader starts (controller-runtime v0.24.1,
// pkg/manager/runnable_group.go and pkg/cache/delegating_by_gvk_cache.go).
type standby struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }
