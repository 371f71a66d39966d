package efscleanup

import (
	"cmp"
	"slices"
)

// Kind is what an object is.
type Kind string

// The kinds, in the order in which AWS lets them be deleted.
const (
	AccessPoint   Kind = "access point"
	MountTarget   Kind = "mount target"
	FileSystem    Kind = "file system"
	SecurityGroup Kind = "security group"
)

// kinds is the order of deletion and of the report.
func kinds() []Kind { return []Kind{AccessPoint, MountTarget, FileSystem, SecurityGroup} }

// State is what has become of an object.
type State string

// Planned is what would be deleted; Waiting, what can't be yet; Refused, what is the cluster's and may not be deleted.
const (
	Planned  State = "planned"
	Waiting  State = "waiting"
	Deleting State = "deleting"
	Deleted  State = "deleted"
	Refused  State = "refused"
	Failed   State = "failed"
)

// Object is one thing in AWS that the cluster owns.
type Object struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	// Name is that of tag Name, or of the group.
	Name string `json:"name,omitempty"`
	// FileSystem is where an access point or a mount target is.
	FileSystem string `json:"fileSystem,omitempty"`
	// Zone is that of a mount target or a One Zone file system.
	Zone  string `json:"zone,omitempty"`
	State State  `json:"state"`
	// Reason says why it is refused or has failed, or what it waits for.
	Reason string `json:"reason,omitempty"`
}

// Report is what was found and what has become of it.
type Report struct {
	InfraID string `json:"infraID"`
	Account string `json:"account"`
	Region  string `json:"region"`
	// DryRun is true if nothing was to be changed.
	DryRun bool `json:"dryRun"`
	// Objects are in the order of their deletion.
	Objects []Object `json:"objects"`
	// Requests is how many were sent to AWS, repeated ones included.
	Requests int `json:"requests"`
}

// Outcome sums a report up. Its numbers are the exit codes of "oc storage efs cleanup".
type Outcome int

// The outcomes. A program that is to be run again until nothing is left does that while it is StillThere.
const (
	// Clean: nothing that the cluster owns is left.
	Clean Outcome = 0
	// HasFailed: AWS has refused something, or did not answer.
	HasFailed Outcome = 1
	// LeftAlone: something that has the cluster's tag may not be deleted; somebody has to look.
	LeftAlone Outcome = 3
	// StillThere: something is being deleted, or waits for that, or would be deleted if this were no dry run.
	StillThere Outcome = 4
)

// Outcome is what matters most: a failure, then what the next run will delete, then what stays.
func (r Report) Outcome() Outcome {
	switch {
	case r.Count(Failed) > 0:
		return HasFailed
	case r.Count(Planned)+r.Count(Waiting)+r.Count(Deleting) > 0:
		return StillThere
	case r.Count(Refused) > 0:
		return LeftAlone
	}
	return Clean
}

// Count is how many objects are in a state.
func (r Report) Count(state State) int {
	count := 0
	for _, object := range r.Objects {
		if object.State == state {
			count++
		}
	}
	return count
}

func sortObjects(objects []Object) {
	order := kinds()
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(
			slices.Index(order, a.Kind)-slices.Index(order, b.Kind), cmp.Compare(a.FileSystem, b.FileSystem), cmp.Compare(a.ID, b.ID),
		)
	})
}
