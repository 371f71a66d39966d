package aws

import "context"

// Life-cycle states of EFS objects, as AWS names them.
const (
	StateCreating  = "creating"
	StateAvailable = "available"
	StateDeleting  = "deleting"
	StateDeleted   = "deleted"
	StateError     = "error"
)

// Tags maps keys to values. Keys and values are case-sensitive.
type Tags map[string]string

// FileSystem is an EFS file system.
type FileSystem struct {
	ID, ARN, CreationToken, State string
	// Account is the ID of the owner's account.
	Account string
	// Zone and ZoneID are set for One Zone file systems only.
	Zone, ZoneID string
	Encrypted    bool
	// Bytes is the size that AWS measured last. AWS measures about once an hour.
	Bytes int64
	// MountTargets is the number of mount targets.
	MountTargets int
	Tags         Tags
}

// AccessPoint is an entry point to a file system, with its own root directory.
type AccessPoint struct {
	ID, ARN, FileSystem, State string
	Account                    string
	// Path is the root directory.
	Path string
	Tags Tags
}

// MountTarget is a file system's network interface in one zone. It has no tags.
type MountTarget struct {
	ID, FileSystem, Subnet, VPC, State string
	Zone, ZoneID, Address              string
	// IPv6 is the IPv6 address. It is empty for a mount target with an IPv4 address only.
	IPv6 string
}

// SecurityGroup is an EC2 security group, with its tags.
type SecurityGroup struct {
	ID, ARN, Name, VPC, Account string
	Tags                        Tags
	// Rules are the inbound rules.
	Rules []Rule
}

// Rule is an inbound rule of a security group.
type Rule struct {
	// Protocol is a name such as tcp, a number, or -1 for all protocols. A rule for all protocols has no ports.
	Protocol string
	From, To int32
	// CIDRs, Groups and PrefixLists are the sources from which the rule allows traffic.
	CIDRs, Groups, PrefixLists []string
}

// NetworkInterface is the primary network interface of an instance.
type NetworkInterface struct {
	Instance, Subnet string
	Groups           []string
	// Addresses are the private IPv4 address and the IPv6 addresses.
	Addresses []string
}

// VPC is a network. CIDRs are its associated IPv4 blocks.
type VPC struct {
	ID    string
	CIDRs []string
	Tags  Tags
}

// Subnet is a subnet of a VPC, in one zone.
type Subnet struct {
	ID, VPC, Zone, ZoneID string
	Tags                  Tags
}

// Identity is the caller's AWS identity.
type Identity struct {
	Account, ARN string
}

// Identifier returns the caller's identity. The call needs no permission.
type Identifier interface {
	Identity(ctx context.Context) (Identity, error)
}

// Reader reads EFS objects.
type Reader interface {
	FileSystems(ctx context.Context) ([]FileSystem, error)
	// FileSystem reads a file system. If it does not exist, IsNotFound is true for the error.
	FileSystem(ctx context.Context, id string) (FileSystem, error)
	// AccessPoints lists the access points of a file system, or of all file systems for an empty ID.
	AccessPoints(ctx context.Context, fileSystem string) ([]AccessPoint, error)
	AccessPoint(ctx context.Context, id string) (AccessPoint, error)
	MountTargets(ctx context.Context, fileSystem string) ([]MountTarget, error)
}

// NetworkReader reads EC2 objects.
type NetworkReader interface {
	SecurityGroups(ctx context.Context, tagKey string) ([]SecurityGroup, error)
	SecurityGroup(ctx context.Context, id string) (SecurityGroup, error)
	// VPCs and Subnets filter by a tag key or by IDs. The caller must pass either a tag key or IDs, and not both.
	VPCs(ctx context.Context, tagKey string, ids ...string) ([]VPC, error)
	Subnets(ctx context.Context, tagKey string, ids ...string) ([]Subnet, error)
}

// Deleter deletes without a check of tags, so its callers must check the tags.
type Deleter interface {
	DeleteAccessPoint(ctx context.Context, id string) error
	DeleteMountTarget(ctx context.Context, id string) error
	DeleteFileSystem(ctx context.Context, id string) error
	DeleteSecurityGroup(ctx context.Context, id string) error
}

// NewFileSystem describes a file system to create. AWS encrypts the file system with its own key for EFS, and makes no backups of it.
type NewFileSystem struct {
	// Token is the idempotency token of the creation: at most 64 characters.
	Token string
	// Zone is the zone of a One Zone file system; empty means regional.
	Zone string
	Tags Tags
}

// NewSecurityGroup describes a security group to create.
type NewSecurityGroup struct {
	Name, Description, VPC string
	Tags                   Tags
}

// Creator creates objects. It sets an object's tags in the request that creates the object, so that no object is ever untagged.
type Creator interface {
	// FileSystemByToken finds the file system with a creation token.
	FileSystemByToken(ctx context.Context, token string) (fileSystem FileSystem, found bool, err error)
	CreateFileSystem(ctx context.Context, wanted NewFileSystem) (FileSystem, error)
	CreateMountTarget(ctx context.Context, fileSystem, subnet string, securityGroups ...string) (MountTarget, error)
	CreateSecurityGroup(ctx context.Context, wanted NewSecurityGroup) (id string, err error)
	// AllowTCP allows inbound traffic from the CIDRs to a port, unless a rule already allows it.
	AllowTCP(ctx context.Context, securityGroup string, port int32, cidrs ...string) error
}
