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

// Tags are those of an object, by key. AWS compares keys and values with their case.
type Tags map[string]string

// FileSystem is an EFS file system.
type FileSystem struct {
	ID, ARN, CreationToken, State string
	// Account is the number of the account that owns it.
	Account string
	// Zone and ZoneID are those of a One Zone file system; both are empty for a regional one.
	Zone, ZoneID string
	Encrypted    bool
	// MountTargets is how many it has, as AWS counts them.
	MountTargets int
	Tags         Tags
}

// AccessPoint is an entry into a file system, with a root folder of its own.
type AccessPoint struct {
	ID, ARN, FileSystem, State string
	Account                    string
	// Path is the root folder.
	Path string
	Tags Tags
}

// MountTarget is the network interface of a file system in one zone. It has no tags.
type MountTarget struct {
	ID, FileSystem, Subnet, VPC, State string
	Zone, ZoneID, Address              string
}

// SecurityGroup is one of EC2. Its tags are read with it.
type SecurityGroup struct {
	ID, Name, VPC, Account string
	Tags                   Tags
}

// VPC is a network. CIDRs are the associated IPv4 blocks.
type VPC struct {
	ID    string
	CIDRs []string
	Tags  Tags
}

// Subnet is the part of a VPC in one zone.
type Subnet struct {
	ID, VPC, Zone, ZoneID string
	Tags                  Tags
}

// Identity is whose credentials are used.
type Identity struct {
	Account, ARN string
}

// Identifier says whose credentials are used. Every identity may ask that.
type Identifier interface {
	Identity(ctx context.Context) (Identity, error)
}

// Reader reads what is in EFS. Nothing that it does changes anything.
type Reader interface {
	FileSystems(ctx context.Context) ([]FileSystem, error)
	// FileSystem reads one; if there is none, IsNotFound is true of the error.
	FileSystem(ctx context.Context, id string) (FileSystem, error)
	// AccessPoints lists those of a file system, or of all with the ID "".
	AccessPoints(ctx context.Context, fileSystem string) ([]AccessPoint, error)
	AccessPoint(ctx context.Context, id string) (AccessPoint, error)
	MountTargets(ctx context.Context, fileSystem string) ([]MountTarget, error)
}

// NetworkReader reads what is in EC2.
type NetworkReader interface {
	SecurityGroups(ctx context.Context, tagKey string) ([]SecurityGroup, error)
	SecurityGroup(ctx context.Context, id string) (SecurityGroup, error)
	// VPCs and Subnets list those with the tag key, and those of the IDs; give one of the two.
	VPCs(ctx context.Context, tagKey string, ids ...string) ([]VPC, error)
	Subnets(ctx context.Context, tagKey string, ids ...string) ([]Subnet, error)
}

// Deleter deletes, and looks at no tags: its caller must have done that.
type Deleter interface {
	DeleteAccessPoint(ctx context.Context, id string) error
	DeleteMountTarget(ctx context.Context, id string) error
	DeleteFileSystem(ctx context.Context, id string) error
	DeleteSecurityGroup(ctx context.Context, id string) error
}

// NewFileSystem says what file system to create. It is encrypted, with the key that AWS has for EFS, and not
// backed up.
type NewFileSystem struct {
	// Token makes AWS recognize two requests for the same file system: at most 64 characters.
	Token string
	// Zone makes it a One Zone file system; empty for a regional one.
	Zone string
	Tags Tags
}

// NewSecurityGroup says what security group to create.
type NewSecurityGroup struct {
	Name, Description, VPC string
	Tags                   Tags
}

// Creator creates. Tags are put on in the same request, so that nothing is ever without them.
type Creator interface {
	// FileSystemByToken finds the file system that was created with the token; found is false if there is none.
	FileSystemByToken(ctx context.Context, token string) (fileSystem FileSystem, found bool, err error)
	CreateFileSystem(ctx context.Context, wanted NewFileSystem) (FileSystem, error)
	CreateMountTarget(ctx context.Context, fileSystem, subnet string, securityGroups ...string) (MountTarget, error)
	CreateSecurityGroup(ctx context.Context, wanted NewSecurityGroup) (id string, err error)
	// AllowTCP lets the blocks reach a port. It is no error if they may already.
	AllowTCP(ctx context.Context, securityGroup string, port int32, cidrs ...string) error
}
