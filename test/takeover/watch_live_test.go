package takeover

import (
	"errors"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// The stream of a real API server shows the sampler the same as the events that it is tested with. No operator is needed to do
// what is forbidden.
func TestTheSamplerSeesWhatHappensInACluster(t *testing.T) {
	s := before(t, few, "openshift-operators")
	app := s.application(t, "shop", "web", s.workers[0])
	t.Run("objects of etcd are those of the API server", s.storesWhatItLists)
	old, err := s.oldPods(t.Context())
	env.Must(t, err)
	sampler := newSampler(1, projects()...)
	// What it finds is what this test wants, and must not fail it.
	t.Run("watched", func(t *testing.T) {
		sampler.Silent = true
		sampler.Follow(t, s.Cluster)
		// A finalizer keeps the first from coming back before the last goes.
		hold := func(finalizers string) {
			_, err := s.Kubectl(t.Context(), "-n", s.namespace, "patch", "pods", "--type=merge", "-p", `{"metadata":{"finalizers":`+finalizers+`}}`,
				old[s.workers[0]], old[s.workers[1]], old[s.workers[2]])
			env.Must(t, err)
		}
		hold(`["example.com/hold"]`)
		_, err := s.Kubectl(t.Context(), "-n", s.namespace, "delete", "pods", "--wait=false", "-l", "app="+nodeDaemonSet)
		env.Must(t, err)
		hold("null")
		env.Must(t, s.Client.Delete(t.Context(), app))
		driver := csiDriver()
		env.Must(t, s.Client.Delete(t.Context(), driver))
		env.Eventually(t, "it has seen everything", func() error {
			for _, want := range []string{
				"while shop/web uses a volume there", "3 nodes lack a plugin, 1 may: worker-0, worker-1, worker-2", "shop/web was deleted", "the CSIDriver was deleted",
			} {
				if !strings.Contains(strings.Join(sampler.Violations(), "\n"), want) {
					return errors.New("not " + want)
				}
			}
			return nil
		})
	})
	if replaced, most := sampler.Counts(t, s.Cluster); replaced != len(s.workers) || most != len(s.workers) {
		t.Errorf("%d old plugins were replaced, and %d nodes lacked one; want %d each", replaced, most, len(s.workers))
	}
}
