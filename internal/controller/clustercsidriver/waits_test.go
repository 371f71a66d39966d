package clustercsidriver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/credential"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/derived"
	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/nodes"
	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/kube/status"
)

// Each case waits for a person, or does not. The conditions are those of the first minute, of 15 minutes later, and of an operator that has
// restarted then.
func TestAWaitThatOnlyAPersonCanEndDegrades(t *testing.T) {
	type change func(cr *operatorv1.ClusterCSIDriver, o *outcome, c *conditioner)
	fails := func(o *outcome, request string) {
		o.seen.live.credentials.Requests[request].Status = cloudcredentialv1.CredentialsRequestStatus{
			Conditions: []cloudcredentialv1.CredentialsRequestCondition{
				{Type: "CredentialsProvisionFailure", Status: corev1.ConditionTrue, Message: "no user"},
			},
		}
	}
	without := func(o *outcome, secret string) { delete(o.seen.live.credentials.Secrets, secret) }
	hold := func(o *outcome, message string) {
		o.seen.holds = driver.Holds{driver.Controller: message, driver.Node: message}
	}
	for name, tc := range map[string]struct {
		change change
		// degraded is the condition that names the wait, and names what its message says; none if the wait is no failure.
		degraded string
		names    []string
	}{
		"a Secret made by hand, beside which the request fails": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			fails(o, "disk-request")
		}, "Keys", []string{"Secret storage-system/disk-keys exists, but", "delete the existing Secret", "no user"}},
		"a request that fails": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			fails(o, "disk-request")
			without(o, "disk-keys")
			o.seen.holds = driver.Holds{driver.Controller: "waiting for Secret storage-system/disk-keys"}
		}, "Keys", []string{"waiting for the cloud-credential-operator", "An administrator has to fix"}},
		"a request of the nodes that fails": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			fails(o, "disk-node-request")
			without(o, "disk-node-keys")
		}, "NodeKeys", []string{"An administrator has to fix"}},
		"a Secret of the payload that does not come": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, c *conditioner) {
			c.driver.Credentials[0].Payload = true
			delete(o.seen.live.credentials.Requests, "disk-request")
			without(o, "disk-keys")
			hold(o, "waiting for Secret storage-system/disk-keys")
		}, "Keys", []string{"Secret storage-system/disk-keys is missing", "create the Secret"}},
		"a Secret of the payload made by hand, beside which the request fails": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, c *conditioner) {
			c.driver.Credentials[0].Payload = true
			fails(o, "disk-request")
		}, "Keys", []string{"Secret storage-system/disk-keys exists, but", "delete the existing Secret", "no user"}},
		"a Secret without its keys": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			o.seen.live.credentials.Secrets["disk-keys"] = credential.Secret{Hash: "a", Keys: []string{"id"}}
		}, "Keys", []string{"has keys [id], but needs"}},
		"a predecessor that has to be uninstalled": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			hold(o, "uninstall it")
			o.seen.migration.Blocker = "uninstall it"
			without(o, "disk-keys")
		}, "Controller", []string{"uninstall it"}},
		"a policy that holds node pods": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			o.rolled = nodes.Progress{Reason: nodes.NodesInUse, Message: "drain them"}
		}, "", nil},
		"a removal that pods block": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			cr.Spec.ManagementState, o.removal.inUse = operatorv1.Removed, "a pod uses a volume"
		}, "", nil},
		"a driver that was never installed": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, c *conditioner) {
			c.driver.Disabled = func(driver.Config) string { return "" }
			o.seen.disabled = derived.Absence{Reason: "CloudUnreachable", Message: "no connection"}
			without(o, "disk-keys")
		}, "", nil},
		"a cloud that has not answered yet": {func(_ *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			o.seen.undecided = true
			hold(o, "waiting for the first answer from the cloud")
		}, "", nil},
		"a driver that nobody manages": {func(cr *operatorv1.ClusterCSIDriver, o *outcome, _ *conditioner) {
			cr.Spec.ManagementState = operatorv1.Unmanaged
			without(o, "disk-keys")
		}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := clocked()
			cr, result := healthy()
			tc.change(cr, &result, &c)
			look := func() map[string]string {
				all, _, _ := c.conditions(cr, result)
				cr.Status.Conditions = all
				return texts(all)
			}
			if got := look()["Degraded"]; got != "False AsExpected" {
				t.Errorf("at once: %s", got)
			}
			*now = now.Add(status.WaitLimit)
			later := look()
			c.waits.Reset()
			for when, got := range map[string]map[string]string{"after 15 minutes": later, "after a restart": look()} {
				if tc.degraded == "" {
					if got["Degraded"] != "False AsExpected" {
						t.Errorf("%s: %s", when, got["Degraded"])
					}
					continue
				}
				for _, part := range append(tc.names, "True ActionRequired: for more than 15 minutes: ") {
					if !strings.Contains(got[tc.degraded+"Degraded"], part) {
						t.Errorf("%s: %s: %q lacks %q", when, tc.degraded, got[tc.degraded+"Degraded"], part)
					}
				}
				if got[tc.degraded+"Progressing"] != "False ActionRequired" || !strings.HasPrefix(got["Degraded"], "True ActionRequired") {
					t.Errorf("%s: progressing %s, degraded %s", when, got[tc.degraded+"Progressing"], got["Degraded"])
				}
			}
		})
	}
}

// Each case is a trip after a wait is overdue. The operator has restarted before it, or has not.
func TestAnOverdueWaitStaysOverdue(t *testing.T) {
	services := func(o *outcome) {
		o.seen.holds = driver.Holds{driver.Controller: "uninstall it", driver.Node: "uninstall it"}
		o.seen.migration.Blocker = "uninstall it"
	}
	keys := func(o *outcome) {
		o.seen.live.credentials.Secrets["disk-keys"] = credential.Secret{Hash: "a", Keys: []string{"id"}}
	}
	fails := func(_ *operatorv1.ClusterCSIDriver, o *outcome) {
		*o = outcome{seen: seen{live: o.seen.live}, err: errors.New("no route")}
	}
	shares := func(cr *operatorv1.ClusterCSIDriver, o *outcome) {
		o.seen.migration.SharesStatus = true
		cr.Status.Conditions = status.Among(cr.Status.Conditions, status.Sums()...)
	}
	for name, tc := range map[string]struct {
		wait func(o *outcome)
		then func(cr *operatorv1.ClusterCSIDriver, o *outcome)
		of   []string
	}{
		"of services, when a read fails":                 {services, fails, []string{"Controller", "Nodes"}},
		"of credentials, when a read fails":              {keys, fails, []string{"Keys"}},
		"of services, when two operators share a status": {services, shares, []string{"Controller", "Nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, restarts := range []bool{false, true} {
				c, now := clocked()
				cr, result := healthy()
				tc.wait(&result)
				look := func(when string, result outcome, overdue bool) {
					all, _, _ := c.conditions(cr, result)
					cr.Status.Conditions = all
					got := texts(all)
					for _, one := range append(tc.of, "") {
						if strings.HasPrefix(got[one+"Degraded"], "True ActionRequired: ") != overdue {
							t.Errorf("restarts %t, %s: %sDegraded is %s", restarts, when, one, got[one+"Degraded"])
						}
						if one != "" && overdue && got[one+"Progressing"] != "False ActionRequired" {
							t.Errorf("restarts %t, %s: %sProgressing is %s", restarts, when, one, got[one+"Progressing"])
						}
					}
				}
				look("at first", result, false)
				*now = now.Add(status.WaitLimit)
				look("after 15 minutes", result, true)
				if restarts {
					c.waits.Reset()
				}
				then := result
				tc.then(cr, &then)
				look("then", then, true)
				look("afterwards", result, true)
			}
		})
	}
}

func TestAVersionIsNotReportedWhileAWorkloadIsHeld(t *testing.T) {
	_, result := healthy()
	if !result.complete() {
		t.Fatal("the healthy driver is not complete")
	}
	result.seen.holds = driver.Holds{driver.Node: "waiting"}
	if result.complete() {
		t.Error("complete with node pods that are held")
	}
}

func TestTheLogOfTheOperatorSaysWhatItWaitsFor(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	cr, _ := healthy()
	trip := newTrip(t, disk(), cr, infrastructure())
	if _, err := trip.Reconcile(log.IntoContext(t.Context(), logger), ctrl.Request{NamespacedName: client.ObjectKey{Name: diskName}}); err != nil {
		t.Fatal(err)
	}
	said := func(line string) bool {
		return strings.Contains(line, `"condition"="Progressing"`) && strings.Contains(line, "waiting for Secret storage-system/disk-keys")
	}
	if !slices.ContainsFunc(lines, said) {
		t.Errorf("the log lacks it:\n%s", strings.Join(lines, "\n"))
	}
}
