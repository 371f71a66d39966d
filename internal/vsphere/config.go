package vsphere

// Config is the configuration of the cloud, parsed. See Parse.
type Config struct {
	// VCenters are in the order of the file.
	VCenters []VCenterConfig
	// Labels are the categories of tags of zones and regions, where the file names them.
	ZoneCategory, RegionCategory string
	// Workspace is that of the legacy form: where a cluster without failure domains has its VMs.
	Workspace Workspace
}

// VCenterConfig is how one vCenter is reached.
type VCenterConfig struct {
	// Server is a host name or IP address, Port usually 443.
	Server string
	Port   int
	// Insecure means that its certificate is not to be verified, by the user's word.
	Insecure bool
	// CAFile and Thumbprint are what the file says; files of other pods can't be read here.
	CAFile, Thumbprint string
	// Datacenters are names or paths.
	Datacenters []string
}

// Workspace is the default place.
type Workspace struct {
	Server, Datacenter, Folder, Datastore, ResourcePool string
}

// Login is user and password of one vCenter. It has no String that tells them.
type Login struct{ User, Password string }

// Key is that of the user or password of a vCenter in the Secret that the cloud-credential-operator makes: SERVER.username and
// SERVER.password.
func Key(server, field string) string { return server + "." + field }
