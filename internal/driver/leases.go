package driver

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeaseOf returns the name of the Lease with which a sidecar elects a leader. The name is empty if the sidecar elects no leader. Each sidecar derives
// the name from the driver's name in its own way. (external-provisioner v6.3.0 cmd/csi-provisioner/csi-provisioner.go, external-attacher v4.13.0
// cmd/csi-attacher/main.go, external-resizer v2.3.0 cmd/csi-resizer/main.go, external-snapshotter v8.7.0 cmd/csi-snapshotter/main.go; csi-lib-utils
// v0.24.0 leaderelection/leader_election.go sanitizeName.)
func LeaseOf(sidecar, driver string) string {
	var prefix string
	switch sidecar {
	case "provisioner":
	case "attacher":
		prefix = "external-attacher-leader-"
	case "resizer":
		prefix = "external-resizer-"
	case "snapshotter":
		prefix = "external-snapshotter-leader-"
	default:
		return ""
	}
	return prefix + strings.Map(func(letter rune) rune {
		switch {
		case letter >= 'a' && letter <= 'z', letter >= 'A' && letter <= 'Z', letter >= '0' && letter <= '9':
			return letter
		default:
			return '-'
		}
	}, driver)
}

// nameLeases allows the controller to get and update the Leases of the driver, by name. The asset already allows the creation of Leases. Sidecars
// need no other verbs (k8s.io/client-go v0.36 tools/leaderelection/resourcelock/leaselock.go).
func (d Driver) nameLeases(_ Config, role *rbacv1.Role) error {
	leases := d.Leases(role.Namespace)
	if role.Name != d.Prefix+"-lease-leader-election" || len(leases) == 0 {
		return nil
	}
	names := make([]string, 0, len(leases))
	for _, lease := range leases {
		names = append(names, lease.GetName())
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: names, Verbs: []string{"get", "update"},
	})
	return nil
}

// Leases returns the Leases that the driver's containers create. These Leases have no owner, so the operator must delete them when it removes the
// driver.
func (d Driver) Leases(namespace string) []client.Object {
	names := slices.Clone(d.FurtherLeases)
	for _, sidecar := range d.Sidecars {
		if name := LeaseOf(sidecar.Name, d.Name); name != "" {
			names = append(names, name)
		}
	}
	leases := make([]client.Object, 0, len(names))
	for _, name := range names {
		leases = append(leases, &coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		})
	}
	return leases
}

// controllerGrace is the termination grace period of a controller pod, in seconds. On SIGTERM, the driver exits at once, and leading sidecars release
// their Leases. But with feature gate ReleaseLeaderElectionOnExit, a sidecar that still waits for its Lease ignores SIGTERM. In such a sidecar,
// SIGTERM ends only the context of the controllers. Controllers end the election, but run only in the leader (external-provisioner v6.3.0
// cmd/csi-provisioner/csi-provisioner.go:651-753, external-attacher v4.13.0 cmd/csi-attacher/main.go:280-324, external-resizer v2.3.0
// cmd/csi-resizer/main.go:290-346, external-snapshotter v8.7.0 cmd/csi-snapshotter/main.go:316-376). So with Kubernetes' default of 30 seconds, each
// drain and each roll-out would wait 30 seconds for such sidecars. A preStop hook can't stop these sidecars, because Kubernetes runs the hook before
// SIGTERM, and the images have no shell.
const controllerGrace = 10

func shortenGracePeriod(_ Config, pods Pods) error {
	if pods.Workload == Controller {
		pods.Spec.TerminationGracePeriodSeconds = new(int64(controllerGrace))
	}
	return nil
}
