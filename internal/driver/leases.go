package driver

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeaseOf is the name of the Lease by which the containers of a sidecar elect a leader; empty if they elect none. Each makes it of the name of the
// driver in its own way (external-provisioner v6.3.0 cmd/csi-provisioner/csi-provisioner.go, external-attacher v4.13.0 cmd/csi-attacher/main.go,
// external-resizer v2.3.0 cmd/csi-resizer/main.go, external-snapshotter v8.7.0 cmd/csi-snapshotter/main.go; csi-lib-utils v0.24.0
// leaderelection/leader_election.go sanitizeName).
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

// nameLeases lets the controller use the Leases of the driver. A sidecar reads and writes its Lease and does nothing else with it
// (k8s.io/client-go v0.36 tools/leaderelection/resourcelock/leaselock.go).
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

// Leases are the Leases that the driver's containers make. They belong to nothing, so that they would stay for ever.
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

// controllerGrace is how long the kubelet lets a controller pod end, in seconds. On SIGTERM a driver ends at once, and with it what its sidecars wait
// for; the leaders among these release their Leases. Sidecars that wait for a Lease ignore SIGTERM when they release it on exit (external-provisioner
// v6.3.0 cmd/csi-provisioner/csi-provisioner.go:650-690): with Kubernetes' 30 seconds, each drain and each roll-out would wait that long for them. A
// preStop hook can't end them, as it runs before SIGTERM and the images have no shell.
const controllerGrace = 10

// endSoon shortens the time in which controller pods must end.
func endSoon(_ Config, pods Pods) error {
	if pods.Workload == Controller {
		pods.Spec.TerminationGracePeriodSeconds = new(int64(controllerGrace))
	}
	return nil
}
