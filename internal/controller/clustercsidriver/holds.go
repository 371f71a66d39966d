package clustercsidriver

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/apply"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

func workloads() []driver.Workload { return []driver.Workload{driver.Controller, driver.Node} }

// holds returns the workloads that the operator must not apply yet, each with the reason. If several reasons apply, holds returns the first. It also
// returns when to requeue.
func (r *Reconciler) holds(found *seen) (holds driver.Holds, again time.Duration) {
	holds = driver.Holds{}
	hold := func(message string, wait time.Duration, held ...driver.Workload) {
		for _, workload := range held {
			if message != "" && holds[workload] == "" {
				holds[workload], again = message, status.MinRequeue(again, wait)
			}
		}
	}
	switch {
	case found.disabled.Reason != "":
		return nil, 0
	case found.undecided:
		hold(r.awaitsCloud(found), 0, workloads()...)
		return holds, 0
	case found.migration.Blocked():
		hold(found.migration.Blocker, 0, workloads()...)
		return holds, 0
	}
	lacks := func(workload driver.Workload, input string) bool {
		return found.config.DependencyHashes[workload][input] == ""
	}
	for _, credentials := range r.Driver.Credentials {
		if credentials.Workload != "" && lacks(credentials.Workload, credentials.Secret) {
			message, wait := found.live.credentials.Wait(r.Driver, found.config, credentials, r.Now())
			hold(message, wait, credentials.Workload)
		}
	}
	if r.Driver.Derived != nil && found.derived.Hash == "" {
		hold(cmp.Or(found.derived.Problem, "waiting for "+found.derived.Waits), 0, r.Driver.Derived.Workloads...)
	}
	for _, workload := range workloads() {
		if found.bundleWait > 0 && lacks(workload, r.Driver.TrustedCABundle()) {
			hold(fmt.Sprintf("waiting until the network operator writes CA certificates into ConfigMap %s/%s", r.Namespace, r.Driver.TrustedCABundle()),
				found.bundleWait, workload)
		}
	}
	hold(found.migration.ControllerHold(), 0, driver.Controller)
	return holds, again
}

// awaitsCloud returns the message that the operator waits for the cloud's first answer, or for the Secret that it needs to query the cloud.
func (r *Reconciler) awaitsCloud(found *seen) string {
	if secret, _ := found.live.credentials.Missing(r.Driver, r.Namespace); secret != "" {
		return "waiting for " + secret + ": the operator needs it to query the cloud"
	}
	return "waiting for the first answer from the cloud, which decides whether to install the driver"
}

// withUnapplied holds the workloads that mount the Secret of Driver.Derived, if the operator could not apply that Secret. Without this hold, pods of
// these workloads would start with the previous content, and nothing would restart these pods.
func (r *Reconciler) withUnapplied(holds driver.Holds, changes apply.ChangeSet) driver.Holds {
	holds = maps.Clone(holds)
	for _, change := range changes.With(apply.Failed, apply.Terminating) {
		for _, workload := range r.Driver.Derived.Workloads {
			// This hold also replaces the hold from ControllerHold. Otherwise the operator would delete the predecessor's controller, although our controller
			// can't start.
			holds[workload] = change.Subject.String() + " can't be applied"
		}
	}
	return holds
}
