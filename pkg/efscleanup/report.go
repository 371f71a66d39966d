package efscleanup

import (
	"cmp"
	"slices"
)

// Kind is the kind of an object.
type Kind string

// The kinds, in the order in which AWS allows the deletion of their objects.
const (
	AccessPoint   Kind = "access point"
	MountTarget   Kind = "mount target"
	FileSystem    Kind = "file system"
	SecurityGroup Kind = "security group"
)

// kinds returns the kinds in the order in which Run deletes their objects. The report has the same order.
func kinds() []Kind { return []Kind{AccessPoint, MountTarget, FileSystem, SecurityGroup} }

// State is the progress of an object's deletion.
type State string

// Planned means that Run would delete the object, but Options.Yes is false. Waiting means that Run can't delete the object yet. Refused means that
// the object belongs to the cluster, but that Run must not delete it.
const (
	Planned  State = "planned"
	Waiting  State = "waiting"
	Deleting State = "deleting"
	Deleted  State = "deleted"
	Refused  State = "refused"
	Failed   State = "failed"
)

// Object is an AWS object that the cluster owns.
type Object struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	// Name is the value of tag Name, or the name of the security group.
	Name string `json:"name,omitempty"`
	// FileSystem is the file system of an access point or a mount target.
	FileSystem string `json:"fileSystem,omitempty"`
	// Zone is the zone of a mount target or of a One Zone file system.
	Zone  string `json:"zone,omitempty"`
	State State  `json:"state"`
	// Reason says why the object was refused, has failed, or waits.
	Reason string `json:"reason,omitempty"`
}

// Report lists the objects that Run found, and the state of each object.
type Report struct {
	InfraID string `json:"infraID"`
	Account string `json:"account"`
	Region  string `json:"region"`
	// DryRun is true if the deletion was not confirmed with Yes, so that nothing was deleted.
	DryRun bool `json:"dryRun"`
	// Objects are in the order in which Run deletes them.
	Objects []Object `json:"objects"`
	// Requests is the number of requests to AWS, including retries.
	Requests int `json:"requests"`
}

// Outcome summarizes a report. The numbers are also the exit codes of "oc storage efs cleanup".
type Outcome int

// The outcomes. A program that needs a complete deletion calls Run again while the outcome is StillThere.
const (
	// Clean means that no object of the cluster is left.
	Clean Outcome = 0
	// HasFailed means that a deletion has failed.
	HasFailed Outcome = 1
	// LeftAlone means that Run must not delete an object with the cluster's tag. An administrator has to decide about this object.
	LeftAlone Outcome = 3
	// StillThere means that AWS is deleting an object, that an object waits for its deletion, or that Run deleted nothing because Options.Yes is false.
	StillThere Outcome = 4
)

// Outcome returns the most important outcome. A failure comes first, then objects for the next run, and then objects that stay.
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

// Count returns the number of objects in this state.
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
