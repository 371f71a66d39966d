package real

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/rbac"
)

// unneeded are rules that no request of this test has needed, and why they are granted all the same.
func unneeded() map[string]string {
	// The sidecars' own roles are in deploy/kubernetes/rbac.yaml of each module.
	const (
		admission = "OpenShift's admission asks for it when a pod is made"
		cached    = "informers list and watch, and no sidecar asks for one object past them (drivers read their own Node); their own roles have it"
		never     = "no released sidecar does that; their own roles have it all the same"
		patched   = "older sidecars updated what these patch (external-attacher CHANGELOG-2.0, external-snapshotter CHANGELOG-5.0)"
	)
	reasons := map[string]string{
		"use securitycontextconstraints.security.openshift.io privileged":     admission,
		"use securitycontextconstraints.security.openshift.io hostnetwork-v2": admission,

		"get csinodes.storage.k8s.io":                       cached,
		"get nodes":                                         cached,
		"get persistentvolumeclaims":                        cached,
		"get pods":                                          cached,
		"get storageclasses.storage.k8s.io":                 cached,
		"get volumeattachments.storage.k8s.io":              cached,
		"get volumesnapshotclasses.snapshot.storage.k8s.io": cached,

		"list events":   never,
		"watch events":  never,
		"update events": never,

		"update persistentvolumeclaims/status":                  patched,
		"update persistentvolumes":                              patched,
		"update volumeattachments.storage.k8s.io":               patched,
		"update volumesnapshotcontents.snapshot.storage.k8s.io": patched,
	}
	maps.Copy(reasons, ofVSphere())
	return reasons
}

// ofVSphere are the rights of the driver and the syncer of vSphere, which are no modules.
func ofVSphere() map[string]string {
	const reason = "driver and syncer do that (kubernetes-sigs/vsphere-csi-driver bf8090256, manifests/vanilla/vsphere-csi-driver.yaml)"
	reasons := map[string]string{"get events": reason, "create customresourcedefinitions.apiextensions.k8s.io": reason}
	for _, verb := range []string{"get", "list", "watch"} {
		reasons[verb+" configmaps in openshift-cluster-csi-drivers"] = reason
	}
	for _, verb := range []string{"get", "update"} {
		reasons[verb+" leases.coordination.k8s.io vsphere-syncer in openshift-cluster-csi-drivers"] = reason
	}
	for kind, verbs := range map[string]string{
		"cnsvspherevolumemigrations": "create get list watch update delete", "cnsvolumeinfoes": "create get list watch update delete",
		"cnsvolumeoperationrequests": "create get list update delete", "triggercsifullsyncs": "create get list watch update",
		"csinodetopologies": "create get list watch update patch",
	} {
		for verb := range strings.FieldsSeq(verbs) {
			reasons[verb+" "+kind+".cns.vmware.com"] = reason
		}
		for _, verb := range []string{"get", "update"} {
			reasons[verb+" customresourcedefinitions.apiextensions.k8s.io "+kind+".cns.vmware.com"] = reason
		}
	}
	return reasons
}

// usage counts for each right in how many drivers' roles it is, and in how many of them no request has needed it. The roles of a sidecar
// are the same for all drivers, and not every driver can do what needs each right.
type usage struct {
	held, idle map[rbac.Right]int
}

// add adds what the accounts of a driver's pods have done since the mark.
func (u *usage) add(t *testing.T, mark env.Mark, pods ...*pod) {
	t.Helper()
	for _, p := range pods {
		requests, err := suite.cluster.Audit.Since(mark, user(p.v, p.spec.ServiceAccountName))
		env.Must(t, err)
		for _, request := range requests {
			if request.Verb == "watch" {
				// Where the API server can, client-go of today lists by a watch. Older ones, of both, list.
				request.Verb = "list"
				requests = append(requests, request)
			}
		}
		roles := p.v.rolesOf(p.spec.ServiceAccountName)
		for _, right := range rbac.Of(roles) {
			u.held[right]++
		}
		for _, right := range rbac.Idle(roles, nil, requests) {
			// The same right can be in several roles, and is needed once.
			u.idle[right] += count(rbac.Of(roles), right)
		}
	}
}

func count(all []rbac.Right, right rbac.Right) int {
	found := 0
	for _, other := range all {
		if other == right {
			found++
		}
	}
	return found
}

// check fails the test for each right that no request of any driver has needed, and for each exception without its right.
func (u *usage) check(t *testing.T) {
	t.Helper()
	reasons := unneeded()
	var idle []string
	for right, drivers := range u.idle {
		if drivers == u.held[right] {
			idle = append(idle, right.String())
		}
	}
	slices.Sort(idle)
	for _, right := range idle {
		if reasons[right] == "" {
			t.Errorf("no program has needed the right to %s: take it from the role, or say in unneeded what it is for", right)
		}
	}
	for _, right := range slices.Sorted(maps.Keys(reasons)) {
		if !slices.Contains(idle, right) {
			t.Errorf("unneeded names the right to %s, which is needed or not granted", right)
		}
	}
}
