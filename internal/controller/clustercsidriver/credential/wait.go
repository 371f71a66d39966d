package credential

import (
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

// LongestWait is how long a roll-out waits for an object that another operator may still create. Without this wait, pods would start before the
// object appears, and restart afterwards.
const LongestWait = 2 * time.Minute

// RestOfWait returns how much of LongestWait is left. The wait begins with the creation of the object.
func RestOfWait(object client.Object, now time.Time) time.Duration {
	// If the clocks of the API server and of this operator differ, the creation can lie in the future.
	return min(LongestWait, max(0, LongestWait-now.Sub(object.GetCreationTimestamp().Time)))
}

// Lasting returns the hash of a Secret for the pod template. Argument "before" is the previous hash. While a client recreates the Secret, Lasting
// returns the previous hash. It returns an empty string if pods must not have the Secret.
func (f Found) Lasting(cfg driver.Config, credentials driver.Credentials, before string) string {
	found := f.Secrets[credentials.Secret]
	switch {
	case credentials.Optional && !cfg.Requests(credentials) && found.isOf(credentials):
		// The operator does not want this CredentialsRequest any more. The cloud-credential-operator deletes the Secret together with the
		// CredentialsRequest.
		return ""
	case credentials.Optional && found.PassedThrough:
		return ""
	case found.Hash == "" || !credentials.Usable(found.Keys):
		// While a client recreates the Secret, the Secret can be absent or incomplete.
		return before
	default:
		return found.Hash
	}
}

// Withdrawn returns the name of a Secret that contains a copy of the cluster's own keys, and that node pods may still mount. The kubelet updates
// mounted Secrets, so the operator must replace these pods at once. If no such Secret exists, Withdrawn returns an empty string.
func (f Found) Withdrawn(d driver.Driver) string {
	for _, credentials := range d.Credentials {
		if credentials.Optional && credentials.Workload == driver.Node && f.Secrets[credentials.Secret].PassedThrough {
			return credentials.Secret
		}
	}
	return ""
}

// Wait returns a message that says why pods wait for a missing Secret. The message is empty if the pods don't wait. Wait also returns the longest
// time that the pods wait; 0 means that the wait has no limit.
func (f Found) Wait(d driver.Driver, cfg driver.Config, credentials driver.Credentials, now time.Time) (string, time.Duration) {
	message := fmt.Sprintf("waiting for Secret %s/%s", cfg.Namespace, credentials.Secret)
	switch {
	case !credentials.Optional:
		// The pods would not start without a required Secret, so the wait has no limit.
		return message, 0
	case !cfg.Requests(credentials):
		return f.waitForMinting(d, cfg, now)
	}
	return waitForRequest(f.Requests[credentials.Request], message, now)
}

// waitForMinting returns a message if pods must wait until the operator knows whether the cloud-credential-operator mints keys. It also returns how
// long the pods wait at most.
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
			// Only a Secret that the cloud-credential-operator created shows whether the cloud-credential-operator mints keys.
			return "", 0
		}
		message := fmt.Sprintf("waiting for Secret %s/%s, which shows whether the cloud-credential-operator creates keys for this cluster",
			cfg.Namespace, credentials.Secret)
		return waitForRequest(f.Requests[credentials.Request], message, now)
	}
	return "", 0
}

// waitForRequest returns the message, and the remaining time for which pods wait for a CredentialsRequest. It returns an empty message after this
// time, or if the cloud-credential-operator can't fulfill the request.
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
