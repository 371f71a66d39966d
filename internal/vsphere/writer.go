package vsphere

import "context"

// Writer changes what a cluster has in one vCenter, and nothing else. Every call is one change. All errors are *Error.
type Writer interface {
	// CreateCategory returns the ID. Types are those of objects that its tags can be attached to.
	CreateCategory(ctx context.Context, category Category) (id string, err error)
	DeleteCategory(ctx context.Context, id string) error
	CreateTag(ctx context.Context, tag Tag) (id string, err error)
	DeleteTag(ctx context.Context, id string) error
	Attach(ctx context.Context, tagID string, objects []Ref) error
	Detach(ctx context.Context, tagID string, objects []Ref) error
	// Attached are all objects of a tag, asked live: before it is deleted.
	Attached(ctx context.Context, tagID string) ([]Ref, error)
	CreatePolicy(ctx context.Context, policy Policy) (id string, err error)
	// UpdatePolicy replaces the rules of a policy.
	UpdatePolicy(ctx context.Context, policy Policy) error
	DeletePolicy(ctx context.Context, id string) error
	// InUse tells how many objects, such as volumes, have a policy, asked live: before it is deleted.
	InUse(ctx context.Context, policyID string) (int, error)
}
