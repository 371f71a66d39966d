package e2e

import (
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// otherNamespace is where one test runs the operator, besides its default.
const otherNamespace = "openshift-operators"

// checkRBAC reads all that the operator has asked for in all tests: if all have run, each of its rules must have been needed by one. That no request
// was refused is checked by each test.
func checkRBAC(clusters []*env.Cluster, passed bool) error {
	var requests []env.Request
	for _, cluster := range clusters {
		users := []string{env.OperatorUser, env.OperatorUserIn(otherNamespace)}
		made, err := cluster.Audit.Since(0, users...)
		if err != nil {
			return err
		}
		requests = append(requests, made...)
	}
	if !passed || !rbac.Complete() {
		return nil
	}
	held, err := rbac.Held()
	if err != nil {
		return err
	}
	granted, err := rbac.Granted()
	if err != nil {
		return err
	}
	var lines []string
	for _, right := range rbac.Idle(held, granted, requests) {
		if right.Group == eventsv1.GroupName && right.Verb == "patch" {
			// An event is patched when the same comes again, which no test can be sure of.
			continue
		}
		if right.Name == driver.ImagesOf("efs-csi-node") {
			// Images are pulled ahead while nodes in use wait for a new one: test/rollout needs all of these rights.
			continue
		}
		if right.Group == "metrics.k8s.io" {
			// Prometheus asks the API server whether the operator has this right: the cluster of these tests has no Prometheus.
			continue
		}
		if right.Resource == "nodes" && right.Verb == "patch" {
			// No node of these tests has the startup taint: test/rollout needs this right.
			continue
		}
		lines = append(lines, "  "+right.String())
	}
	if len(lines) > 0 {
		return fmt.Errorf("no test has made the operator need these rules of config/rbac/role.yaml; add a test, or remove them from "+
			"the markers in rbac.go:\n%s", strings.Join(lines, "\n"))
	}
	return nil
}
