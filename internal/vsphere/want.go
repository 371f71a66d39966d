package vsphere

import configv1 "github.com/openshift/api/config/v1"

// Want is what a poll looks at, besides what the configuration names. It comes from the cluster.
type Want struct {
	// InfrastructureID names the cluster: its tag category is openshift-<ID>.
	InfrastructureID string
	// FailureDomains are those of the Infrastructure. Without any, the configuration's default datacenter and datastore are the only one.
	FailureDomains []configv1.VSpherePlatformFailureDomainSpec
	// UUIDs are those of the nodes' VMs, in lower case, by providerID.
	UUIDs []string
	// Datastores are names and URLs that StorageClasses and PVs mention.
	Datastores []string
}
