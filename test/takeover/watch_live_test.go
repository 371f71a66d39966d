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
	t.Parallel()
	s := before(t, few, "openshift-operators")
	app := s.application(t, "shop", "web", s.workers[0])
	sampler := newSampler(1, projects()...)
	// What it finds is what this test wants, and must not fail it.
	t.Run("watched", func(t *testing.T) {
		sampler.silent = true
		sampler.follow(t, s.Cluster)
		_, err := s.Kubectl(t.Context(), "-n", s.namespace, "delete", "pods", "-l", "app="+nodeDaemonSet)
		env.Must(t, err)
		env.Eventually(t, "new pods of the same", func() error { return s.runs(t.Context(), s.daemonSet()) })
		env.Must(t, s.Client.Delete(t.Context(), app))
		driver := csiDriver()
		env.Must(t, s.Client.Delete(t.Context(), driver))
		env.Eventually(t, "it has seen everything", func() error {
			for _, want := range []string{
				"while shop/web uses a volume there", "2 nodes lack a plugin, 1 may: worker-", "shop/web was deleted", "the CSIDriver was deleted",
			} {
				if !strings.Contains(strings.Join(sampler.violations(), "\n"), want) {
					return errors.New("not " + want)
				}
			}
			return nil
		})
	})
	if replaced, most := sampler.counts(); replaced != len(s.workers) || most < 2 {
		t.Errorf("%d old plugins were replaced, and %d nodes lacked one; want %d and more than 1", replaced, most, len(s.workers))
	}
}
