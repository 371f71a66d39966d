package drivers

import (
	"context"
	"errors"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// actions returns a text that says what the user must do before drivers become available. If there is nothing to do, the result is empty. actions
// skips a driver whose status is about an earlier generation of the ClusterCSIDriver, because the user may already have acted.
func actions(found survey.Survey) string {
	var all []string
	for _, driver := range found.Drivers {
		text, cr := driver.ActionRequired(), driver.CR
		if text != "" && cr.Spec.ManagementState != operatorv1.Unmanaged && cr.Status.ObservedGeneration == cr.Generation {
			all = append(all, driver.Name+": "+text)
		}
	}
	return strings.Join(all, "; ")
}

// await polls the cluster until all drivers are available, and returns the last survey.
func (c *command) await(ctx context.Context) (survey.Survey, error) {
	last, bar, before := survey.Survey{}, c.Progress(), ""
	defer bar.End()
	err := c.Until(ctx, c.timeout, "all drivers are available", func(ctx context.Context) (bool, error) {
		found, err := c.survey(ctx)
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			// An interrupted survey proves nothing.
			return false, nil
		}
		last, c.read = found, true
		if !found.CRs.Known() && len(found.Failures) == 0 {
			return false, errors.New("wait: you lack permission to list ClusterCSIDrivers; see: " +
				"oc auth can-i list clustercsidrivers.operator.openshift.io")
		}
		// Fail only if two polls in a row find the same required action, because the user may have acted a moment ago.
		text := actions(found)
		if text != "" && text == before {
			return false, &plugin.ExitError{Code: plugin.Wrong, Err: errors.New("the wait ends only when you act: " + text)}
		}
		before = text
		left, wanted := pending(found)
		if text == "" && len(left) == 0 && len(found.Failures) == 0 && found.CRs.Known() {
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
