package clustercsidriver

import (
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// Node pods wait for their Secret as controller pods do, and an administrator looks at those that the message names.
func TestAMissingSecretNamesThePodsThatWait(t *testing.T) {
	c := conditioner{namespace: "openshift-cluster-csi-drivers"}
	for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
		for _, payload := range []bool{false, true} {
			message := c.withoutRequest(driver.Config{}, driver.Credentials{Secret: "keys", Workload: workload, Payload: payload})
			if want := "the " + string(workload) + " pods are not started without it"; !strings.Contains(message, want) {
				t.Errorf("message %q, want %q in it", message, want)
			}
		}
	}
}
