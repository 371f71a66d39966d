package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// run is one Sync.
type run struct {
	keeper  *Keeper
	writers map[string]vsphere.Writer
	removed bool
	// id is the infrastructure ID.
	id    string
	sites []*site
	// problems are those of changes that failed, waits what a removal waits for.
	problems []problem
	waits    []string
	changed  bool
	unsure   map[Step]bool
}

// stopped tells whether the rest of the plan is not to be done.
func (r *run) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || r.keeper.toRemove() != r.removed
}

// work takes the steps of one vCenter, until there is none, one fails, or one has to wait.
func (r *run) work(ctx context.Context, s *site) {
	writer, ok := r.writers[s.Server]
	for range maxSteps {
		step, more := s.next(r.removed)
		if !ok || !more || s.unpolled || r.stopped(ctx) {
			return
		}
		free, err := r.free(ctx, s, writer, step)
		switch {
		case err != nil:
			r.failed(ctx, s, step, "StorageProfile.View and System.Read on the vCenter", err)
			return
		case !free && r.removed:
			return
		case !free:
			continue // The next step is another one, because s.inUse is set.
		}
		id, err := step.act(ctx, writer, s.id)
		if err == nil {
			r.did(s, step, id)
			continue
		}
		reason := r.failed(ctx, s, step, step.privilege(), err)
		if reason != vsphere.NotAuthorized || step.Datastore == (vsphere.Ref{}) {
			if mayBeDone(reason) {
				r.unsure[step] = true
			}
			return
		}
		// The user may lack the privilege on this datastore only.
		s.refused = append(s.refused, step.Datastore)
	}
}

// did notes what a step has done. vCenters in linked mode share categories and tags: with the last of them, it is gone from all.
func (r *run) did(s *site, step Step, id string) {
	s.done(step, id)
	r.changed = true
	r.keeper.Tell(step.deed(s.id))
	if step.Verb != DeleteTag && step.Verb != DeleteCategory {
		return
	}
	s.unpolled = step.Verb == DeleteTag
	for _, one := range r.sites {
		one.unpolled = one.unpolled || one.hasTag(step.ID)
		one.done(step, id)
	}
}

// free asks right before something is lost whether anything needs it.
func (r *run) free(ctx context.Context, s *site, writer vsphere.Writer, step Step) (bool, error) {
	switch {
	case step.Verb == DeletePolicy:
		return r.unused(ctx, s, writer, step.ID)
	case step.Verb == Detach && !r.removed:
		for _, own := range s.policies() {
			if free, err := r.unused(ctx, s, writer, own.ID); err != nil || !free {
				return false, err
			}
		}
	case step.Verb == DeleteTag:
		return r.unattached(ctx, step)
	}
	return true, nil
}

func (r *run) unused(ctx context.Context, s *site, writer vsphere.Writer, policyID string) (bool, error) {
	count, err := writer.InUse(ctx, policyID)
	if err != nil || count == 0 {
		return err == nil, err
	}
	s.inUse = true
	if r.removed {
		r.waits = append(r.waits, fmt.Sprintf("%d objects of vCenter %s, such as volumes, use the storage policy %s: delete their PersistentVolumes, "+
			"or give them another policy", count, s.Server, Name(s.id)))
	}
	return false, nil
}

// unattached asks every vCenter that has the tag, which are several in linked mode.
func (r *run) unattached(ctx context.Context, step Step) (bool, error) {
	for _, one := range r.sites {
		if !one.hasTag(step.ID) {
			continue
		}
		writer, ok := r.writers[one.Server]
		if !ok {
			return false, nil
		}
		objects, err := writer.Attached(ctx, step.ID)
		if err != nil {
			return false, err
		}
		if len(objects) > 0 {
			r.waits = append(r.waits, fmt.Sprintf("%d objects of vCenter %s have got the tag %s since the last poll: the next one shows them",
				len(objects), one.Server, step.Name))
			return false, nil
		}
	}
	return true, nil
}

// failed notes why a step was not done, and the privilege that is needed if that is why.
func (r *run) failed(ctx context.Context, s *site, step Step, privilege string, err error) vsphere.Reason {
	reason := vsphere.ReasonOf(err)
	if ctx.Err() != nil || r.changed && (step.Verb == CreateCategory || step.Verb == CreateTag) && reason != vsphere.NotAuthorized {
		// In linked mode, it was just created through another vCenter: the next poll shows it.
		return reason
	}
	message := fmt.Sprintf("vCenter %s: %s %q failed, and is tried again after the next poll: %s", s.Server, step.Verb, step.Name, why(err))
	if reason == vsphere.NotAuthorized {
		message = fmt.Sprintf("The user %q of vCenter %s may not %s %q: give it %s", s.User, s.Server, step.Verb, step.Name, privilege)
	}
	r.problems = append(r.problems, problem{reason: string(reason), message: message})
	return reason
}

// mayBeDone tells whether a change that failed so may have been made all the same, or the last poll may be outdated.
func mayBeDone(reason vsphere.Reason) bool {
	return reason != vsphere.NotAuthorized && reason != vsphere.LoginRefused && reason != vsphere.Overloaded
}

// why is the last part of an error, whose first parts say where it was.
func why(err error) string {
	var own *vsphere.Error
	if errors.As(err, &own) && own.Why != "" {
		return strings.TrimSuffix(own.Why, ".")
	}
	return err.Error()
}
