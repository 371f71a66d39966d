package drivers

import (
	"context"
	"errors"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

// actions are what people have to do before drivers become available; empty if they become so without. A report about an earlier
// specification says nothing.
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

// await reads the cluster until all drivers are available, and returns what it saw last.
func (c *command) await(ctx context.Context) (survey.Survey, error) {
	last, bar, before := survey.Survey{}, c.Progress(), ""
	defer bar.End()
	err := c.Until(ctx, c.timeout, "all drivers are available", func(ctx context.Context) (bool, error) {
		found, err := survey.Read(ctx, c.Cluster, c.Now())
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			// What was not read in time says nothing.
			return false, nil
		}
		last, c.read = found, true
		if !found.CRs.Known() && len(found.Failures) == 0 {
			return false, errors.New("wait: you may not list ClusterCSIDrivers, so nobody can tell when they are available; see: " +
				"oc auth can-i list clustercsidrivers.operator.openshift.io")
		}
		// The person may have acted just now: the operator gets one more look.
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
