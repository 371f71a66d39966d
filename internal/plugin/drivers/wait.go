package drivers

import (
	"context"
	"errors"
	"strings"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// await reads the cluster until all drivers are available, and returns what it saw last.
func (c *command) await(ctx context.Context) (survey.Survey, error) {
	last, bar := survey.Survey{}, c.Progress()
	defer bar.End()
	err := c.Until(ctx, c.timeout, "all drivers are available", func(ctx context.Context) (bool, error) {
		found, err := survey.Read(ctx, c.Cluster, c.Now())
		if err != nil {
			return false, err
		}
		last = found
		if !found.CRs.Known() && len(found.Failures) == 0 {
			return false, errors.New("wait: you may not list ClusterCSIDrivers, so nobody can tell when they are available; see: " +
				"oc auth can-i list clustercsidrivers.operator.openshift.io")
		}
		left, wanted := pending(found)
		if len(left) == 0 && len(found.Failures) == 0 && found.CRs.Known() {
			return true, nil
		}
		what := append([]string{"drivers are available"}, left...)
		for _, failure := range found.Failures {
			what = append(what, failure.Error())
		}
		bar.Step(plugin.Step{Done: wanted - len(left), Total: wanted, What: shorten(strings.Join(what, "; "))})
		return false, nil
	})
	return last, err
}
