package credential

import (
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

// LongestWait is how long a roll-out waits for an object that another operator may create. Without the wait, pods would start twice.
const LongestWait = 2 * time.Minute

// RestOfWait is the rest of LongestWait since an object's creation.
func RestOfWait(object client.Object, now time.Time) time.Duration {
	// Clocks may differ.
	return min(LongestWait, max(0, LongestWait-now.Sub(object.GetCreationTimestamp().Time)))
}

// Lasting is the hash of a Secret for pods, or the previous hash while the Secret is being recreated. It is empty if pods must not have the Secret.
func (f Found) Lasting(cfg driver.Config, credentials driver.Credentials, before string) string {
	found := f.Secrets[credentials.Secret]
	switch {
	case credentials.Optional && !cfg.Requests(credentials) && found.isOf(credentials):
		// It is deleted with its request.
		return ""
	case credentials.Optional && found.PassedThrough:
		return ""
	case found.Hash == "" || !credentials.Usable(found.Keys):
		// The Secret may be incomplete.
		return before
	default:
		return found.Hash
	}
}

// Withdrawn names a Secret with copies of the cluster's own keys that node pods may still mount; empty if there is none. The kubelet updates mounted
// Secrets, so these pods must be replaced at once.
func (f Found) Withdrawn(d driver.Driver) string {
	for _, credentials := range d.Credentials {
		if credentials.Optional && credentials.Workload == driver.Node && f.Secrets[credentials.Secret].PassedThrough {
			return credentials.Secret
		}
	}
	return ""
}

// Wait says why pods wait for a missing Secret, and how long at most; empty if they don't.
func (f Found) Wait(d driver.Driver, cfg driver.Config, credentials driver.Credentials, now time.Time) (string, time.Duration) {
	message := fmt.Sprintf("waiting for Secret %s/%s", cfg.Namespace, credentials.Secret)
	switch {
	case !credentials.Optional:
		// The pods would not start without it.
		return message, 0
	case !cfg.Requests(credentials):
		return f.waitForMinting(d, cfg, now)
	}
	return waitForRequest(f.Requests[credentials.Request], message, now)
}

// waitForMinting says that pods wait until it is known whether the cloud-credential-operator mints keys, and how long at most.
func (f Found) waitForMinting(d driver.Driver, cfg driver.Config, now time.Time) (string, time.Duration) {
	if cfg.CredentialsMode != operatorv1.CloudCredentialsModeDefault || cfg.Minting != driver.MintingUnknown ||
		!cfg.Kinds[driver.CredentialsRequestKind()] {
		return "", 0
	}
	for _, credentials := range d.Credentials {
		if credentials.Optional || cfg.RoleARNs[credentials.RoleARNVariable] != "" {
			continue
		}
		if secret := f.Secrets[credentials.Secret]; secret.Hash != "" && !secret.isOf(credentials) {
			// Only a Secret of the cloud-credential-operator shows whether it mints.
			return "", 0
		}
		message := fmt.Sprintf("waiting for Secret %s/%s, which shows whether the cloud-credential-operator creates keys for this cluster",
			cfg.Namespace, credentials.Secret)
		return waitForRequest(f.Requests[credentials.Request], message, now)
	}
	return "", 0
}

// waitForRequest returns the message and the rest of the wait for a CredentialsRequest; empty after the wait, or if the cloud-credential-operator
// fails.
func waitForRequest(request *cloudcredentialv1.CredentialsRequest, message string, now time.Time) (string, time.Duration) {
	if request == nil {
		return message, LongestWait
	}
	if fails(request) {
		return "", 0
	}
	if wait := RestOfWait(request, now); wait > 0 {
		return message, wait
	}
	return "", 0
}
