package driver

import (
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Credentials is one CredentialsRequest. Its asset is assets/credentials/<Asset> of Driver.Assets.
type Credentials struct {
	Asset string
	// Request is the name of the CredentialsRequest, Secret that of the Secret it asks for.
	Request, Secret string
	// Workload is the one whose pods use the Secret; empty if none does, because Driver.Derived is made of it.
	Workload Workload
	// Condition starts the condition types that report on this request.
	Condition string
	// RoleARNVariable is the environment variable with the IAM role for STS.
	RoleARNVariable string
	// Optional credentials are asked for only where they can be honoured; the driver works without.
	Optional bool
	// Payload credentials are asked for by a manifest of the release, so that they are there when a cluster is installed, and can be
	// extracted before. The operator only uses the Secret.
	Payload bool
	// Keys are alternatives: the Secret must have all keys of one of them. An alternative without keys is any Secret that has some: what they
	// are called is known to Driver.Derived only.
	Keys [][]string
	// FileSetting, if set, is the setting that lets pods mount with the Secret's file of credentials: the two keys alone are of no use for that.
	FileSetting string
}

// CredentialsFile is the key of a Secret with a configuration file of AWS.
const CredentialsFile = "credentials"

// CredentialsOf returns the credentials that the pods of a workload use; zero if they use none.
func (d Driver) CredentialsOf(workload Workload) Credentials {
	for _, credentials := range d.Credentials {
		if credentials.Workload == workload {
			return credentials
		}
	}
	return Credentials{}
}

// LacksFile tells whether a setting asks for a file that a Secret with these keys does not have. A role needs none.
func (c Credentials) LacksFile(cfg Config, keys []string) bool {
	asked := c.FileSetting != "" && cfg.Settings[c.FileSetting] == "true"
	return asked && cfg.RoleARNs[c.RoleARNVariable] == "" && !slices.Contains(keys, CredentialsFile)
}

// Usable tells whether a Secret with these keys is of use.
func (c Credentials) Usable(keys []string) bool {
	return len(keys) > 0 && slices.ContainsFunc(c.Keys, func(alternative []string) bool {
		return !slices.ContainsFunc(alternative, func(key string) bool { return !slices.Contains(keys, key) })
	})
}

// Pods names those that wait for the Secret.
func (c Credentials) Pods() string {
	if c.Workload == "" {
		return "driver's pods"
	}
	return string(c.Workload) + " pods"
}

// WantedKeys names the keys that a Secret must have.
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

// Requests tells whether the CredentialsRequest c is to be created. Without the cloud-credential-operator's API there
// is none. In manual mode it needs a role for STS. An optional one would hand the node pods the administrator's own keys where
// these are passed through, so it needs a role, mint mode, or a default mode that was seen to mint.
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
