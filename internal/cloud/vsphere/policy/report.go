package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere"
)

// Reasons of a State besides those of a vsphere.Error.
const (
	// PolicyNotOurs, CategoryNotOurs: something of the name has been made, or changed, by somebody else.
	PolicyNotOurs   = "StoragePolicyNotOurs"
	CategoryNotOurs = "TagCategoryNotOurs"
	// CategoryWithoutDatastores: the tags of the category can't be attached to datastores.
	CategoryWithoutDatastores = "TagCategoryWithoutDatastores"
	// DatastoreNotFound: a failure domain names a datastore that the vCenter does not show.
	DatastoreNotFound = "DatastoreNotFound"
	// VCenterNotConfigured: a failure domain names a vCenter that the cloud configuration lacks.
	VCenterNotConfigured = "VCenterNotConfigured"
	// NoDatastore: there is neither a failure domain nor a default datastore.
	NoDatastore = "NoDatastore"
	// NoInfrastructureName: the cluster has no name to call things by.
	NoInfrastructureName = "NoInfrastructureName"
	// DatastoreStillTagged: a datastore has the tag that no failure domain names. The policy is Ready all the same.
	DatastoreStillTagged = "DatastoreStillTagged"
)

// problem is something that is wrong.
type problem struct {
	reason, message string
	// note means that the policy is as it should be in spite of it.
	note bool
}

// report is what a Sync has found. From it, the state follows.
type report struct {
	name     string
	removed  bool
	problems []problem
	waits    []string
	// pending means that there are steps to do.
	pending bool
}

// report says how things are after what was done.
func (r *run) report(all, lost []place) report {
	next := report{name: Name(r.id), removed: r.removed, problems: r.problems, waits: r.waits}
	add := func(reason, format string, args ...any) {
		next.problems = append(next.problems, problem{reason: reason, message: fmt.Sprintf(format, args...)})
	}
	switch {
	case r.id == "":
		next.name = ""
		add(NoInfrastructureName, "The Infrastructure cluster has no status.infrastructureName, which names the storage policy: see whether the "+
			"installation has finished")
		return next
	case len(r.sites) == 0:
		next.waits = append(next.waits, "The cloud configuration names no vCenter, so nobody knows where the storage policy is")
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
			next.waits = append(next.waits, fmt.Sprintf("vCenter %s has to answer, so that the storage policy can be deleted there%s",
				s.Server, s.silence()))
		}
	}
	return next
}

// silence is why the vCenter does not answer.
func (s *site) silence() string {
	if s.Err == nil {
		return ""
	}
	return ": " + strings.TrimSuffix(s.Err.Why, ".")
}

// problems are what keeps the policy from being as it should be in a vCenter, and what people should know.
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
		// With an error, the last good poll counts. A policy that was as it should be stays so.
		reason := vsphere.NoConnection
		if s.Err != nil {
			reason = s.Err.Reason
		}
		add(string(reason), "The storage policy waits for an answer of vCenter %s%s", s.Server, s.silence())
		return all
	}
	if s.stranger() {
		add(PolicyNotOurs, "The storage policy %s of vCenter %s does not place by the tag %s of the category %s alone, so the operator does not "+
			"use or change it: rename or delete it, or give it this rule", Name(s.id), s.Server, TagName(s.id), CategoryName(s.id))
	}
	if category, ok := s.named(); ok && !ownsCategory(category, s.id) {
		add(CategoryNotOurs, "The tag category %s of vCenter %s is not the cluster's: neither its description nor its cardinality and types are. "+
			"Rename or delete it, or set its description to %q", category.Name, s.Server, description)
	} else if ok && !takesDatastores(category) {
		add(CategoryWithoutDatastores, "Tags of the category %s of vCenter %s can't be attached to datastores: add Datastore to its associable "+
			"object types", category.Name, s.Server)
	}
	_, missing := s.wanted()
	for _, one := range missing {
		add(DatastoreNotFound, "%s names the datastore %q in the datacenter %q, which vCenter %s does not show: correct the name, or give the user %q "+
			"System.Read on the datastore", one, one.datastore, one.datacenter, s.Server, s.User)
	}
	if why := s.keeps(); len(all) == 0 && why != "" {
		add(DatastoreStillTagged, "No failure domain names the datastores %s of vCenter %s. They keep the tag %s, and get new volumes, as long as %s. "+
			"Detach the tag there if they should not", s.paths(s.surplus()), s.Server, TagName(s.id), why)
		all[0].note = true
	}
	return all
}

// keeps is why datastores that no failure domain names keep the tag; empty if there is none.
func (s *site) keeps() string {
	switch needed := s.needed(); {
	case len(s.surplus()) == 0:
	case len(needed) > 0:
		return fmt.Sprintf("other policies place by it (%s)", quoted(needed))
	case s.inUse:
		return "anything uses the policy " + Name(s.id)
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

// quoted lists names, of which any character may be part.
func quoted(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", name))
	}
	return strings.Join(list, ", ")
}

// String names a place to people.
func (p place) String() string {
	if p.domain == "" {
		return "The default of the cloud configuration"
	}
	return fmt.Sprintf("The failure domain %q", p.domain)
}

// state follows from a report, and from the state before: who looks at it twice sees the same as long as the same is wrong.
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
