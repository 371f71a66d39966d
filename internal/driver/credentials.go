package driver

import (
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Credentials is one CredentialsRequest. Its asset is assets/credentials/<Asset> of Driver.Assets.
type Credentials struct {
	Asset string
	// Request is the name of the CredentialsRequest. Secret is the name of the Secret that it requests.
	Request, Secret string
	// Workload is the workload whose pods use the Secret. It is empty if only Driver.Derived uses the Secret.
	Workload Workload
	// Condition is the beginning of the condition types that report on this request.
	Condition string
	// RoleARNVariable is the environment variable with the IAM role for STS.
	RoleARNVariable string
	// Optional means that the driver works without these credentials. In passthrough mode, the operator does not request optional credentials, because
	// node pods would get the administrator's own keys.
	Optional bool
	// Payload means that a manifest of the release contains the CredentialsRequest. The installation of a cluster and ccoctl use this manifest. The
	// operator only watches the CredentialsRequest, and uses its Secret.
	Payload bool
	// Keys are alternative sets of keys. The Secret must have all keys of at least one set. An empty set accepts every Secret that has at least one key.
	// A driver has an empty set if only Derived.Build knows the names of the keys.
	Keys [][]string
	// FileSetting, if set, names a setting. If its value is true, pods mount volumes with the credentials file in the Secret. The Secret then needs this
	// file, even if it has an access key.
	FileSetting string
}

// CredentialsFile is the Secret's key with an AWS configuration file.
const CredentialsFile = "credentials"

// CredentialsOf returns the credentials that the pods of a workload use. If the pods use none, it returns zero Credentials.
func (d Driver) CredentialsOf(workload Workload) Credentials {
	for _, credentials := range d.Credentials {
		if credentials.Workload == workload {
			return credentials
		}
	}
	return Credentials{}
}

// LacksFile reports whether a setting asks for a credentials file, but a Secret with these keys has no such file. If a role is configured, pods need
// no file.
func (c Credentials) LacksFile(cfg Config, keys []string) bool {
	asked := c.FileSetting != "" && cfg.Settings[c.FileSetting] == "true"
	return asked && cfg.RoleARNs[c.RoleARNVariable] == "" && !slices.Contains(keys, CredentialsFile)
}

// Usable reports whether a Secret with these keys has all keys that the driver needs.
func (c Credentials) Usable(keys []string) bool {
	return len(keys) > 0 && slices.ContainsFunc(c.Keys, func(alternative []string) bool {
		return !slices.ContainsFunc(alternative, func(key string) bool { return !slices.Contains(keys, key) })
	})
}

// Pods returns a text that names the pods which need the Secret.
func (c Credentials) Pods() string {
	if c.Workload == "" {
		return "driver's pods"
	}
	return string(c.Workload) + " pods"
}

// WantedKeys returns a text with the keys that a Secret must have.
func (c Credentials) WantedKeys() string {
	alternatives := make([]string, 0, len(c.Keys))
	for _, keys := range c.Keys {
		word := "key "
		switch {
		case len(keys) == 0:
			word = "any key"
		case len(keys) > 1:
			word = "keys "
		}
		alternatives = append(alternatives, word+strings.Join(keys, " and "))
	}
	return strings.Join(alternatives, ", or ")
}

// Requests reports whether the operator creates a CredentialsRequest. It returns false if the release creates the CredentialsRequest (Payload), or if
// the cluster does not serve the kind. In manual mode, it returns true only if a role for STS is configured. In other modes, it returns true for
// optional credentials only if a role is configured, or if the mode is mint. The default mode counts as mint only if the operator knows that the
// cluster mints. In passthrough mode, an optional request would give the administrator's own keys to node pods.
func (c Config) Requests(request Credentials) bool {
	switch {
	case request.Payload || !c.Kinds[CredentialsRequestKind()]:
		return false
	case c.RoleARNs[request.RoleARNVariable] != "":
		return true
	case c.CredentialsMode == operatorv1.CloudCredentialsModeManual:
		return false
	case request.Optional:
		return c.CredentialsMode == operatorv1.CloudCredentialsModeMint ||
			(c.CredentialsMode == operatorv1.CloudCredentialsModeDefault && c.Minting == Mints)
	default:
		return true
	}
}
