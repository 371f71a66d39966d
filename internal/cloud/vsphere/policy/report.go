package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// Reasons of a State, in addition to the reasons of vsphere.Error.
const (
	// PolicyNotOurs and CategoryNotOurs mean that a policy or category of another owner has a name that the cluster needs. A change of the cluster's own
	// policy or category has the same effect.
	PolicyNotOurs   = "StoragePolicyNotOurs"
	CategoryNotOurs = "TagCategoryNotOurs"
	// CategoryWithoutDatastores means that the category allows no tags on datastores.
	CategoryWithoutDatastores = "TagCategoryWithoutDatastores"
	// DatastoreNotFound means that a failure domain names a datastore that does not exist, or that the user can't see.
	DatastoreNotFound = "DatastoreNotFound"
	// VCenterNotConfigured means that the cloud configuration lacks the vCenter of a failure domain.
	VCenterNotConfigured = "VCenterNotConfigured"
	// NoDatastore means that the cluster has neither a failure domain nor a default datastore.
	NoDatastore = "NoDatastore"
	// NoInfrastructureName means that the Infrastructure has no infrastructureName. All names derive from it.
	NoInfrastructureName = "NoInfrastructureName"
	// DatastoreStillTagged means that a datastore still has the tag, although no failure domain names this datastore. The policy is Ready nevertheless.
	DatastoreStillTagged = "DatastoreStillTagged"
)

// problem is a problem in one vCenter.
type problem struct {
	reason, message string
	// note is true if the problem does not affect the policy. The policy can be Ready nevertheless.
	note bool
}

// report is the result of a Sync. Its method "state" derives the State.
type report struct {
	name     string
	removed  bool
	problems []problem
	waits    []string
	// pending means that steps remain.
	pending bool
}

// report summarizes the state after the steps.
func (r *run) report(all, lost []place) report {
	next := report{name: Name(r.id), removed: r.removed, problems: r.problems, waits: r.waits}
	add := func(reason, format string, args ...any) {
		next.problems = append(next.problems, problem{reason: reason, message: fmt.Sprintf(format, args...)})
	}
	switch {
	case r.id == "":
		next.name = ""
		add(NoInfrastructureName, "The Infrastructure cluster has no status.infrastructureName, which names the storage policy: check whether the "+
			"installation has finished")
		return next
	case len(r.sites) == 0:
		next.waits = append(next.waits, "The cloud configuration names no vCenter, so the operator can't find the storage policy")
	case r.removed:
	case len(all) == 0:
		add(NoDatastore, "Neither the failure domains of the Infrastructure cluster nor the cloud configuration name a datastore: add a failure domain")
	default:
		for _, one := range lost {
			add(VCenterNotConfigured, "%s is in vCenter %s, which the cloud configuration lacks: add the vCenter there, or correct the failure domain",
				one, one.server)
		}
	}
	for _, s := range r.sites {
		next.pending = next.pending || len(s.plan(r.removed)) > 0
		switch {
		case !r.removed:
			next.problems = append(next.problems, s.problems()...)
		case !s.answers():
			next.waits = append(next.waits, fmt.Sprintf("vCenter %s must answer before the operator can delete the storage policy there%s",
				s.Server, s.noAnswerReason()))
		}
	}
	return next
}

// noAnswerReason returns why the vCenter does not answer.
func (s *site) noAnswerReason() string {
	if s.Err == nil {
		return ""
	}
	return ": " + strings.TrimSuffix(s.Err.Why, ".")
}

// problems returns the problems and notes about the policy in a vCenter.
func (s *site) problems() (all []problem) {
	add := func(reason, format string, args ...any) {
		all = append(all, problem{reason: reason, message: fmt.Sprintf(format, args...)})
	}
	answered := *s
	answered.Err = nil
	switch {
	case len(s.places) == 0:
		return nil
	case s.Answered.IsZero(), s.Err != nil && len(answered.plan(false)) > 0:
		// A failed poll is a problem only if the last successful poll shows that steps remain. So a policy that was Ready stays Ready.
		reason := vsphere.NoConnection
		if s.Err != nil {
			reason = s.Err.Reason
		}
		add(string(reason), "The storage policy waits for an answer of vCenter %s%s", s.Server, s.noAnswerReason())
		return all
	}
	if s.hasForeignPolicy() {
		add(PolicyNotOurs, "The storage policy %s of vCenter %s has other rules than the tag %s of the category %s, so the operator neither uses "+
			"nor changes the policy: rename or delete the policy, or make this tag its only rule", Name(s.id), s.Server, TagName(s.id), CategoryName(s.id))
	}
	if category, ok := s.named(); ok && !ownsCategory(category, s.id) {
		add(CategoryNotOurs, "The tag category %s of vCenter %s is not the cluster's: neither its description nor its cardinality and types match. "+
			"Rename or delete it, or set its description to %q", category.Name, s.Server, description)
	} else if ok && !allowsDatastores(category) {
		add(CategoryWithoutDatastores, "Tags of the category %s of vCenter %s can't be attached to datastores: add Datastore to its associable "+
			"object types", category.Name, s.Server)
	}
	_, missing := s.wanted()
	for _, one := range missing {
		add(DatastoreNotFound, "%s names the datastore %q in the datacenter %q, which vCenter %s does not show: correct the name, or grant the user %q "+
			"System.Read on the datastore", one, one.datastore, one.datacenter, s.Server, s.User)
	}
	if why := s.whyTagged(); len(all) == 0 && why != "" {
		add(DatastoreStillTagged, "No failure domain names the datastores %s of vCenter %s. They keep the tag %s, and get new volumes, as long as %s. "+
			"Detach the tag from datastores that should get no new volumes", s.paths(s.surplus()), s.Server, TagName(s.id), why)
		all[0].note = true
	}
	return all
}

// whyTagged returns why the Keeper can't untag the datastores in surplus. It returns an empty text if surplus is empty, or if nothing prevents the
// untagging.
func (s *site) whyTagged() string {
	switch needed := s.needed(); {
	case len(s.surplus()) == 0:
	case len(needed) > 0:
		return fmt.Sprintf("other storage policies use this tag (%s)", quoted(needed))
	case s.inUse:
		return "something uses the policy " + Name(s.id)
	}
	return ""
}

func (s *site) paths(refs []vsphere.Ref) string {
	var paths []string
	for _, ref := range refs {
		paths = append(paths, s.pathOf(ref))
	}
	slices.Sort(paths)
	return quoted(paths)
}

// quoted puts names in quotes, because they can have any characters.
func quoted(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", name))
	}
	return strings.Join(list, ", ")
}

// String returns a text about a place, for messages.
func (p place) String() string {
	if p.domain == "" {
		return "Section Workspace of the cloud configuration"
	}
	return fmt.Sprintf("The failure domain %q", p.domain)
}

// state derives the State from a report. Reason and Since of the previous state stay while a problem with this reason exists.
func (r report) state(before State, now time.Time) State {
	next := State{Name: r.name}
	serious := without(r.problems, func(one problem) bool { return one.note })
	if r.removed {
		next.Removed = !r.pending && len(r.waits) == 0 && len(serious) == 0
		next.Waits = strings.Join(r.waits, ". ")
	} else {
		next.Ready = !r.pending && len(serious) == 0
	}
	shown := serious
	if len(shown) == 0 {
		shown = r.problems
	}
	if len(shown) == 0 {
		return next
	}
	next.Reason, next.Since = shown[0].reason, now
	if slices.ContainsFunc(shown, func(one problem) bool { return one.reason == before.Reason }) {
		next.Reason, next.Since = before.Reason, before.Since
	}
	var sentences []string
	for _, one := range shown {
		sentences = append(sentences, one.message)
	}
	next.Message = strings.Join(sentences, ". ")
	return next
}
