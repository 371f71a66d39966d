package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// run is the state of one call of Sync.
type run struct {
	keeper  *Keeper
	writers map[string]vsphere.Writer
	removed bool
	// id is the infrastructure ID.
	id    string
	sites []*site
	// problems are the errors of failed steps. waits are the reasons why a removal is blocked.
	problems []problem
	waits    []string
	changed  bool
	unsure   map[Step]bool
}

// stopped reports whether to skip the rest of the plan.
func (r *run) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || r.keeper.toRemove() != r.removed
}

// work executes the steps in one vCenter. It ends when no step remains, when a step fails, or when a step must wait.
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
			continue // s.inUse is set, so the next step differs.
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
		// The user may lack the privilege on this datastore only, so continue with other datastores.
		s.refused = append(s.refused, step.Datastore)
	}
}

// did records the effect of a step. vCenters in linked mode share categories and tags, so the deletion of a category or tag affects all these
// vCenters.
func (r *run) did(s *site, step Step, id string) {
	s.done(step, id)
	r.changed = true
	r.keeper.Record(step.event(s.id))
	if step.Verb != DeleteTag && step.Verb != DeleteCategory {
		return
	}
	s.unpolled = step.Verb == DeleteTag
	for _, one := range r.sites {
		one.unpolled = one.unpolled || one.hasTag(step.ID)
		one.done(step, id)
	}
}

// free reports whether a step is safe. Nothing may use the policy or the tag that a step deletes. Nothing may use the policy when a step detaches the
// tag, except during a removal. The Keeper calls free directly before each step.
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
			"or assign them another policy", count, s.Server, Name(s.id)))
	}
	return false, nil
}

// unattached reports whether the tag of a step is on no object of any vCenter. In linked mode, several vCenters have the tag, so unattached queries
// each of these vCenters.
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
			r.waits = append(r.waits, fmt.Sprintf("%d objects of vCenter %s got the tag %s after the last poll: the next poll shows them",
				len(objects), one.Server, step.Name))
			return false, nil
		}
	}
	return true, nil
}

// failed records why a step failed, and returns the reason. If the user lacks a privilege, the record names the privilege.
func (r *run) failed(ctx context.Context, s *site, step Step, privilege string, err error) vsphere.Reason {
	reason := vsphere.ReasonOf(err)
	if ctx.Err() != nil || r.changed && (step.Verb == CreateCategory || step.Verb == CreateTag) && reason != vsphere.NotAuthorized {
		// Record nothing if ctx has ended. Record nothing, either, if the operator may have just created this category or tag through another vCenter in
		// linked mode. The next poll shows whether it exists.
		return reason
	}
	message := fmt.Sprintf("vCenter %s: %s %q failed, and is retried after the next poll: %s", s.Server, step.Verb, step.Name, why(err))
	if reason == vsphere.NotAuthorized {
		message = fmt.Sprintf("The user %q of vCenter %s may not %s %q: grant it %s", s.User, s.Server, step.Verb, step.Name, privilege)
	}
	r.problems = append(r.problems, problem{reason: string(reason), message: message})
	return reason
}

// mayBeDone reports whether a change that failed for this reason may still have succeeded. It also returns true for reasons that an outdated poll can
// explain, such as Conflict.
func mayBeDone(reason vsphere.Reason) bool {
	return reason != vsphere.NotAuthorized && reason != vsphere.LoginRefused && reason != vsphere.Overloaded
}

// why returns the last part of an error, without the operation and the server.
func why(err error) string {
	var own *vsphere.Error
	if errors.As(err, &own) && own.Why != "" {
		return strings.TrimSuffix(own.Why, ".")
	}
	return err.Error()
}
